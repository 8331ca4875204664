package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s124334 has every detach fail. The attach/detach controller marks the volume as detached before it asks the
// driver, and an error does not put the mark back for its guard against a second attachment.
func k8s124334() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-124334",
			Summary: "Every ControllerUnpublish fails and the disk stays attached: the guard against a second " +
				"attachment no longer counts that node, and the volume is attached to two.",
			Expect: "FAIL",
			Build: func(r *rand.Rand) plan.Plan {
				fail := plan.Params{
					"rpc": "ControllerUnpublishVolume", "act": "fail", "code": "Internal", "every": true,
				}
				w := together("none")
				steps := deleted(w.Replicas)
				for ordinal := range w.Replicas {
					steps = append(steps, draft.Await(plan.AwaitMoved, ordinal, 3*time.Minute))
				}
				return plan.Plan{
					Workers: 2, Workload: w, Bounds: bounds(),
					Steps: []plan.Step{
						draft.Load(50 + r.IntN(50)),
						draft.Within("cordon", 0, 10*time.Minute, draft.CSIPoint(fail, 0, 9*time.Minute, steps...)),
						draft.Load(20),
					},
				}
			},
		},
		Report:   "kubernetes/kubernetes pull request 124334, closed without being merged",
		Affected: "all to v1.37.0",
		Fixed:    "none",
		Volumes:  forced,
		Finding:  plan.Sign{Check: "attach-order", Says: "attached"},
	}
}
