package scenarios

import "github.com/seatrial/seatrial/chaos/plan"

// residue is the way of k8s-113979-force, looked at later. What the kubelet finds below its directories when it comes
// back belongs to nobody: it must take the mounts down, the pods' and the node's.
func residue() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "residue",
			Summary: "Pods are force-deleted while their node's kubelet is down: when it is back, the mounts of the " +
				"pods and of the node must be gone within the bound.",
			Expect: "PASS",
			Build:  forcedWhileDown,
		},
		Report:   "kubernetes/kubernetes issues 89112 and 101911",
		Affected: "v1.20 and v1.21, by other ways",
		Fixed:    "v1.22; kept as a control",
		Volumes:  forced,
		Control:  true,
		Finding:  plan.Sign{Check: "mount-residue", Says: "left"},
	}
}
