package scenarios

import (
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setMaxUnavailable updates two pods at a time (KEP-961).
func setMaxUnavailable() setScenario {
	return setScenario{
		name:    "set-max-unavailable",
		summary: "A rolling update that may have two pods unavailable at once, and no more.",
		build: func(c crew) plan.Plan {
			w := c.workload(4 + c.r.IntN(2))
			w.MaxUnavailable = 2
			return c.plan(w, draft.Update("v2", c.meanwhile(plan.AwaitTerminating, 2+c.r.IntN(2))...))
		},
	}
}
