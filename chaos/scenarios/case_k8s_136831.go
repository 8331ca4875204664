package scenarios

import (
	"math/rand/v2"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s136831 updates a StatefulSet whose pods count as available only some seconds after they are Ready. Whether an
// update is complete is asked of the Ready ones alone (completeRollingUpdate in pkg/controller/statefulset).
func k8s136831() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-136831",
			Summary: "A rolling update with minReadySeconds: the new revision becomes the current one when the last " +
				"pod is Ready, and not when it is available.",
			Expect: "FAIL",
			Build: func(r *rand.Rand) plan.Plan {
				w := draft.Light(2)
				w.MinReadySeconds = 8 + r.IntN(3)
				return plan.Plan{
					Workers: 2, Workload: w, Bounds: draft.LightBounds(), Steps: []plan.Step{draft.Update("v2")},
				}
			},
		},
		Report:   "kubernetes/kubernetes issue 136831",
		Affected: "all to v1.37.0",
		Fixed:    "none",
		Finding:  plan.Sign{Check: "set-promotion", Says: "called complete"},
	}
}
