package controlplane

import (
	"context"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// armed is a fault of which all that it leaves is undone by what is armed on nodes of the control plane.
type armed struct {
	owner undo.Owner
	on    fault.Env
}

func newArmed(step int, env fault.Env) armed {
	return armed{owner: undo.Owner{Run: env.RunID, Step: step}, on: env}
}

// Heal carries out what is armed, through the nodes alone: there may be no API server.
func (a armed) Heal(ctx context.Context) error {
	return eachControlNode(ctx, a.on, func(n clusters.Node) error {
		return undo.CarryOut(ctx, undo.On(n), a.owner)
	})
}
