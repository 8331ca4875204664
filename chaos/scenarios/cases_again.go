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
	call["every"] = true
	begun := called(plan.AwaitCSIBegin, call["rpc"].(string), 3*time.Minute)
	during := slices.Concat(deleted(), begun, []plan.Step{Scale(0)})
	return settling(allBack, diskTrial(pinned("single"), Load(100+r.IntN(100)), Checksum("before"),
		CSIPoint(call, 0, 10*time.Minute, during...), Scale(forced), Load(50), Checksum("after")))
}

// remounted has every pod deleted and made again on its node, with calls of the driver that take all rows from it.
func remounted(r *rand.Rand, call plan.Params) plan.Plan {
	call["every"], call["times"] = true, forced
	during := append(deleted(), called(plan.AwaitCSIEnd, call["rpc"].(string), 3*time.Minute)...)
	return settling(noneBack, diskTrial(pinned("single"), Load(100+r.IntN(100)), Checksum("before"),
		CSIPoint(call, 0, 8*time.Minute, during...), readBack()))
}

// againCases are about volumes that are mounted again, or taken down, after something came in between.
func againCases() []plan.Case {
	return []plan.Case{
		{
			// The kubelet never learns that the disk was detached meanwhile: when it is attached again, the kubelet
			// takes the dead global mount for staged, calls NodePublish again and again, and never NodeStage.
			Name:    "k8s-119273",
			Finding: plan.Sign{Check: "settle", Says: "took no write"},
			Summary: "A node is cut off until its disks were pulled out of it by force, and gets them again when it " +
				"is back: its kubelet stages none of them again, and no pod comes up.",
			Build:  func(r *rand.Rand) plan.Plan { return control(r, pinned("evict"), stranded()) },
			Report: "kubernetes/kubernetes issue 119273",
		},
		{
			// The kubelet takes the driver's word: it looks whether the directory is there, and not whether anything is
			// mounted on it, and starts the container.
			Name:    "k8s-109955",
			Finding: plan.Sign{Check: "right-volume", Says: "it was empty, or not mounted"},
			Summary: "Pods are deleted and made again on their node, and NodePublish says that it mounted their " +
				"volumes, and did not: the databases begin anew on the node's own disk.",
			Build: func(r *rand.Rand) plan.Plan {
				return remounted(r, plan.Params{"rpc": "NodePublishVolume", "act": "lie"})
			},
			Report: "kubernetes/kubernetes issue 109955",
		},
		{
			// What fails all the same is pod-identity: the pods on the other node are force-deleted as they run, and
			// their twins there start before their databases have ended.
			Name:    "k8s-120853",
			Expect:  "FAIL",
			Finding: plan.Sign{Check: "settle", Says: "mysql"},
			Summary: "Pods are force-deleted while their node is down, and made again on it: when it boots, the " +
				"leftover directories of the old pods must not keep the new ones from their volumes.",
			Build: func(r *rand.Rand) plan.Plan {
				w := onOneNode("")
				w.Storage, w.Packed = plan.StorageLocal, false // Those of the other node are at work meanwhile.
				return diskTrial(w, Load(100+r.IntN(100)), Checksum("before"),
					Within("node-crash", 0, 8*time.Minute, append(forceDeleted(), Load(20))...), Load(50),
					Checksum("after"))
			},
			Report:   "kubernetes/kubernetes issues 120853 and 117513",
			Affected: "v1.26 to v1.28, as reported; none was run",
			Fixed:    "v1.29; kept as a control",
			Control:  true,
			Holds:    []string{"checksums", "rows"},
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
			Holds:    []string{"mounts", "rows", "settle"},
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
			Holds:    []string{"detach-order", "rows", "settle"},
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
			Holds:    []string{"detach-order", "rows", "settle"},
		},
	}
}
