package fault

import (
	"context"
	"errors"
	"fmt"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
)

// Run takes a fault through its whole life. Whatever goes wrong, what was done is healed before Run returns, with a
// context of its own when ctx has ended; the error says which stage was not reached (StageError) and, joined to it,
// what went wrong while healing. The hold ends early when ctx ends, which is an error as well.
func (g *Guard) Run(ctx context.Context) error { return g.finish(ctx, g.hurt(ctx)) }

// RunOpen takes a fault to the end of its hold and leaves it there: end takes it through the rest, and must be called.
// Of a fault that does not come so far, what was done is healed before RunOpen returns its error, and end is nil.
func (g *Guard) RunOpen(ctx context.Context) (end func(context.Context) error, err error) {
	if failure := g.hurt(ctx); failure != nil {
		return nil, g.finish(ctx, failure)
	}
	return func(ctx context.Context) error { return g.finish(ctx, nil) }, nil
}

// finish goes from the end of the hold, or from a failure before it, to the end of the fault's life.
func (g *Guard) finish(ctx context.Context, failure error) error {
	if g.state == StateFresh || g.state == StateHurt && !g.injected && !g.armed {
		return failure // Nothing was touched.
	}
	ended := g.end(ctx)
	if failure == nil && ended == nil && g.cfg.After != nil {
		if err := g.cfg.After(ctx); err != nil {
			return g.wrap("after the heal of", err)
		}
	}
	return errors.Join(failure, ended)
}

// hurt goes as far as the end of the hold.
func (g *Guard) hurt(ctx context.Context) error {
	for _, stage := range []func(context.Context) error{g.Begin, g.Arm, g.Inject, g.provoke, g.Confirm} {
		if err := ctx.Err(); err != nil {
			return g.abandon(ctx, "the next stage after "+string(g.state))
		}
		if err := stage(ctx); err != nil {
			return err
		}
	}
	if g.cfg.During != nil {
		if err := g.cfg.During(ctx); err != nil {
			return g.fail(verbDuring, err)
		}
	}
	if err := await.For(ctx, g.cfg.Step.Fault.Hold.D()); err != nil {
		return g.abandon(ctx, verbHold)
	}
	return g.stillHeld(ctx)
}

func (g *Guard) provoke(ctx context.Context) error {
	if g.cfg.Provoke == nil {
		return nil
	}
	if err := g.cfg.Provoke(ctx); err != nil {
		return g.fail(verbProvoke, err)
	}
	return nil
}

// stillHeld asks a fault that can tell whether its effect has lasted to the end of the hold. What it saw is evidence of
// the heal that follows: until then, the fault was there.
func (g *Guard) stillHeld(ctx context.Context) error {
	holder, ok := g.f.(Holder)
	if !ok {
		return nil
	}
	limit := g.cfg.Limits.Heal
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the limit of %s is over", limit))
	defer cancel()
	facts, err := caught(bounded, func(ctx context.Context) ([]Fact, error) { return evident(holder.Held(ctx)) })
	if err != nil {
		return g.fail(verbHold, fmt.Errorf("it was not there to the end: %w", err))
	}
	g.held = facts
	return nil
}

// abandon records that the fault was given up before its time.
func (g *Guard) abandon(ctx context.Context, verb string) error {
	return g.fail(verb, fmt.Errorf("given up before its time: %w", errors.Join(ctx.Err(), context.Cause(ctx))))
}

// fail records an error between two stages.
func (g *Guard) fail(verb string, cause error) error {
	err := g.wrap(verb, cause)
	if g.state != StateFresh {
		g.state = StateHurt
	}
	now := history.At(g.cfg.Env.Clock())
	return errors.Join(err, g.record(history.StageFaultFailed, now, nil, err))
}

// end heals and shows it, whatever became of ctx.
func (g *Guard) end(ctx context.Context) error {
	fresh := context.WithoutCancel(ctx)
	healed := g.Heal(fresh)
	if g.state != StateHealed {
		healed = errors.Join(healed, g.Heal(fresh)) // Once more: the first may have died of what is over now.
	}
	if g.state != StateHealed {
		return healed
	}
	if !g.injected { // Nothing was done, so there is nothing whose end could be shown.
		return healed
	}
	if ctx.Err() == nil {
		shown := g.ConfirmHealed(ctx)
		healed = errors.Join(healed, shown)
		if shown == nil || ctx.Err() == nil {
			return healed
		}
		healed = errors.Join(healed, g.Heal(fresh)) // Given up while it waited.
	}
	g.cfg.Limits.ConfirmHealed = min(g.cfg.Limits.ConfirmHealed, g.cfg.Limits.Abandoned)
	return errors.Join(healed, g.ConfirmHealed(fresh))
}
