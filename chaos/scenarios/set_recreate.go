package scenarios

import (
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setRecreate deletes the StatefulSet and makes it again: its pods are adopted when they were left, and come back on
// their volumes when they were not.
func setRecreate() setScenario {
	return setScenario{
		name: "set-recreate",
		summary: "The StatefulSet deleted and made again: without its pods, which are adopted, and with them, which " +
			"come back on their volumes.",
		build: func(c crew) plan.Plan {
			cascade := []string{"background", plan.CascadeForeground}[c.r.IntN(2)]
			gone, back := c.either(c.meanwhile(plan.AwaitTerminating, 1), c.meanwhile(plan.AwaitScheduled, 1))
			return c.plan(c.workload(3),
				draft.DeleteSet(plan.CascadeOrphan), draft.Load(30), draft.CreateSet(), draft.Load(30),
				draft.DeleteSet(cascade, gone...), draft.CreateSet(back...),
			)
		},
	}
}
