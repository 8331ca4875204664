package scenarios

import (
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setScale takes the StatefulSet down to one pod and back up: in reverse order, each pod once those above it are gone,
// and in order, each once those before it are Ready.
func setScale() setScenario {
	return setScenario{
		name:    "set-scale",
		summary: "Scaled from 3 pods, or 4, to 1 and back, in order.",
		build: func(c crew) plan.Plan {
			most := 3 + c.r.IntN(2)
			down, up := c.either(c.meanwhile(plan.AwaitTerminating, most-1), c.meanwhile(plan.AwaitScheduled, 1))
			return c.plan(c.workload(most), draft.ScaleTo(1, down...), draft.Load(30), draft.ScaleTo(most, up...))
		},
	}
}
