package scenarios

import (
	"math/rand/v2"

	"github.com/seatrial/seatrial/chaos/plan"
)

// stageCases are about how a volume's file system is found when it is staged.
func stageCases() []plan.Case {
	return []plan.Case{
		{
			// blkid exits with 2 for a disk without a file system, and for one that it cannot read. mount-utils formats
			// both (getDiskFormat and formatAndMountSensitive in mount_linux.go of k8s.io/mount-utils). The driver here
			// runs that code, as most CSI drivers do.
			Finding: plan.Sign{Check: "rows", Says: "lost"},
			Name:    "k8s-142243",
			Summary: "Pods are deleted and made again on their node, and their disks cannot be read for the moment " +
				"in which mount-utils looks for a file system: it formats them, and every row is gone.",
			Build: func(r *rand.Rand) plan.Plan {
				return remounted(r, plan.Params{"rpc": "NodeStageVolume", "act": "unready"})
			},
			Report: "kubernetes/kubernetes issue 142243; seen in hetznercloud/csi-driver issue 1346 and " +
				"longhorn/longhorn issue 14042",
		},
	}
}
