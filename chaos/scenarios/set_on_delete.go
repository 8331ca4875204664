package scenarios

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setOnDelete gives the template a revision that no pod has until it is deleted.
func setOnDelete() setScenario {
	return setScenario{
		name:    "set-on-delete",
		summary: "With the strategy OnDelete a new revision replaces no pod; one that is deleted comes back with it.",
		build: func(c crew) plan.Plan {
			w := c.workload(3)
			w.UpdateStrategy = plan.StrategyOnDelete
			victim := c.r.IntN(3)
			return c.plan(w,
				draft.Update("v2"), draft.Still(5*time.Second), draft.Load(60),
				draft.Within("pod-delete", victim, 6*time.Minute, c.meanwhile(plan.AwaitScheduled, victim)...),
				draft.Await(plan.AwaitUpdated, victim, 2*time.Minute), draft.Settled(), draft.Load(60),
				draft.ScaleTo(2), draft.Load(30), draft.ScaleTo(3),
			)
		},
	}
}
