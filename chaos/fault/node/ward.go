package node

import (
	"context"
	"errors"
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// armed is a fault of which all that it leaves is undone by what is armed on its node.
type armed struct {
	at    clusters.Node
	owner undo.Owner
}

func newArmed(step int, env fault.Env) armed {
	return armed{at: env.Node, owner: undo.Owner{Run: env.RunID, Step: step}}
}

// undoBy is the undo by some actions on the node.
func (a armed) undoBy(actions ...undo.Action) []undo.Task {
	return []undo.Task{{Node: a.at, Actions: actions}}
}

// Heal carries out what is armed.
func (a armed) Heal(ctx context.Context) error { return undo.CarryOut(ctx, undo.On(a.at), a.owner) }

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
