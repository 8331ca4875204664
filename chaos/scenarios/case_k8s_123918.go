package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s123918 scales a StatefulSet down while the pod that is to go is Ready and not yet available. It waits for that pod
// to be available; an affected controller does not come back to it then, and so for ever.
func k8s123918() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-123918",
			Summary: "A StatefulSet with minReadySeconds is scaled down while its last pod is Ready and not yet " +
				"available: that pod must go as soon as it is.",
			Expect: "PASS",
			Build: func(r *rand.Rand) plan.Plan {
				w := draft.Light(2)
				w.MinReadySeconds = 6 + r.IntN(3)
				down := draft.ScaleTo(1)
				down.Bound = plan.Duration(time.Duration(w.MinReadySeconds)*time.Second + 45*time.Second)
				return plan.Plan{
					Workers: 2, Workload: w, Bounds: draft.LightBounds(), Steps: []plan.Step{
						draft.ScaleTo(1),
						draft.Observed(draft.ScaleTo(2)), draft.Await(plan.AwaitReady, 1, time.Minute), down,
						draft.ScaleTo(2),
					},
				}
			},
		},
		Report:   "kubernetes/kubernetes issue 123918",
		Affected: "v1.25 to v1.34, as reported; no node image of these is built here, and none was run",
		Fixed:    "v1.36, and v1.35 by a backport (PR 135428, issue 119352); kept as a control",
		Control:  true,
		Finding:  plan.Sign{Check: "order", Says: "deleted"},
		Holds:    []string{"coverage", "settle"}, // That the pod goes at all is that the step ends within its bound.
	}
}
