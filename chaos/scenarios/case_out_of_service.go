package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// outOfService tells the cluster that a node is shut down which is only cut off. The taint skips the six minutes: it is
// a promise that the node writes no more, and nobody checks it (KEP-2268).
func outOfService() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "out-of-service",
			Summary: "A node that is only cut off gets the out-of-service taint: its volumes are detached at once, " +
				"the twins start elsewhere, and the node goes on writing.",
			Expect: "FAIL",
			Build: func(r *rand.Rand) plan.Plan {
				during := []plan.Step{}
				for ordinal := range forced {
					during = append(during, draft.Await(plan.AwaitMoved, ordinal, 4*time.Minute))
				}
				during = append(during, draft.Load(50))
				return plan.Plan{
					Workers: 2, Workload: together("single"), Bounds: bounds(),
					Steps: []plan.Step{
						draft.Load(100 + r.IntN(100)),
						draft.Within("node-partition", 0, 14*time.Minute,
							draft.Await(plan.AwaitNotReady, 0, 3*time.Minute),
							draft.Within("out-of-service", 0, 8*time.Minute, during...),
						),
						draft.Load(50),
					},
				}
			},
		},
		Report:   "KEP-2268, risks; openebs/mayastor-control-plane pull request 905",
		Affected: "v1.26 and later, where the taint is set on a node that still runs",
		Fixed:    "none: whoever sets the taint promises that the node is down",
		Volumes:  forced,
		Finding:  plan.Sign{Check: "mounts", Says: "at once"},
	}
}
