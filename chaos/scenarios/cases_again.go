package scenarios

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// dropped has every pod come up again, meets each within a call of the driver that does not end well, and scales the
// StatefulSet to 0 then: what was staged and published by halves must be taken down again.
func dropped(r *rand.Rand, call plan.Params) plan.Plan {
	w := onOneNode("single")
	w.Pinned, w.Packed = true, false
	call["every"] = true
	begun := each(forced, func(i int) plan.Step {
		s := Await(plan.AwaitCSIBegin, i, 3*time.Minute)
		s.Await.RPC = call["rpc"].(string)
		return s
	})
	during := slices.Concat(deleted(), begun, []plan.Step{Scale(0)})
	p := diskTrial(w, Load(100+r.IntN(100)), Checksum("before"), CSIPoint(call, 0, 10*time.Minute, during...),
		Scale(forced), Load(50), Checksum("after"))
	p.Bounds.Settle = plan.Duration(4 * time.Minute)
	return p
}

// againCases are about volumes that are mounted again, or taken down, after something came in between.
func againCases() []plan.Case {
	pinned := func(fencing string) plan.Workload {
		w := onOneNode(fencing)
		w.Pinned, w.Packed = true, false
		return w
	}
	return []plan.Case{
		{
			// Once the six minutes are over, the reconciler skips verifySafeToDetach for a node that is Ready, too: what
			// is left is that the node lists the volume in volumesInUse.
			Name:    "k8s-106710",
			Finding: plan.Sign{Check: "detach-order", Says: "detached"},
			Summary: "A node that is Ready needs more than six minutes to unmount the volumes of pods that were " +
				"deleted: none may be detached before, and the pods come up elsewhere after it.",
			Build: func(r *rand.Rand) plan.Plan {
				hold := plan.Params{"rpc": "NodeUnstageVolume", "act": "hold", "every": true}
				wait := Await(plan.AwaitTime, 0, 8*time.Minute)
				wait.Await.After, wait.Await.Since = plan.Duration(7*time.Minute), plan.SinceStep
				return diskTrial(onOneNode("single"), Load(100+r.IntN(100)), Checksum("before"),
					Within("cordon", 0, 20*time.Minute, append([]plan.Step{
						CSIPoint(hold, 0, 14*time.Minute, append(deleted(), wait)...)}, moved(4*time.Minute)...)...),
					Load(50), Checksum("after"))
			},
			Report:   "kubernetes/kubernetes issue 106710",
			Affected: "to v1.23, as reported; none was run",
			Fixed:    "v1.26 (PR 110721); kept as a control",
			Control:  true,
			Holds:    []string{"coverage", "mounts", "rows"},
		},
		{
			// The kubelet that comes back finds the directory of a global mount, and may take it for the disk that was
			// attached meanwhile.
			Name:    "k8s-119273",
			Finding: plan.Sign{Check: "settle", Says: "mysql"},
			Summary: "A node is cut off until its disks were pulled out of it by force, and gets them again when it " +
				"is back: each pod that comes up there must find its disk, and not the dead mount of the old one.",
			Build:  func(r *rand.Rand) plan.Plan { return control(r, pinned("evict"), stranded()) },
			Report: "kubernetes/kubernetes issue 119273",
		},
		{
			Name:    "k8s-120853",
			Finding: plan.Sign{Check: "settle", Says: "mysql"},
			Summary: "Pods are force-deleted while their node is down, and made again on it: when it boots, the " +
				"leftover directories of the old pods must not keep the new ones from their volumes.",
			Build: func(r *rand.Rand) plan.Plan {
				w := onOneNode("")
				w.Storage, w.Packed = plan.StorageLocal, false // Those of the other node show that the clients are at work.
				return diskTrial(w, Load(100+r.IntN(100)), Checksum("before"),
					Within("node-crash", 0, 8*time.Minute, append(forceDeleted(), Load(20))...), Load(50),
					Checksum("after"))
			},
			Report:   "kubernetes/kubernetes issues 120853 and 117513",
			Affected: "v1.26 to v1.28, as reported; none was run",
			Fixed:    "v1.29; kept as a control",
			Control:  true,
			Holds:    []string{"checksums", "coverage", "rows"},
		},
		{
			// A claim that is being deleted counts as none when volumes are looked up for a new pod; for one that runs,
			// it must not.
			Name:    "k8s-130335",
			Finding: plan.Sign{Check: "unpublish-in-use", Says: "while it was in use"},
			Summary: "The claims of running pods are deleted, and so stay, and the kubelet is killed: it must not " +
				"unmount their volumes when it is back.",
			Build: func(r *rand.Rand) plan.Plan {
				w := pinned("")
				w.Storage = plan.StorageLocal // A volume that goes with its claim could not be looked over at the end.
				steps := []plan.Step{Load(50 + r.IntN(50)), Checksum("before")}
				for i := range forced {
					steps = append(steps, Within("claim-delete", i, 6*time.Minute,
						Fault("kubelet-kill", i, 10*time.Second, 2*time.Minute), Load(20)), Load(20), Checksum("after"))
				}
				return diskTrial(w, append(steps, readBack())...)
			},
			Report:   "kubernetes/kubernetes pull request 130335",
			Affected: "v1.31 before v1.31.7, as reported; none was run",
			Fixed:    "v1.33 and backports; kept as a control",
			Control:  true,
			Holds:    []string{"coverage", "mounts", "rows", "settle"},
		},
		{
			Name:    "k8s-81737",
			Finding: plan.Sign{Check: "settle", Says: "mysql"},
			Summary: "Pods on local volumes are deleted and made again on their node four times: none may begin on " +
				"an empty directory.",
			Build: func(r *rand.Rand) plan.Plan {
				w := pinned("")
				w.Storage = plan.StorageLocal
				steps := []plan.Step{Load(50 + r.IntN(50)), Checksum("before")}
				for range 4 {
					steps = append(steps, Within("pod-delete", 0, 5*time.Minute, others()...), Load(60), Checksum("after"))
				}
				return diskTrial(w, steps...)
			},
			Report:   "kubernetes/kubernetes issue 81737: one attempt of ten",
			Affected: "v1.13, as reported; none was run",
			Fixed:    "not named; kept as a control",
			Control:  true,
			Holds:    []string{"checksums", "coverage", "rows"},
		},
		{
			Name:    "k8s-82190",
			Finding: plan.Sign{Check: "mount-residue", Says: "left"},
			Summary: "Every NodeStage is given up by the kubelet and done by the driver, and the pods go before they " +
				"start: what was staged must be unstaged before it is detached.",
			Build: func(r *rand.Rand) plan.Plan {
				return dropped(r, plan.Params{"rpc": "NodeStageVolume", "act": "late", "code": "DeadlineExceeded"})
			},
			Report:   "kubernetes/kubernetes issue 82190",
			Affected: "v1.14 to v1.16, as reported; none was run",
			Fixed:    "v1.17; kept as a control",
			Control:  true,
			Holds:    []string{"coverage", "detach-order", "rows", "settle"},
		},
		{
			Name:    "k8s-89112",
			Finding: plan.Sign{Check: "mount-residue", Says: "left"},
			Summary: "Pods are deleted while NodePublish is under way: the mounts of the pods and of the node must " +
				"be gone within the bound.",
			Build: func(r *rand.Rand) plan.Plan {
				return dropped(r, plan.Params{"rpc": "NodePublishVolume", "act": "delay",
					"delay": plan.Duration(15 * time.Second)})
			},
			Report:   "kubernetes/kubernetes issue 89112",
			Affected: "v1.17, as reported; none was run",
			Fixed:    "v1.19; kept as a control",
			Control:  true,
			Holds:    []string{"coverage", "detach-order", "rows", "settle"},
		},
	}
}
