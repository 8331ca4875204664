package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// attachCases are about kubelets that attach volumes by themselves (enableControllerAttachDetach: false), as all did
// before Kubernetes 1.3: what the attach/detach controller does for a volume is done by nobody then.
func attachCases() []plan.Case {
	const (
		report   = "kubernetes/kubernetes issue 15524, pull request 26351 (enableControllerAttachDetach)"
		affected = allVersions + ", with FlexVolume: kubelets attach no CSI volumes"
		fixed    = "v1.3 has the attach/detach controller, which is the default"
	)
	return []plan.Case{
		{
			// The six minutes, and the guard against a second node, are the controller's.
			Name:    "kubelet-attach-twin",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "As k8s-61832, with kubelets that attach: the kubelets of the twins attach the disks at once, " +
				"and two databases write to one volume.",
			Build:    func(r *rand.Rand) plan.Plan { return byKubelet(forceDetach(r, "none")) },
			Report:   report,
			Affected: affected,
			Fixed:    fixed,
		},
		{
			// The controller would wait until the node lists the volume no more in volumesInUse, see k8s-106710.
			Name:    "kubelet-attach-race",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "Pods move to another node while the first is slow to unmount: two kubelets race for each disk, " +
				"and the second has it mounted before the first lets go.",
			Build: func(r *rand.Rand) plan.Plan {
				hold := plan.Params{"rpc": "NodeUnstageVolume", "act": "hold", "every": true}
				slow := CSIPoint(hold, 0, 9*time.Minute, append(deleted(), moved(3*time.Minute)...)...)
				return settling(allBack, byKubelet(diskTrial(onOneNode("none"), Load(50+r.IntN(50)),
					Within("cordon", 0, 12*time.Minute, slow, Load(20)), Load(20))))
			},
			Report:   report,
			Affected: affected,
			Fixed:    fixed,
		},
		{
			// No controller detaches by force either: the twins wait until the node itself lets go, however long.
			Name:    "kubelet-attach-fenced",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "As kubelet-attach-twin, on disks that refuse a second node: the kubelets of the twins are " +
				"refused, longer than six minutes, until the first node is back and detaches.",
			Build:    func(r *rand.Rand) plan.Plan { return byKubelet(control(r, onOneNode("single"), stranded())) },
			Report:   report,
			Affected: "none: the disk protects what nobody in Kubernetes does",
			Control:  true,
			Holds:    []string{"attach-order", "checksums", "detach-order", "integrity", "rows"},
		},
	}
}

// byKubelet has kubelets attach the volumes of a plan.
func byKubelet(p plan.Plan) plan.Plan {
	p.Workload.Attacher = plan.AttacherKubelet
	return p
}
