package scenarios

import (
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setStart counts pods from another ordinal than 0 on (KEP-3335).
func setStart() setScenario {
	return setScenario{
		name:    "set-start",
		summary: "Scaled and updated with ordinals that do not begin at 0.",
		light:   true,
		build: func(c crew) plan.Plan {
			w := c.workload(3)
			w.Start = 2 + c.r.IntN(8)
			scaled, updated := c.either(c.meanwhile(plan.AwaitScheduled, w.Start+1),
				c.meanwhile(plan.AwaitTerminating, w.Start+2))
			return c.plan(w, draft.ScaleTo(1), draft.ScaleTo(3, scaled...), draft.Update("v2", updated...))
		},
	}
}
