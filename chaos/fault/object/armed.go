package object

import (
	"context"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// armed is a fault of API objects whose undo is armed on the control plane: the heal there undoes what bears the
// owner's mark, although the harness is gone, and waits for an API server that is gone as well.
type armed struct {
	cluster clusters.Cluster
	owner   undo.Owner
	life    time.Duration
}

func armedFor(spec plan.Fault, step int, env fault.Env) armed {
	return armed{
		cluster: env.Cluster, owner: undo.Owner{Run: env.RunID, Step: step}, life: fault.Life(spec),
	}
}

// Arm arms the timers.
func (a armed) Arm(ctx context.Context) error {
	return undo.ArmControlPlane(ctx, a.cluster, a.owner, a.life)
}

// Disarm removes them.
func (a armed) Disarm(ctx context.Context) error {
	return undo.DisarmControlPlane(ctx, a.cluster, a.owner)
}
