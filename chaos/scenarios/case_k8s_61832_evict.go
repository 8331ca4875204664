package scenarios

import (
	"math/rand/v2"

	"github.com/seatrial/seatrial/chaos/plan"
)

// k8s61832Evict is k8s-61832 on disks that a detach takes away: Kubernetes does the same, and detaches while the node
// has the volumes mounted, which is a finding of detach-order here as there. But by the time a twin can start, the node
// that was left behind gets nothing but I/O errors, its databases are dead, and no row is lost.
func k8s61832Evict() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-61832-evict",
			Summary: "As k8s-61832, on disks that a detach pulls out of the node: every access of the database that " +
				"was left behind is an I/O error before its twin starts, and no row is lost.",
			Expect: "FAIL",
			Build:  func(r *rand.Rand) plan.Plan { return forceDetach(r, "evict") },
		},
		Report:   "kubernetes/kubernetes issues 61832 and 120328",
		Affected: "none: storage that fences what it detaches prevents it",
		Fixed:    "kept as a control",
		Volumes:  forced,
		Control:  true,
		Finding:  plan.Sign{Check: "mounts", Says: "at once"},
		// Coverage: that the twins did start. Integrity and witness: that none of them had company.
		Holds: []string{"attach-order", "checksums", "coverage", "integrity", "rows", "witness"},
	}
}
