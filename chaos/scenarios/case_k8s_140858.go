package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s140858 scales a Parallel StatefulSet down while a pod that it wants cannot be made. The controller makes what it
// wants before it deletes what it does not want, and gives up at the first error (updateStatefulSet in
// pkg/controller/statefulset): the deletions that would make room never come.
func k8s140858() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-140858",
			Summary: "A Parallel StatefulSet is scaled down while a quota keeps one of its pods from being made: no " +
				"pod is deleted, although that would make room.",
			Expect: "FAIL",
			Build: func(r *rand.Rand) plan.Plan {
				w := draft.Light(4)
				w.Parallel = true
				b := draft.LightBounds()
				b.Ready = plan.Duration(45 * time.Second) // Within it a Parallel set must do what was asked of it.
				missing := r.IntN(2)
				return plan.Plan{
					Workers: 2, Workload: w, Bounds: b, Steps: []plan.Step{
						draft.Within("pod-quota", missing, 6*time.Minute,
							draft.DeletePod(missing),
							draft.Await(plan.AwaitGone, missing, time.Minute),
							draft.Observed(draft.ScaleTo(2)),
							draft.Still(52*time.Second),
						),
						draft.Settled(),
					},
				}
			},
		},
		Report:   "kubernetes/kubernetes issue 140858",
		Affected: "all to v1.37.0",
		Fixed:    "master (pull request 141057)",
		Finding:  plan.Sign{Check: "set-policy", Says: "not wanted since"},
	}
}
