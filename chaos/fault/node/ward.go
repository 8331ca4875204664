package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// ward is what a fault holds on its node by a mark, and the timer there that ends it when nobody does.
type ward struct {
	at    clusters.Node
	owner undo.Owner
	life  time.Duration
}

func newWard(spec plan.Fault, step int, env fault.Env) ward {
	return ward{at: env.Node, owner: undo.Owner{Run: env.RunID, Step: step}, life: fault.Life(spec)}
}

// Arm arms the timer.
func (w ward) Arm(ctx context.Context) error { return undo.Arm(ctx, w.at, w.owner, w.life) }

// Disarm removes it.
func (w ward) Disarm(ctx context.Context) error { return undo.Disarm(ctx, w.at, w.owner) }

// Heal ends what bears our mark, and removes the timer: without a mark it finds nothing to do.
func (w ward) Heal(ctx context.Context) error {
	if err := undo.Release(ctx, undo.On(w.at), w.owner); err != nil {
		return err
	}
	return w.Disarm(ctx)
}

// stopUnit leaves the mark of a thing that is held, and stops its unit.
func (w ward) stopUnit(ctx context.Context, thing, unit string) error {
	for _, argv := range [][]string{{"mkdir", "-p", w.owner.Held(thing)}, {"systemctl", "stop", unit}} {
		if _, err := clusters.Run(ctx, w.at, argv...); err != nil {
			return err
		}
	}
	return nil
}

// unitDown looks once whether a unit is inactive. A state that is not empty says why not.
func unitDown(ctx context.Context, env fault.Env, unit string) (fault.Fact, string, error) {
	begin := env.Clock()
	now, err := evidence.ReadUnit(ctx, env.Node, unit)
	if err != nil {
		return fault.Fact{}, "", err
	}
	if now.PID > 0 || now.State != "inactive (dead)" {
		return fault.Fact{}, fmt.Sprintf("%s is %s with pid %d", unit, now.State, now.PID), nil
	}
	return fault.Fact{
		Span: history.Between(begin, env.Clock()), Sentence: fmt.Sprintf("%s is %s", unit, now.State),
	}, "", nil
}

// still is what a look has shown at the end of a hold. A state that is not empty says what is not so any more.
func still(fact fault.Fact, state string, err error) ([]fault.Fact, error) {
	if err == nil && state != "" {
		err = errors.New(state)
	}
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}
