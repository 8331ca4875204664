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
			steps := []plan.Step{
				draft.Within("cordon", 0, 6*time.Minute,
					draft.Fault("pod-delete", 0, time.Second, 2*time.Minute),
					draft.Await(plan.AwaitPending, 0, time.Minute),
					draft.Observed(draft.ScaleTo(1)),
					draft.Still(time.Duration(5+c.r.IntN(5))*time.Second),
				),
			}
			steps = append(steps, c.meanwhile(plan.AwaitTerminating, 2)...)
			steps = append(steps, draft.Settled(), draft.Load(60), draft.ScaleTo(3))
			return c.plan(c.workload(3), steps...)
		},
	}
}
