package cases

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s113979Force is what is left of k8s-113979. The kubelet waits for pods that terminate; a pod that was force-deleted
// while it was down is not among them. It finds that pod's volume mounted and nobody who wants it, and unmounts it,
// while it still has the container to end.
func k8s113979Force() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-113979-force",
			Summary: "A pod with a long preStop is force-deleted while its node's kubelet is down: when it is back, " +
				"it takes the volume down first and ends the container later.",
			Expect: "FAIL",
			Build: func(r *rand.Rand) plan.Plan {
				w := draft.Disk(2, "single")
				w.PreStop = plan.Duration(20 * time.Second)
				victim := r.IntN(2)
				return plan.Plan{
					Workers: 2, Workload: w, Bounds: bounds(),
					Steps: []plan.Step{
						draft.Load(50 + r.IntN(50)),
						draft.Checksum("before"),
						draft.Within("kubelet-stop", victim, 4*time.Minute,
							draft.Fault("pod-force-delete", victim, time.Second, 2*time.Minute), draft.Load(10)),
						draft.Load(20),
						draft.Checksum("after"),
					},
				}
			},
		},
		Report:   "kubernetes/kubernetes issue 113979, by another way; seen by Seatrial",
		Affected: "v1.37.0; others were not tried",
		Fixed:    "none",
		Finding:  plan.Sign{Check: "unpublish-in-use", Says: "while it was in use"},
	}
}
