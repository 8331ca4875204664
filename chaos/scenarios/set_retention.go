package scenarios

import (
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setRetention scales a StatefulSet down, deletes it, makes it again and scales it up: its claims are kept, or deleted,
// as its policy says (KEP-1847). Each of the four policies is a scenario.
func setRetention(whenDeleted, whenScaled string) setScenario {
	name, said := "set-retention", "kept"
	switch {
	case whenDeleted == plan.PolicyDelete && whenScaled == plan.PolicyDelete:
		name, said = name+"-delete", "deleted with it and when it is scaled down"
	case whenDeleted == plan.PolicyDelete:
		name, said = name+"-deleted", "deleted with it and kept when it is scaled down"
	case whenScaled == plan.PolicyDelete:
		name, said = name+"-scaled", "deleted when it is scaled down and kept when it is deleted"
	}
	return setScenario{
		name:    name,
		summary: "The StatefulSet scaled down, deleted and made again; its claims are " + said + ".",
		light:   name != "set-retention", // Databases would begin with nothing.
		build: func(c crew) plan.Plan {
			w := c.workload(3)
			w.WhenDeleted, w.WhenScaled = whenDeleted, whenScaled
			cascade := []string{"background", plan.CascadeForeground}[c.r.IntN(2)]
			last := 2 // A volume is claimed once, and each worker has 3.
			if whenDeleted != plan.PolicyDelete && whenScaled != plan.PolicyDelete {
				last = 3 // The claims of all are kept, and what was written to each is read back.
			}
			return c.plan(w,
				draft.ScaleTo(1, c.meanwhile(plan.AwaitTerminating, 1)...), draft.Load(20),
				draft.DeleteSet(cascade), draft.CreateSet(), draft.Load(20), draft.ScaleTo(last),
			)
		},
	}
}
