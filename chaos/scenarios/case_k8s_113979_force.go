package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s113979Force is what is left of k8s-113979. The kubelet waits for pods that terminate; a pod that was force-deleted
// while it was down is not among them. It finds that pod's volume mounted and nobody who wants it, and unmounts it,
// while it still has the container to end. Which of the two comes first is a race: of five pods, one suffices.
func k8s113979Force() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-113979-force",
			Summary: "Pods are force-deleted while their node's kubelet is down: when it is back, it takes a volume " +
				"down first and ends the container that writes to it later.",
			Expect: "FAIL",
			Build:  forcedWhileDown,
		},
		Report:   "kubernetes/kubernetes issue 113979, by another way; seen by Seatrial",
		Affected: "v1.37.0; others were not tried",
		Fixed:    "none",
		Volumes:  forced,
		Race:     true,
		Finding:  plan.Sign{Check: "unpublish-in-use", Says: "while it was in use"},
	}
}

// forcedWhileDown force-deletes all pods of a node whose kubelet cannot be told of it.
func forcedWhileDown(r *rand.Rand) plan.Plan {
	w := together("single")
	var during []plan.Step
	for ordinal := range w.Replicas {
		during = append(during, draft.Fault("pod-force-delete", ordinal, time.Second, 2*time.Minute))
	}
	return plan.Plan{
		Workers: 2, Workload: w, Bounds: bounds(),
		Steps: []plan.Step{
			draft.Load(100 + r.IntN(100)), draft.Checksum("before"),
			draft.Within("kubelet-stop", 0, 6*time.Minute, during...),
			draft.Load(50), draft.Checksum("after"),
		},
	}
}
