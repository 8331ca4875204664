package scenarios

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setBlocked has the first pod Pending while the StatefulSet is scaled down: nothing may be deleted until it is Ready.
func setBlocked() setScenario {
	return setScenario{
		name:    "set-blocked",
		summary: "Scaled down while the first pod cannot be scheduled: nothing is deleted until it is Ready again.",
		build: func(c crew) plan.Plan {
			blocked := []plan.Step{
				draft.Fault("pod-delete", 0, time.Second, 2*time.Minute),
				draft.Await(plan.AwaitPending, 0, time.Minute),
			}
			blocked = append(blocked, c.strike(2)...) // On the node of the pod that is to be deleted first.
			blocked = append(blocked,
				draft.Observed(draft.ScaleTo(1)), draft.Still(time.Duration(5+c.r.IntN(5))*time.Second))
			p := c.plan(c.workload(3),
				draft.Within("cordon", 0, 10*time.Minute, blocked...),
				draft.Settled(), draft.Load(60), draft.ScaleTo(3),
			)
			if c.fault != "" {
				p.Bounds.MaxNodes = 2 // The fault comes while another node, that of the first pod, is cordoned.
			}
			return p
		},
	}
}
