package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s119685 deletes the pod below the partition of an update, again and again. An affected controller counts the pods
// that were created, and calls the update complete while that one is missing; then it makes it at the new revision.
func k8s119685() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-119685",
			Summary: "The pod below the partition of a rolling update is deleted several times: it must come back at " +
				"the revision that it had.",
			Expect: "PASS",
			Build: func(r *rand.Rand) plan.Plan {
				w := draft.Light(2 + r.IntN(2))
				w.Partition = 1
				steps := []plan.Step{draft.Update("v2")}
				for range 3 {
					steps = append(steps, draft.Fault("pod-delete", 0, time.Second, 2*time.Minute), draft.Settled())
				}
				steps = append(steps, draft.Fault("pod-delete", w.Replicas-1, time.Second, 2*time.Minute),
					draft.Settled(), draft.Partition(0))
				return plan.Plan{Workers: 2, Workload: w, Bounds: draft.LightBounds(), Steps: steps}
			},
		},
		Report: "kubernetes/kubernetes issues 119684 and 119685",
		Affected: "v1.27 and v1.28 before the backports of PR 120731; no node image of these is built here, and none " +
			"was run",
		Fixed:   "v1.29 (PR 120731); kept as a control",
		Control: true,
		Finding: plan.Sign{Check: "set-partition", Says: "below the partition"},
		Holds:   []string{"coverage", "set-update"},
	}
}
