package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s113979 kills the kubelet while a pod waits in its preStop. A kubelet that does not take terminating pods into its
// desired state after a restart tears their volumes down under them; from v1.26 on it waits for them.
func k8s113979() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-113979",
			Summary: "The kubelet is killed while a pod with a long preStop terminates: its volume must stay until " +
				"its container is gone.",
			Expect: "PASS",
			Build: func(r *rand.Rand) plan.Plan {
				w := together("single")
				w.PreStop = plan.Duration(20 * time.Second)
				during := others(w.Replicas)
				during = append(during, draft.Fault("kubelet-kill", 0, time.Second, 2*time.Minute), draft.Load(20))
				return plan.Plan{
					Workers: 2, Workload: w, Bounds: bounds(),
					Steps: []plan.Step{
						draft.Load(50 + r.IntN(50)),
						draft.Checksum("before"),
						draft.Within("pod-delete", 0, 5*time.Minute, during...),
						draft.Checksum("after"),
						draft.Load(20),
					},
				}
			},
		},
		Report:   "kubernetes/kubernetes issue 113979",
		Affected: "to v1.25",
		Fixed:    "v1.26; kept as a control",
		Volumes:  forced,
		Control:  true,
		Finding:  plan.Sign{Check: "unpublish-in-use", Says: "taken"},
	}
}
