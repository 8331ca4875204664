package scenarios

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Cases returns every case, in alphabetical order. What most of them have in common is filled in: the verdict FAIL, of
// a control PASS; every version without a fix; and the number of volumes.
func Cases() []plan.Case {
	volumes := slices.Concat(detachCases(), kubeletCases(), stageCases(), evictionCases(), againCases(),
		claimCases(), attachCases())
	for i := range volumes {
		volumes[i].Volumes = cmp.Or(volumes[i].Volumes, forced)
	}
	all := slices.Concat(volumes, controllerCases(), groupCases(), upgradeCases())
	for i, c := range all {
		expect, fixed := "FAIL", "none"
		if c.Control {
			expect, fixed = "PASS", "kept as a control"
		}
		all[i].Expect = cmp.Or(c.Expect, expect)
		all[i].Affected, all[i].Fixed = cmp.Or(c.Affected, allVersions), cmp.Or(c.Fixed, fixed)
	}
	slices.SortFunc(all, func(a, b plan.Case) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// mended returns a case twice: as a control, and, under the name of the minor version, on the newest version here that
// is affected, with what is seen there.
func mended(c plan.Case, kubernetes, seen string) []plan.Case {
	old, minor := c, kubernetes[:strings.LastIndexByte(kubernetes, '.')]
	old.Name += "-" + strings.ReplaceAll(minor, ".", "-")
	old.Summary = "As " + c.Name + ", on " + kubernetes + ": " + seen
	old.Holds = nil
	old.Build = func(r *rand.Rand) plan.Plan {
		p := c.Build(r)
		p.Kubernetes = kubernetes
		return p
	}
	c.Control = true
	c.Affected += "; see " + old.Name
	c.Fixed += "; kept as a control"
	return []plan.Case{c, old}
}

// forced is how many volumes share a run, and so the six minutes until a forced detach.
const forced = 5

// allVersions is what most cases affect.
const allVersions = "all to v1.37.0"

// onOneNode has several databases on one node, each on its own volume, with little load: what counts is the wait.
func onOneNode(fencing string) plan.Workload {
	w := Disk(forced, fencing)
	w.Packed, w.Parallel, w.VolumeMiB = true, true, 320
	w.Clients, w.Interval = 1, plan.Duration(200*time.Millisecond)
	return w
}

// pinned is onOneNode with every pod bound to the node of the first, so that it comes back there.
func pinned(fencing string) plan.Workload {
	w := onOneNode(fencing)
	w.Pinned, w.Packed = true, false
	return w
}

// How long the databases may take to settle at the end of a trial.
const (
	allBack  = 4 * time.Minute  // Every pod comes back, and the databases recover side by side.
	noneBack = 20 * time.Second // No write can succeed: the tables are gone.
)

// settling gives a trial so long to settle.
func settling(within time.Duration, p plan.Plan) plan.Plan {
	p.Bounds.Settle = plan.Duration(within)
	return p
}

// diskTrial is a trial with time for five databases that recover at once on a loaded machine.
func diskTrial(w plan.Workload, steps ...plan.Step) plan.Plan {
	p := Trial(w, steps...)
	p.Bounds.Ready = plan.Duration(8 * time.Minute)
	p.Bounds.MinOps, p.Bounds.MinAround = 20, 1
	return p
}

// others deletes all pods but the first, with their own grace.
func others() []plan.Step {
	return each(forced-1, func(i int) plan.Step { return deletePod(i + 1) })
}

// deleted deletes all pods, with their own grace.
func deleted() []plan.Step {
	return append(others(), Fault("pod-delete", 0, time.Second, 3*time.Minute))
}

func forceDeleted() []plan.Step {
	return each(forced, func(i int) plan.Step { return Fault("pod-force-delete", i, time.Second, 2*time.Minute) })
}

// moved waits until every pod came up on another node.
func moved(bound time.Duration) []plan.Step {
	return each(forced, func(i int) plan.Step { return Await(plan.AwaitMoved, i, bound) })
}

// called waits until a call of the driver has begun or ended for every volume.
func called(moment, rpc string, bound time.Duration) []plan.Step {
	return each(forced, func(i int) plan.Step { return awaitCSI(moment, rpc, i, bound) })
}

// unstaging waits until the unstage of every volume has begun.
func unstaging() []plan.Step { return called(plan.AwaitCSIBegin, "NodeUnstageVolume", 2*time.Minute) }

// notReady waits until the node of the first pod is not Ready.
func notReady() plan.Step { return Await(plan.AwaitNotReady, 0, 3*time.Minute) }

// forceDetach leads to a forced detach: a node is cut off and not Ready, the pods on it are force-deleted, and their
// twins come up on another.
func forceDetach(r *rand.Rand, fencing string) plan.Plan {
	during := slices.Concat([]plan.Step{notReady()}, forceDeleted(), moved(9*time.Minute), []plan.Step{Load(50)})
	return diskTrial(onOneNode(fencing), Load(100+r.IntN(100)),
		Within("node-partition", 0, 20*time.Minute, during...), Load(50))
}

// cutOff has a node that is only cut off get the out-of-service taint, until the pods of all its volumes came up on
// another.
func cutOff() plan.Step {
	during := append(moved(4*time.Minute), Load(50))
	return Within("node-partition", 0, 14*time.Minute, notReady(),
		Within("out-of-service", 0, 8*time.Minute, during...))
}

// stranded is k8s-61832 up to where the twins would start, held for a minute longer than the forced detach takes.
func stranded() plan.Step {
	during := slices.Concat([]plan.Step{notReady()}, forceDeleted(), []plan.Step{Load(20)})
	s := Within("node-partition", 0, 16*time.Minute, during...)
	s.Fault.Hold = plan.Duration(7 * time.Minute)
	return s
}

// control is a trial around stranded pods.
func control(r *rand.Rand, w plan.Workload, hurt plan.Step) plan.Plan {
	return settling(allBack, diskTrial(w, Load(100+r.IntN(100)), Checksum("before"), hurt, Load(20),
		Checksum("after"), Load(20)))
}

// detachCases are about volumes that are detached from a node that has them mounted.
//
// Six minutes after a pod is gone the attach/detach controller stops waiting for the node's unmount
// (maxWaitForUnmountDuration in pkg/controller/volume/attachdetach) and detaches; a node that is cut off does not learn
// of it and goes on writing.
func detachCases() []plan.Case {
	return []plan.Case{
		{
			Name:    "k8s-61832",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "A node is cut off and its pods force-deleted: after six minutes each volume is detached by " +
				"force, the pod's twin starts elsewhere, and two databases write to one volume.",
			Build:  func(r *rand.Rand) plan.Plan { return forceDetach(r, "single") },
			Report: "kubernetes/kubernetes issue 61832",
			Fixed:  "none; --disable-force-detach-on-timeout of the kube-controller-manager (v1.30) prevents it",
		},
		{
			// Kubernetes detaches while the node has the volumes mounted, as in k8s-61832, which is a finding of
			// detach-order. But by the time a twin can start, the node that was left behind gets nothing but I/O
			// errors, its databases have ended, and no row is lost.
			Name:    "k8s-61832-evict",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "As k8s-61832, on disks that a detach pulls out of the node: every access of the database " +
				"that was left behind is an I/O error before its twin starts, and no row is lost.",
			Expect:   "FAIL",
			Build:    func(r *rand.Rand) plan.Plan { return forceDetach(r, "evict") },
			Report:   "kubernetes/kubernetes issues 61832 and 120328",
			Affected: "none: storage that fences what it detaches prevents it",
			Control:  true,
			// Integrity and witness: that none of the twins had company.
			Holds: []string{"attach-order", "checksums", "integrity", "rows", "witness"},
		},
		{
			Name:    "k8s-61832-flag",
			Finding: plan.Sign{Check: "detach-order", Says: "detached"},
			Summary: "As k8s-61832, with --disable-force-detach-on-timeout: no volume is detached while its node " +
				"has it mounted, and the twins wait until the node is back.",
			Build: func(r *rand.Rand) plan.Plan {
				return control(r, onOneNode("single"), Within("force-detach-off", 0, 20*time.Minute, stranded()))
			},
			Report:   "kubernetes/kubernetes issues 61832 and 120328",
			Affected: "none: this is what prevents it",
			Fixed:    "v1.30 has the flag; it is off by default",
			Control:  true,
		},
		{
			Name:    "k8s-61832-local",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "As k8s-61832, on local volumes: the twins stay Pending, since their volumes are on the " +
				"node that is cut off.",
			Build: func(r *rand.Rand) plan.Plan {
				w := onOneNode("")
				w.Storage = plan.StorageLocal
				return control(r, w, stranded())
			},
			Report:   "kubernetes/kubernetes issue 61832",
			Affected: "none: a local volume has node affinity",
			Control:  true,
		},
		{
			// Nothing is deleted by force. The Node object is deleted, as a cloud's node controller or a person would
			// for a machine that seems to be gone; the pod garbage collector then takes its pods out of the API
			// (pkg/controller/podgc, 40 s after it missed the Node).
			Name:    "k8s-61832-node",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "A node is cut off and its Node object deleted: its pods are taken out of the API, each " +
				"volume is detached by force, the pod's twin starts elsewhere, and two databases write to one " +
				"volume.",
			Build: func(r *rand.Rand) plan.Plan {
				gone := Within("node-delete", 0, 12*time.Minute, append(moved(10*time.Minute), Load(50))...)
				gone.Fault.Outlast = true // Behind the partition, the kubelet cannot register.
				return diskTrial(onOneNode("single"), Load(100+r.IntN(100)),
					Within("node-partition", 0, 20*time.Minute, notReady(), gone), Load(50))
			},
			Report: "kubernetes/kubernetes issue 61832",
		},
		{
			// k8s-61832 as the storage sees it: the detach is requested while the node has the volume staged, which the
			// CSI specification forbids.
			Name:    "k8s-120328",
			Finding: plan.Sign{Check: "detach-order", Says: "detached"},
			Summary: "A node that is not Ready has its pods force-deleted: ControllerUnpublish is called before " +
				"NodeUnstage, for a volume that the node has mounted.",
			Build:    func(r *rand.Rand) plan.Plan { return forceDetach(r, "single") },
			Report:   "kubernetes/kubernetes issue 120328",
			Affected: allVersions + ", unless the kube-controller-manager has --disable-force-detach-on-timeout",
			Fixed:    "v1.30 has the flag; it is off by default",
		},
		{
			// The kubelet is alive and reports the volume in volumesInUse, so that the six minutes must not count.
			Name:    "k8s-106710",
			Finding: plan.Sign{Check: "detach-order", Says: "detached"},
			Summary: "Pods move away from a healthy node whose unmounts take seven minutes: no volume is detached " +
				"before its node has unmounted it.",
			Build: func(r *rand.Rand) plan.Plan {
				hold := plan.Params{"rpc": "NodeUnstageVolume", "act": "hold", "every": true}
				slow := CSIPoint(hold, 0, 15*time.Minute, append(deleted(), unstaging()...)...)
				slow.Fault.Hold = plan.Duration(7 * time.Minute)
				return settling(allBack, diskTrial(onOneNode("single"), Load(50+r.IntN(50)), Checksum("before"),
					Within("cordon", 0, 20*time.Minute, append([]plan.Step{slow}, moved(4*time.Minute)...)...),
					Load(50), readBack(), Checksum("after")))
			},
			Report:   "kubernetes/kubernetes issue 106710",
			Affected: "before pull request 110721, as reported; none was run",
			Fixed:    "pull request 110721; kept as a control",
			Control:  true,
			Holds:    []string{"attach-order", "checksums", "mounts", "rows"},
		},
		{
			// The attach/detach controller marks the volume as detached before it asks the driver, and an error does
			// not put the mark back for its guard against a second attachment.
			Name:    "k8s-124334",
			Finding: plan.Sign{Check: "attach-order", Says: "attached"},
			Summary: "Every ControllerUnpublish fails and the disk stays attached: the guard against a second " +
				"attachment no longer counts that node, and the volume is attached to two.",
			Build: func(r *rand.Rand) plan.Plan {
				fail := plan.Params{
					"rpc": "ControllerUnpublishVolume", "act": "fail", "code": "Internal", "every": true}
				during := append(deleted(), moved(3*time.Minute)...)
				return diskTrial(onOneNode("none"), Load(50+r.IntN(50)),
					Within("cordon", 0, 10*time.Minute, CSIPoint(fail, 0, 9*time.Minute, during...)), Load(20))
			},
			Report: "kubernetes/kubernetes pull request 124334, closed without being merged",
		},
		{
			// The six minutes, and the guard against a second node, are the attach/detach controller's. Where nothing
			// is attached there is neither.
			Name:    "unattached-twin",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "As k8s-61832, on disks that need no attach (CSIDriver attachRequired false): the twins start " +
				"elsewhere at once, and two databases write to one volume.",
			Build: func(r *rand.Rand) plan.Plan { return forceDetach(r, plan.FencingUnattached) },
			Report: "Kubernetes documentation, Persistent Volumes, Access Modes: they do not enforce write " +
				"protection; kubernetes/kubernetes issue 61832",
			Affected: allVersions + ": it is documented",
			Fixed:    "none: such a storage has to fence by itself",
		},
		{
			// The taint skips the six minutes: it promises that the node writes no more, and nothing checks it.
			Name:    "out-of-service",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "A node that is only cut off gets the out-of-service taint: its volumes are detached at " +
				"once, the twins start elsewhere, and the node goes on writing.",
			Build: func(r *rand.Rand) plan.Plan {
				return diskTrial(onOneNode("single"), Load(100+r.IntN(100)), cutOff(), Load(50))
			},
			Report:   "KEP-2268, risks; openebs/mayastor-control-plane pull request 905",
			Affected: "v1.26 and later, where the taint is set on a node that still runs",
			Fixed:    "none: whoever sets the taint promises that the node is down",
		},
		{
			// The promise kept: it is a machine that does not come back before its disks have moved.
			Name:    "out-of-service-off",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "As out-of-service, on a node that is switched off: the twins start elsewhere with every row, " +
				"and the node finds nothing to write to when it is started again.",
			Build: func(r *rand.Rand) plan.Plan {
				during := append(moved(4*time.Minute), Load(50))
				return settling(allBack, diskTrial(onOneNode("single"), Load(100+r.IntN(100)), Checksum("before"),
					Within("node-stop", 0, 16*time.Minute, notReady(),
						Within("out-of-service", 0, 8*time.Minute, during...)),
					Load(50), readBack(), Checksum("after")))
			},
			Report:   "KEP-2268",
			Affected: "none: this is what the taint is for",
			Control:  true,
			Holds:    []string{"attach-order", "checksums", "integrity", "rows", "witness"},
		},
	}
}

// kubeletCases are about a kubelet that is killed, or down, while volumes are taken down or put up.
func kubeletCases() []plan.Case {
	return []plan.Case{
		{
			// A kubelet that does not take terminating pods into its desired state after a restart tears their volumes
			// down under them.
			Name:    "k8s-113979",
			Finding: plan.Sign{Check: "unpublish-in-use", Says: "taken"},
			Summary: "The kubelet is killed while a pod with a long preStop terminates: its volume must stay " +
				"until its container is gone.",
			Build: func(r *rand.Rand) plan.Plan {
				w := onOneNode("single")
				w.PreStop = plan.Duration(20 * time.Second)
				return diskTrial(w, Load(50+r.IntN(50)), Checksum("before"), deletedAndKilled(20),
					Checksum("after"), Load(20))
			},
			Report:   "kubernetes/kubernetes issue 113979",
			Affected: "to v1.25",
			Fixed:    "v1.26; kept as a control",
			Control:  true,
		},
		{
			// The rest of k8s-113979. The kubelet waits for pods that terminate, but not for one that was force-deleted
			// while it was down: it finds a mounted volume without a pod and unmounts it, while the container still
			// runs. Which comes first is a race: one of five pods suffices.
			Name:    "k8s-113979-force",
			Finding: plan.Sign{Check: "unpublish-in-use", Says: "while it was in use"},
			Summary: "Pods are force-deleted while their node's kubelet is down: when it is back, it takes a " +
				"volume down first and ends the container that writes to it later.",
			Build:    forcedWhileDown,
			Report:   "kubernetes/kubernetes issue 113979, by another way; seen by Seatrial",
			Affected: "v1.37.0; others were not tried",
			Race:     true,
		},
		{
			// The same, later: what the restarted kubelet finds below its directories has no owner, and it must unmount
			// it.
			// What fails all the same is unpublish-in-use: the kubelet unmounts what the pod's process still uses.
			Name:    "residue",
			Expect:  "FAIL",
			Finding: plan.Sign{Check: "mount-residue", Says: "left"},
			Summary: "Pods are force-deleted while their node's kubelet is down: when it is back, the mounts of " +
				"the pods and of the node must be gone within the bound.",
			Build:    forcedWhileDown,
			Report:   "kubernetes/kubernetes issues 89112 and 101911",
			Affected: "v1.20 and v1.21, by other ways",
			Fixed:    "v1.22; kept as a control",
			Control:  true,
			Holds:    []string{"checksums", "mounts", "rows"},
		},
		{
			// A restarted kubelet takes one pass over its pods for all that there is to mount, although it could not
			// read a pod's claim in it, and unmounts the rest (Run in pkg/kubelet/volumemanager/populator). It mounts
			// the volumes again once it can read the claims.
			Name:    "k8s-120150",
			Finding: plan.Sign{Check: "unpublish-in-use", Says: "while it was in use"},
			Summary: "The kubelet is killed, and the API server fails its first questions about claims: it unmounts " +
				"the volumes of pods that run.",
			Build: func(r *rand.Rand) plan.Plan {
				blind := claimsUnread(0, 11*time.Minute, Fault("kubelet-kill", 0, time.Second, 2*time.Minute), Load(20))
				blind.Fault.Hold = plan.Duration(30 * time.Second) // The API server waits seconds for the webhook.
				return diskTrial(onOneNode("single"), Load(50+r.IntN(50)), Checksum("before"), blind,
					still(30*time.Second), Load(50), readBack(), Checksum("after"))
			},
			Report: "kubernetes/kubernetes issue 120150",
		},
		{
			// A restarted kubelet learns from vol_data.json which volumes are mounted for pods. What it cannot read it
			// neither unpublishes nor unstages, and the volume is not in volumesInUse (reconstruct.go in
			// pkg/kubelet/volumemanager/reconciler).
			Name:    "k8s-101791",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "Pods are force-deleted while their node's kubelet is down and its records of their volumes are " +
				"lost: it forgets them, and they are attached to a second node while the first has them mounted.",
			Build: func(r *rand.Rand) plan.Plan {
				stopped := Within("kubelet-stop", 0, 6*time.Minute, forceDeleted()...)
				during := slices.Concat([]plan.Step{stopped}, moved(4*time.Minute), []plan.Step{Load(20)})
				return diskTrial(onOneNode("single"), Load(50+r.IntN(50)), Within("cordon", 0, 16*time.Minute,
					Within("volume-record-lost", 0, 14*time.Minute, during...)), Load(20))
			},
			Report: "kubernetes/kubernetes issue 101791",
		},
		{
			// A restarted kubelet reconstructs the volumes below the pods' directories. It forgets a volume that is
			// only staged, and volumesInUse is empty.
			Name:    "k8s-121937",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "The kubelet is killed after NodeUnpublish and before NodeUnstage: after its restart it has " +
				"forgotten the staged volume, which is attached to a second node while the first has it mounted.",
			Build: func(r *rand.Rand) plan.Plan {
				hold := plan.Params{"rpc": "NodeUnstageVolume", "act": "hold", "every": true}
				during := slices.Concat(deleted(), unstaging(),
					[]plan.Step{Fault("kubelet-kill", 0, time.Second, 2*time.Minute)}, moved(3*time.Minute))
				return diskTrial(onOneNode("single"), Load(50+r.IntN(50)),
					Within("cordon", 0, 10*time.Minute, CSIPoint(hold, 0, 9*time.Minute, during...)), Load(20))
			},
			Report: "kubernetes/kubernetes issue 121937",
		},
		{
			// The moments are when the pod has just been deleted, and within each of the four calls that take its
			// volume down and up again. The calls take four seconds then, and the node itself kills the kubelet when
			// one begins. Killed within NodeUnstageVolume it forgets what is staged: that is k8s-121937, which
			// detach-order finds, and does not keep the pod from coming up.
			Name:    "pod-remount",
			Expect:  "FAIL",
			Finding: plan.Sign{Check: "settle", Says: "mysql"},
			Summary: "A pod is deleted and made again on the same node, and the kubelet is killed in between at " +
				"each of five moments: every time the pod must come up on its volume.",
			Build: func(r *rand.Rand) plan.Plan {
				steps := []plan.Step{Load(50 + r.IntN(50)), Checksum("before"), deletedAndKilled(10), Load(20),
					Checksum("after")}
				for _, rpc := range []string{
					"NodeUnpublishVolume", "NodeUnstageVolume", "NodeStageVolume", "NodePublishVolume",
				} {
					delay := plan.Params{"rpc": rpc, "act": "delay", "delay": plan.Duration(4 * time.Second),
						"every": true, "times": forced}
					kill := Fault("kubelet-kill", 0, time.Second, 5*time.Minute)
					kill.Fault.When = &plan.Await{For: plan.AwaitCSIBegin, RPC: rpc}
					kill.Fault.Provoke = deleted()
					steps = append(steps, CSIPoint(delay, 0, 6*time.Minute, kill, Load(10)), Load(20),
						Checksum("after"))
				}
				return diskTrial(pinned("single"), steps...)
			},
			Report:   "Kubernetes documentation, StatefulSet, stable storage: a pod comes back on its volume",
			Affected: "none known",
			Control:  true,
			Holds:    []string{"checksums", "mounts", "rows"},
		},
	}
}

// deletedAndKilled deletes all pods and kills the kubelet meanwhile.
func deletedAndKilled(commits int) plan.Step {
	return Within("pod-delete", 0, 5*time.Minute,
		append(others(), Fault("kubelet-kill", 0, time.Second, 2*time.Minute), Load(commits))...)
}

// forcedWhileDown force-deletes all pods of a node whose kubelet is down.
func forcedWhileDown(r *rand.Rand) plan.Plan {
	return diskTrial(onOneNode("single"), Load(100+r.IntN(100)), Checksum("before"),
		Within("kubelet-stop", 0, 6*time.Minute, forceDeleted()...), Load(50), Checksum("after"))
}

// brokenUpdate updates a Parallel StatefulSet with maxUnavailable to a revision that is never Ready, until as many pods
// as that are broken.
func brokenUpdate(r *rand.Rand) (plan.Workload, []plan.Step) {
	w := Light(3)
	w.Parallel, w.MaxUnavailable = true, 1+r.IntN(3)
	broken := update("v2")
	broken.Update.Broken = plan.Brokens()[r.IntN(2)]
	stuck := each(w.MaxUnavailable, func(i int) plan.Step {
		return Await(plan.AwaitUnready, w.Replicas-1-i, time.Minute)
	})
	return w, slices.Concat([]plan.Step{observed(broken)}, stuck, []plan.Step{still(10 * time.Second)})
}

func controllerCases() []plan.Case {
	// An affected controller asks again minReadySeconds after each look, and the first look was too early.
	late := mended(plan.Case{
		Name:    "k8s-119352",
		Finding: plan.Sign{Check: "set-status", Says: "for more than minReadySeconds"},
		Summary: "A StatefulSet with minReadySeconds: the status counts a pod as available when it has been " +
			"Ready for so long, and the next pod is made.",
		Build: func(r *rand.Rand) plan.Plan {
			w := Light(2)
			w.MinReadySeconds = 60 + r.IntN(5) // Twice that is late by more than the check allows.
			p := Trial(w, Scale(1))
			p.Bounds.Ready = plan.Duration(8 * time.Minute)
			return p
		},
		Report:   "kubernetes/kubernetes issue 119352",
		Affected: "to v1.34",
		Fixed:    "v1.36, and v1.35 by a backport (PR 135428)",
		Holds:    []string{"settle"},
	}, minors()[0], "the status counts a pod, and the next one is made, after nearly twice minReadySeconds.")
	stale := mended(plan.Case{
		Name:    "k8s-73492",
		Finding: plan.Sign{Check: "set-status", Says: "currentRevision is"},
		Summary: "With the strategy OnDelete a new revision is the current one once every pod was deleted and " +
			"has come back with it.",
		Build: func(r *rand.Rand) plan.Plan {
			w := Light(2 + r.IntN(2))
			w.UpdateStrategy = plan.StrategyOnDelete
			return Trial(w, append([]plan.Step{observed(update("v2"))},
				append(each(w.Replicas, deletePod), settled(), still(45*time.Second))...)...)
		},
		Report:   "kubernetes/kubernetes issues 73492 and 106055",
		Affected: "to v1.36",
		Fixed:    "v1.37 (pull request 136833)",
		Holds:    []string{"settle"},
	}, UpgradeFrom, "the status names the old revision as the current one for ever.")
	return append(slices.Concat(late, stale), []plan.Case{
		{
			// A rollback waits for pods that are never Ready, since an ordered StatefulSet waits for its pods to be
			// Ready before it does anything.
			Name:    "k8s-67250",
			Finding: plan.Sign{Check: "set-update", Says: "ended"},
			Summary: "A broken revision is rolled back: nothing happens, as documented, until its pod is deleted " +
				"by hand.",
			Build: func(r *rand.Rand) plan.Plan {
				broken := update("v2")
				broken.Update.Broken = plan.Brokens()[r.IntN(2)]
				return Trial(Light(3), observed(broken), Await(plan.AwaitUnready, 2, time.Minute),
					observed(rollback()), still(10*time.Second),
					Fault("pod-delete", 2, time.Second, time.Minute), settled())
			},
			Report:   "kubernetes/kubernetes issue 67250",
			Affected: allVersions + ": it is documented (StatefulSets, Forced rollback)",
			Fixed:    "none; kept as a control",
			Control:  true,
		},
		{
			// An affected controller counts the created pods, and calls the update complete while the deleted one is
			// missing; then it creates that one at the new revision.
			Name:    "k8s-119685",
			Finding: plan.Sign{Check: "set-partition", Says: "below the partition"},
			Summary: "The pod below the partition of a rolling update is deleted several times: it must come " +
				"back at the revision that it had.",
			Build: func(r *rand.Rand) plan.Plan {
				w := Light(2 + r.IntN(2))
				w.Partition = 1
				steps := []plan.Step{update("v2")}
				for _, ordinal := range []int{0, 0, 0, w.Replicas - 1} {
					steps = append(steps, Fault("pod-delete", ordinal, time.Second, 2*time.Minute), settled())
				}
				return Trial(w, append(steps, partition(0))...)
			},
			Report: "kubernetes/kubernetes issues 119684 and 119685",
			Affected: "v1.27 and v1.28 before the backports of PR 120731; no node image of these is built here, and " +
				"none was run",
			Fixed:   "v1.29 (PR 120731); kept as a control",
			Control: true,
			Holds:   []string{"set-update"},
		},
		{
			// A StatefulSet of 0 replicas has 0 updated ones, so completeUpdate in pkg/controller/statefulset calls its
			// update complete, whatever the partition is.
			Name:    "k8s-121534",
			Finding: plan.Sign{Check: "set-promotion", Says: "although it had no pod"},
			Summary: "A StatefulSet with a partition is updated, scaled to 0 and up again: the pods below the " +
				"partition come back at the new revision.",
			Build: func(r *rand.Rand) plan.Plan {
				w := Light(3)
				w.Partition = 1 + r.IntN(3)
				return Trial(w, update("v2"), Scale(0), Scale(3), partition(0))
			},
			Report: "kubernetes/kubernetes issue 121534",
		},
		{
			// The status of a running pod is made before its probes are set up; without them it counts as started, and
			// that is kept (isContainerStarted in pkg/kubelet/prober).
			Name:    "k8s-142305",
			Finding: plan.Sign{Check: "set-update", Says: "at a revision that is never Ready"},
			Summary: "The kubelet is killed while a pod's startup probe has not passed yet: the pod is Ready, and " +
				"the rolling update goes on although no pod of its revision starts up.",
			Build: func(r *rand.Rand) plan.Plan {
				broken := update("v2")
				broken.Update.Broken = plan.BrokenStartup
				return Trial(Light(3), observed(broken), Await(plan.AwaitUnready, 2, time.Minute),
					Fault("kubelet-kill", 2, time.Second, 3*time.Minute), still(20*time.Second),
					observed(rollback()), deletePod(2), deletePod(1), settled())
			},
			Report:   "kubernetes/kubernetes issue 142305",
			Affected: "v1.35 to v1.37.0, as read; v1.37.0 was run",
		},
		{
			// The StatefulSet waits for the pod to be available; an affected controller is not requeued then, and waits
			// for ever.
			Name:    "k8s-123918",
			Finding: plan.Sign{Check: "order", Says: "deleted"},
			Summary: "A StatefulSet with minReadySeconds is scaled down while its last pod is Ready and not yet " +
				"available: that pod must go as soon as it is.",
			Build: func(r *rand.Rand) plan.Plan {
				w := Light(2)
				w.MinReadySeconds = 6 + r.IntN(3)
				down := Scale(1)
				down.Bound = plan.Duration(time.Duration(w.MinReadySeconds)*time.Second + 45*time.Second)
				return Trial(w, Scale(1), observed(Scale(2)), Await(plan.AwaitReady, 1, time.Minute), down,
					Scale(2))
			},
			Report:   "kubernetes/kubernetes issue 123918",
			Affected: "v1.25 and later, as reported; v1.34.4 is not, as read, and none was run",
			Fixed:    "before v1.34, in which version is not known; kept as a control",
			Control:  true,
			Holds:    []string{"settle"},
			// The bound of the step shows that the pod goes at all.
		},
		{
			// Whether an update is complete is asked of the Ready pods alone (completeRollingUpdate in
			// pkg/controller/statefulset).
			Name:    "k8s-136831",
			Finding: plan.Sign{Check: "set-promotion", Says: "called complete"},
			Summary: "A rolling update with minReadySeconds: the new revision becomes the current one when the " +
				"last pod is Ready, and not when it is available.",
			Build: func(r *rand.Rand) plan.Plan {
				w := Light(2)
				w.MinReadySeconds = 8 + r.IntN(3)
				return Trial(w, update("v2"))
			},
			Report: "kubernetes/kubernetes issue 136831",
		},
		{
			// The controller makes what it wants before it deletes what it does not want, and gives up at the first
			// error (updateStatefulSet in pkg/controller/statefulset): the deletions that would make room never come.
			Name:    "k8s-140858",
			Finding: plan.Sign{Check: "set-policy", Says: "not wanted since"},
			Summary: "A Parallel StatefulSet is scaled down while a quota keeps one of its pods from being made: " +
				"no pod is deleted, although that would make room.",
			Build: func(r *rand.Rand) plan.Plan {
				w := Light(4)
				w.Parallel = true
				missing := r.IntN(2)
				p := Trial(w,
					Within("pod-quota", missing, 6*time.Minute, deletePod(missing),
						Await(plan.AwaitGone, missing, time.Minute), observed(Scale(2)), still(52*time.Second)),
					settled())
				p.Bounds.Ready = plan.Duration(45 * time.Second) // A Parallel set must obey within it.
				return p
			},
			Report: "kubernetes/kubernetes issue 140858",
			Fixed:  "master (pull request 141057)",
		},
		{
			// An affected controller asks only whether the pods are Ready (gate MaxUnavailableStatefulSet, on by
			// default since v1.37). What fails all the same is set-promotion, see k8s-136831.
			Name:    "k8s-112307",
			Expect:  "FAIL",
			Finding: plan.Sign{Check: "set-update", Says: "minReadySeconds"},
			Summary: "A rolling update of a Parallel StatefulSet with maxUnavailable and minReadySeconds: a pod is " +
				"replaced once the one before it is available, not once it is Ready.",
			Build: func(r *rand.Rand) plan.Plan {
				w := Light(4 + r.IntN(2))
				w.Parallel, w.MaxUnavailable, w.MinReadySeconds = true, 1+r.IntN(2), 6+r.IntN(3)
				return Trial(w, update("v2"))
			},
			Report:   "kubernetes/kubernetes issue 112307",
			Affected: "v1.24 and later with the gate MaxUnavailableStatefulSet, as reported; none was run",
			Fixed:    "by v1.37, which has the gate on by default; kept as a control",
			Control:  true,
			Holds:    []string{"settle"},
		},
		{
			// An affected controller counts the broken pods as unavailable and so may replace none of them.
			Name:    "k8s-137409",
			Finding: plan.Sign{Check: "set-update", Says: "maxUnavailable is"},
			Summary: "A Parallel StatefulSet with maxUnavailable is updated to a revision that is never Ready, and " +
				"then to a sound one: the broken pods are replaced.",
			Build: func(r *rand.Rand) plan.Plan {
				w, steps := brokenUpdate(r)
				return Trial(w, append(steps, update("v3"))...)
			},
			Report:   "kubernetes/kubernetes issue 137409",
			Affected: "v1.35.0, as reported; see k8s-137409-v1-35",
			Fixed:    "v1.35 and v1.36 have the gate off, v1.37 has pull request 137666; kept as a control",
			Control:  true,
			Holds:    []string{"settle"},
		},
		{
			Name:    "k8s-137409-v1-35",
			Finding: plan.Sign{Check: "settle", Says: "was not Ready at any time"},
			Summary: "As k8s-137409, on v1.35.4 with the gate MaxUnavailableStatefulSet: the broken pods count as " +
				"unavailable, so none of them is ever replaced.",
			Build: func(r *rand.Rand) plan.Plan {
				w, steps := brokenUpdate(r)
				p := settling(time.Minute, Trial(w, append(steps, observed(update("v3")))...))
				p.Kubernetes, p.FeatureGates = minors()[1], []string{"MaxUnavailableStatefulSet"}
				return p
			},
			Report:   "kubernetes/kubernetes issue 137409",
			Affected: "v1.35 and v1.36, where the gate is on; it has been off by default since v1.35.4",
			Fixed:    "v1.37 (pull request 137666)",
		},
		{
			// The controller first ends every pod of an old revision that is not available, whatever maxUnavailable is
			// (updateStatefulSetAfterInvariantEstablished in pkg/controller/statefulset). A pod that is Ready for less
			// than minReadySeconds is one of them, although it serves.
			Name:    "parallel-all-at-once",
			Finding: plan.Sign{Check: "set-update", Says: "maxUnavailable is"},
			Summary: "A Parallel StatefulSet with minReadySeconds and maxUnavailable 1 is updated while all its pods " +
				"are Ready and not yet available: all are ended at once.",
			Build: func(r *rand.Rand) plan.Plan {
				w := Light(3 + r.IntN(3))
				w.Parallel, w.MaxUnavailable, w.MinReadySeconds = true, 1, 30
				up := each(w.Replicas, func(i int) plan.Step { return Await(plan.AwaitReady, i, time.Minute) })
				// The controller must have seen it for certain, see world.CacheLag.
				up[len(up)-1].Await.Delay = plan.Duration(4 * time.Second)
				steps := slices.Concat([]plan.Step{Scale(0), observed(Scale(w.Replicas))}, up,
					[]plan.Step{update("v2")})
				return Trial(w, steps...)
			},
			Report: "seen by Seatrial; kubernetes/kubernetes pull request 137666 does it on purpose for broken pods, " +
				"since that makes nothing less available",
			Affected: "v1.37.0; before, the gate MaxUnavailableStatefulSet is off by default",
		},
	}...)
}
