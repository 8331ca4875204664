package controlplane

import (
	"context"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// ward is what outlives the harness, and the timers on the nodes of the control plane that end it then.
type ward struct {
	owner undo.Owner
	life  time.Duration
	on    fault.Env
}

func newWard(spec plan.Fault, step int, env fault.Env) ward {
	return ward{owner: undo.Owner{Run: env.RunID, Step: step}, life: fault.Life(spec), on: env}
}

// Arm arms the timers.
func (w ward) Arm(ctx context.Context) error {
	return undo.ArmControlPlane(ctx, w.on.Cluster, w.owner, w.life)
}

// Disarm removes the timers.
func (w ward) Disarm(ctx context.Context) error {
	return undo.DisarmControlPlane(ctx, w.on.Cluster, w.owner)
}

// Heal undoes what bears our mark, through the nodes alone: there may be no API server. It removes the timers then:
// without a mark they find nothing to do, and a new leader takes longer than the guard waits when a person has given
// up.
func (w ward) Heal(ctx context.Context) error {
	return eachControlNode(ctx, w.on, func(n clusters.Node) error {
		if err := undo.Release(ctx, undo.On(n), w.owner); err != nil {
			return err
		}
		return undo.Disarm(ctx, n, w.owner)
	})
}
