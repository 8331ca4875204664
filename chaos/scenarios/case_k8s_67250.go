package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s67250 rolls back a revision whose pods are never Ready. An ordered StatefulSet waits for its pods to be Ready
// before it does anything, the rollback included, and so for ever, until somebody deletes the pod.
func k8s67250() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-67250",
			Summary: "A broken revision is rolled back: nothing happens, as documented, until its pod is deleted by " +
				"hand.",
			Expect: "PASS",
			Build: func(r *rand.Rand) plan.Plan {
				w := draft.Light(3)
				broken := plan.Brokens()[r.IntN(2)]
				return plan.Plan{
					Workers: 2, Workload: w, Bounds: draft.LightBounds(), Steps: []plan.Step{
						draft.Broken("v2", broken),
						draft.Await(plan.AwaitUnready, 2, time.Minute),
						draft.Observed(draft.Rollback(plan.RevisionFirst)),
						draft.Still(10 * time.Second),
						draft.Fault("pod-delete", 2, time.Second, time.Minute),
						draft.Settled(),
					},
				}
			},
		},
		Report:   "kubernetes/kubernetes issue 67250",
		Affected: "all to v1.37.0: it is documented (StatefulSets, Forced rollback)",
		Fixed:    "none; kept as a control",
		Control:  true,
		Finding:  plan.Sign{Check: "set-update", Says: "ended"},
	}
}
