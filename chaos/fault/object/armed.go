package object

import (
	"context"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// armed is a fault of API objects: the control plane undoes what bears the owner's mark, and waits for an API server
// that is gone as well.
type armed struct {
	cluster clusters.Cluster
	owner   undo.Owner
}

func armedFor(step int, env fault.Env) armed {
	return armed{cluster: env.Cluster, owner: undo.Owner{Run: env.RunID, Step: step}}
}

// Undo has the control plane undo it.
func (a armed) Undo(ctx context.Context) ([]undo.Task, error) {
	return undo.OnControlPlane(ctx, a.cluster)
}
