package fault

import (
	"context"
	"errors"
	"fmt"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
)

// Run takes a fault through its whole life. After any error it heals before it returns, even if ctx has ended. The
// error names the failed stage (StageError) and is joined with errors of the heal. If ctx ends during the hold, Run
// heals at once and returns an error.
func (g *Guard) Run(ctx context.Context) error { return g.finish(ctx, g.untilHeld(ctx)) }

// RunOpen takes a fault to the end of its hold and leaves it active; the caller must call end, which heals it. If an
// earlier stage fails, RunOpen heals, and end is nil.
func (g *Guard) RunOpen(ctx context.Context) (end func(context.Context) error, err error) {
	if failure := g.untilHeld(ctx); failure != nil {
		return nil, g.finish(ctx, failure)
	}
	return func(ctx context.Context) error { return g.finish(ctx, nil) }, nil
}

// finish heals and confirms the heal, after the hold or after a failure before it.
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

// untilHeld runs the stages up to the end of the hold.
func (g *Guard) untilHeld(ctx context.Context) error {
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

// stillHeld checks at the end of the hold that the effect of a Holder has lasted. Its facts become evidence of the heal
// stage.
func (g *Guard) stillHeld(ctx context.Context) error {
	holder, ok := g.f.(Holder)
	if !ok {
		return nil
	}
	limit := g.cfg.Limits.Heal
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the limit of %s is over", limit))
	defer cancel()
	facts, err := recovered(bounded, func(ctx context.Context) ([]Fact, error) {
		return requireFacts(holder.Held(ctx))
	})
	if err != nil {
		return g.fail(verbHold, fmt.Errorf("it was not there to the end: %w", err))
	}
	g.held = facts
	return nil
}

// abandon records that ctx ended before the fault did.
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

// end heals and confirms the heal, even if ctx has ended.
func (g *Guard) end(ctx context.Context) error {
	fresh := context.WithoutCancel(ctx)
	healed := g.Heal(fresh)
	if g.state != StateHealed {
		healed = errors.Join(healed, g.Heal(fresh)) // Retry: the cause may have passed.
	}
	if g.state != StateHealed {
		return healed
	}
	if !g.injected { // Without an act there is no effect whose end could be shown.
		return healed
	}
	if ctx.Err() == nil {
		shown := g.ConfirmHealed(ctx)
		healed = errors.Join(healed, shown)
		if shown == nil || ctx.Err() == nil {
			return healed
		}
		healed = errors.Join(healed, g.Heal(fresh)) // ctx ended during ConfirmHealed.
	}
	g.cfg.Limits.ConfirmHealed = min(g.cfg.Limits.ConfirmHealed, g.cfg.Limits.Abandoned)
	return errors.Join(healed, g.ConfirmHealed(fresh))
}
