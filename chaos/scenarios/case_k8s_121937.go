package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s121937 kills the kubelet between NodeUnpublish and NodeUnstage. What it finds at its next start below the pods'
// directories it takes up again; a volume that is only staged is in nobody's book any more, and volumesInUse is empty.
func k8s121937() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-121937",
			Summary: "The kubelet is killed after NodeUnpublish and before NodeUnstage: after its restart it has " +
				"forgotten the staged volume, which is attached to a second node while the first has it mounted.",
			Expect: "FAIL",
			Build: func(r *rand.Rand) plan.Plan {
				hold := plan.Params{"rpc": "NodeUnstageVolume", "act": "hold", "every": true}
				w := together("single")
				steps := deleted(w.Replicas)
				for ordinal := range w.Replicas {
					steps = append(steps,
						draft.AwaitCall(plan.AwaitCSIBegin, "NodeUnstageVolume", ordinal, 2*time.Minute))
				}
				steps = append(steps, draft.Fault("kubelet-kill", 0, time.Second, 2*time.Minute))
				for ordinal := range w.Replicas {
					steps = append(steps, draft.Await(plan.AwaitMoved, ordinal, 3*time.Minute))
				}
				return plan.Plan{
					Workers: 2, Workload: w, Bounds: bounds(),
					Steps: []plan.Step{
						draft.Load(50 + r.IntN(50)),
						draft.Within("cordon", 0, 10*time.Minute, draft.CSIPoint(hold, 0, 9*time.Minute, steps...)),
						draft.Load(20),
					},
				}
			},
		},
		Report:   "kubernetes/kubernetes issue 121937",
		Affected: "all to v1.37.0",
		Fixed:    "none",
		Volumes:  forced,
		Finding:  plan.Sign{Check: "mounts", Says: "at once"},
	}
}
