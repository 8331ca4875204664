package scenarios

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// unasked has every pod come up again while each NodeStage does its work and answers an error, and then the question
// for the driver's capabilities fails, until the kubelet has asked for each volume. The StatefulSet is scaled to 0
// meanwhile.
func unasked(r *rand.Rand) plan.Plan {
	unknown := CSIPoint(plan.Params{"rpc": "NodeGetCapabilities", "act": "fail", "code": "Unavailable", "every": true},
		0, 10*time.Minute, still(40*time.Second), Scale(0)) // The kubelet tries again after 0.5, 1, 2, 4, 8, 16 s.
	begun := called(plan.AwaitCSIBegin, "NodeStageVolume", 3*time.Minute)
	staged := plan.Params{"rpc": "NodeStageVolume", "act": "late", "code": "Unavailable", "every": true}
	return settling(allBack, diskTrial(pinned("single"), Load(100+r.IntN(100)), Checksum("before"),
		CSIPoint(staged, 0, 20*time.Minute, slices.Concat(deleted(), begun, []plan.Step{unknown})...),
		Scale(forced), Load(50), Checksum("after")))
}

// stageCases are about how a volume is staged.
func stageCases() []plan.Case {
	// An affected kubelet takes the failed question for a failed NodeStage, and so for proof that nothing is staged
	// (markDeviceErrorState in pkg/volume/util/operationexecutor).
	unstaged := mended(plan.Case{
		Name:    "k8s-135929",
		Finding: plan.Sign{Check: "detach-order", Says: "detached"},
		Summary: "Pods go while their volumes may be staged and the driver does not say what it can do: what was " +
			"staged must be unstaged before it is detached.",
		Build:    unasked,
		Report:   "kubernetes/kubernetes issue 135929",
		Affected: "before v1.36",
		Fixed:    "v1.36 (pull request 135930)",
		Holds:    []string{"rows", "settle"},
	}, minors()[1], "the kubelet takes the volumes for not staged, and they are detached while its node has them "+
		"mounted.")
	return append(unstaged, []plan.Case{
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
	}...)
}
