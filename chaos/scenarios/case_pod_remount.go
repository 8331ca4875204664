package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// podRemount has a pod come back on its node while the kubelet is killed at each of five moments: when the pod has just
// been deleted, and within each of the four calls that take its volume down and up again. The calls take four seconds
// then, and the node itself kills the kubelet when it sees one begin. Killed within NodeUnstageVolume it forgets what
// is staged, which detach-order finds: that is k8s-121937, and no reason for the pod not to come up.
func podRemount() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "pod-remount",
			Summary: "A pod is deleted and made again on the same node, and the kubelet is killed in between at each " +
				"of five moments: every time the pod must come up on its volume.",
			Expect: "PASS",
			Build: func(r *rand.Rand) plan.Plan {
				w := together("single")
				w.Pinned, w.Packed = true, false
				steps := []plan.Step{
					draft.Load(50 + r.IntN(50)), draft.Checksum("before"),
					draft.Within("pod-delete", 0, 5*time.Minute, append(others(w.Replicas),
						draft.Fault("kubelet-kill", 0, time.Second, 2*time.Minute), draft.Load(10))...),
					draft.Load(20), draft.Checksum("after"),
				}
				for _, rpc := range []string{
					"NodeUnpublishVolume", "NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume",
				} {
					delay := plan.Params{
						"rpc": rpc, "act": "delay", "delay": plan.Duration(4 * time.Second), "every": true,
						"times": w.Replicas,
					}
					steps = append(steps,
						draft.CSIPoint(delay, 0, 6*time.Minute,
							draft.Provoked("kubelet-kill", rpc, 0, 5*time.Minute, deleted(w.Replicas)...),
							draft.Load(10),
						),
						draft.Load(20), draft.Checksum("after"))
				}
				return plan.Plan{Workers: 2, Workload: w, Bounds: bounds(), Steps: steps}
			},
		},
		Report:   "Kubernetes documentation, StatefulSet, stable storage: a pod comes back on its volume",
		Affected: "none known",
		Fixed:    "kept as a control",
		Volumes:  forced,
		Control:  true,
		Finding:  plan.Sign{Check: "settle", Says: "mysql"},
	}
}
