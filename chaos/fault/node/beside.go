package node

import (
	"context"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// The states of a node in which nothing on it goes on.
const (
	paused = "paused"
	exited = "exited"
)

// beside is what the faults have in common that take a whole node away: nothing on the node can undo them, and so their
// dead-man is beside the cluster.
type beside struct {
	env     fault.Env
	node    clusters.PowerNode
	owner   undo.Owner
	life    time.Duration
	want    string          // The state of the node while it is away.
	witness witness         // Who asked the node before, and where.
	leases  evidence.Leases // When it was away.
}

// newBeside returns the part for a node, or an error when nobody could bring the node back.
func newBeside(spec plan.Fault, step int, env fault.Env, want string) (beside, error) {
	b := beside{env: env, owner: undo.Owner{Run: env.RunID, Step: step}, life: fault.Life(spec), want: want}
	var ok bool
	if b.node, ok = env.Node.(clusters.PowerNode); !ok {
		return b, fmt.Errorf("node %q cannot be taken away: its provider has no power over it", env.Node.Name())
	}
	if env.Watchdog == nil {
		return b, fmt.Errorf("node %q cannot be taken away: there is no dead-man beside the cluster to bring it back",
			env.Node.Name())
	}
	return b, b.owner.Check()
}

// Undo has the watchdog bring the node back.
func (b *beside) Undo(context.Context) ([]undo.Task, error) {
	return []undo.Task{{Node: b.node, Power: true}}, nil
}

// look asks once for the state of the node. A state that is not empty is another than the one that is wanted.
func (b *beside) look(ctx context.Context) (fault.Fact, string, error) {
	begin := b.env.Clock()
	state, err := b.node.State(ctx)
	if err != nil {
		return fault.Fact{}, "", fmt.Errorf("get state: %w", err)
	}
	if state != b.want {
		return fault.Fact{}, fmt.Sprintf("node %q is %s, not %s", b.node.Name(), state, b.want), nil
	}
	return fault.Fact{Span: history.Between(begin, b.env.Clock()),
		Sentence: fmt.Sprintf("node %q is %s, as the container runtime has it", b.node.Name(), state)}, "", nil
}

// Confirm shows that the node is away: by its state, by its kubelet that answers on none of its addresses, and by its
// lease.
func (b *beside) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	what := fmt.Sprintf("node %q to be %s", b.node.Name(), b.want)
	err := await.Until(ctx, what, 100*time.Millisecond, stopBound, func(ctx context.Context) (bool, string, error) {
		fact, state, err := b.look(ctx)
		facts = []fault.Fact{fact}
		return err == nil && state == "", state, err
	})
	if err != nil {
		return nil, err
	}
	if b.leases, err = evidence.ReadLeases(ctx, b.env); err != nil {
		return facts, err
	}
	silence, err := b.witness.silence(ctx, b.env.Clock, silentBound)
	if err != nil {
		return facts, err
	}
	facts = append(facts, silence...)
	silent, err := evidence.LeaseSilent(ctx, b.env, b.leases, silenceBound)
	if err != nil {
		return facts, err
	}
	return append(facts, silent), nil
}

// Held shows that the node is still away.
func (b *beside) Held(ctx context.Context) ([]fault.Fact, error) {
	return still(b.look(ctx))
}

// Heal brings the node back.
func (b *beside) Heal(ctx context.Context) error { return bringBack(ctx, b.node) }

// bringBack starts a node that is down and thaws one that is paused.
func bringBack(ctx context.Context, node clusters.PowerNode) error {
	state, err := node.State(ctx)
	if err != nil {
		return fmt.Errorf("get state: %w", err)
	}
	switch state {
	case exited:
		return node.Start(ctx)
	case paused:
		return node.Unpause(ctx)
	}
	return nil
}
