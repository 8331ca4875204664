package scenarios

import (
	"math/rand/v2"

	"github.com/seatrial/seatrial/chaos/plan"
)

// k8s120328 is the way of k8s-61832, looked at from the storage: the detach is asked for while the node has the volume
// staged, which the CSI specification forbids.
func k8s120328() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-120328",
			Summary: "A node that is not Ready has its pods force-deleted: ControllerUnpublish is called before " +
				"NodeUnstage, for a volume that the node has mounted.",
			Expect: "FAIL",
			Build:  func(r *rand.Rand) plan.Plan { return forceDetach(r, "single") },
		},
		Report:   "kubernetes/kubernetes issue 120328",
		Affected: "all to v1.37.0, unless the kube-controller-manager has --disable-force-detach-on-timeout",
		Fixed:    "v1.30 has the flag; it is off by default",
		Volumes:  forced,
		Finding:  plan.Sign{Check: "detach-order", Says: "detached"},
	}
}
