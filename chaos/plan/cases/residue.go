package cases

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// residue force-deletes a pod that the kubelet cannot be told of. What the kubelet finds below its directories when it
// comes back belongs to nobody: it must take the mounts down, the pod's and the node's.
func residue() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "residue",
			Summary: "A pod is force-deleted while its node's kubelet is down: when it is back, the mounts of the " +
				"pod and of the node must be gone within the bound.",
			Expect: "PASS",
			Build: func(r *rand.Rand) plan.Plan {
				victim := r.IntN(2)
				return plan.Plan{
					Workers: 2, Workload: draft.Disk(2, "single"), Bounds: bounds(),
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
		Report:   "kubernetes/kubernetes issues 89112 and 101911",
		Affected: "v1.20 and v1.21, by other ways",
		Fixed:    "v1.22; kept as a control",
		Control:  true,
		Finding:  plan.Sign{Check: "mount-residue", Says: "left"},
	}
}
