package node

import (
	"context"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// away is a fault that ends every process on a node, and boots the node when it is healed.
type away struct {
	beside
	act    func(context.Context, clusters.PowerNode) error // Takes the node away.
	before snapshot
}

// evictedAfter is for how long pods stay on a node that is away: they tolerate it for five minutes from when it is
// known (DefaultTolerationSeconds), and another may have taken their place after that.
const evictedAfter = 4 * time.Minute

// takingAway completes the definition of a fault that does something to a node after which it is down.
func takingAway(d fault.Definition, act func(context.Context, clusters.PowerNode) error) fault.Definition {
	d.Shown = "The runtime has it down, its kubelet answers on no address of either family, and its lease is not " +
		"renewed while that of another node is."
	d.Healed = "It is started: a later boot without the old processes, kubelet active, lease renewed, node and pods " +
		"Ready with new containers, routes and mounts back."
	d.Needs = []string{"power"}
	d.Takes = []plan.Part{plan.PartNode}
	d.New = func(spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
		b, err := newBeside(spec, step, env, exited)
		if err != nil {
			return nil, err
		}
		return &away{beside: b, act: act}, nil
	}
	return d
}

// Inject notes what is there, and takes the node away.
func (a *away) Inject(ctx context.Context) error {
	before, err := takeSnapshot(ctx, a.env)
	if err != nil {
		return err
	}
	if a.witness, err = newWitness(ctx, a.env, "https", kubeletPort, true); err != nil {
		return err
	}
	a.before = before
	return a.act(ctx, a.node)
}

// ConfirmHealed shows that the node has booted since, and that all that was on it is back.
func (a *away) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	var since evidence.Leases
	if a.before.boot != 0 {
		boot, err := a.before.laterBoot(ctx, a.env)
		if err != nil {
			return nil, err
		}
		facts = boot
		since, err = evidence.ReadLeases(ctx, a.env)
		if err != nil && a.env.Log != nil { // They are read later, then.
			a.env.Log.Debug("read the leases after a boot", "node", a.node.Name(), "error", err)
		}
	}
	env := a.env
	if a.life > evictedAfter {
		env.Pod = "" // It may have been evicted, and be elsewhere.
	}
	back, err := a.before.back(ctx, env, since)
	return append(facts, back...), err
}
