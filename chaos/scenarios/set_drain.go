package scenarios

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setDrain has the node of the first pod drained, and the pod template edited while its pods can come back nowhere: the
// update goes on where it was once the node is schedulable again.
func setDrain() setScenario {
	return setScenario{
		name:    "set-drain",
		summary: "The node of the first pod drained, and the StatefulSet updated meanwhile.",
		light:   true,
		build: func(c crew) plan.Plan {
			down, up := c.either(c.meanwhile(plan.AwaitTerminating, 2), c.meanwhile(plan.AwaitScheduled, 1))
			return c.plan(c.workload(3),
				draft.Within("drain", 0, 6*time.Minute,
					draft.Await(plan.AwaitPending, 0, time.Minute),
					draft.Observed(draft.Update("second")),
					draft.Still(time.Duration(5+c.r.IntN(5))*time.Second),
				),
				draft.Settled(), draft.ScaleTo(1, down...), draft.ScaleTo(3, up...),
			)
		},
	}
}
