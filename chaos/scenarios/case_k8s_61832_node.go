package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s61832Node is k8s-61832 by another way: nobody deletes a pod by force. The Node object of the node that is cut off
// is deleted, as a cloud's node controller or a person would for a machine that seems to be gone; the pod garbage
// collector then takes its pods out of the API (pkg/controller/podgc, 40 s after it missed the Node), and the volumes
// go the way of those of any node that is not healthy.
func k8s61832Node() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-61832-node",
			Summary: "A node is cut off and its Node object deleted: its pods are taken out of the API, each volume " +
				"is detached by force, the pod's twin starts elsewhere, and two databases write to one volume.",
			Expect: "FAIL",
			Build: func(r *rand.Rand) plan.Plan {
				during := []plan.Step{}
				for ordinal := range forced {
					during = append(during, draft.Await(plan.AwaitMoved, ordinal, 10*time.Minute))
				}
				deleted := draft.Within("node-delete", 0, 12*time.Minute, append(during, draft.Load(50))...)
				deleted.Fault.Outlast = true // Behind the partition, the kubelet cannot register.
				return plan.Plan{
					Workers: 2, Workload: together("single"), Bounds: bounds(),
					Steps: []plan.Step{
						draft.Load(100 + r.IntN(100)),
						draft.Within("node-partition", 0, 20*time.Minute,
							draft.Await(plan.AwaitNotReady, 0, 3*time.Minute), deleted),
						draft.Load(50),
					},
				}
			},
		},
		Report:   "kubernetes/kubernetes issue 61832",
		Affected: "all to v1.37.0",
		Fixed:    "none",
		Volumes:  forced,
		Finding:  plan.Sign{Check: "mounts", Says: "at once"},
	}
}
