package check_test

import (
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// mode gives every PersistentVolume another access mode.
func mode(name string) func([]history.Event) []history.Event {
	return editAll(kind(history.KindObject), func(e *history.Event) {
		e.Object.Raw = []byte(strings.Replace(string(e.Object.Raw), `"ReadWriteOnce"`, `"`+name+`"`, 1))
	})
}

func diskMountMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	twin := func(t *historytest.Trial) {
		t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 100, historytest.GlobalPath("pvc-0"), 20)
	}
	other := func(t *historytest.Trial) {
		path := historytest.PodPath("other-uid", "pvc-0")
		t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 100, path, 20)
	}
	noPodMount := drop(func(e *history.Event) bool {
		return e.Kind == history.KindMount && strings.Contains(e.Mount.Path, "/pods/")
	})
	return []mutation{
		{"nothing changed, on disks", "mounts", onDisk(nil), pass, ""},
		{"two global mounts", "mounts", addDisk(twin), fail,
			"Volume pvc-0 (ReadWriteOnce) was mounted on worker and on worker2 at once"},
		{"the pod of a mount is told", "mounts", addDisk(twin), fail, "for pod mysql-0"},
		{"global mounts alone count as use", "mounts", onDisk(noPodMount), pass, ""},
		{"two global mounts of many nodes", "mounts", then(addDisk(twin), mode("ReadWriteMany")), unknown,
			"nothing to judge"},
		{"two pods on one node", "mounts", addDisk(other), pass, ""},
		{"two pods on one node, of a volume for one", "mounts", then(addDisk(other), mode("ReadWriteOncePod")), fail,
			"Volume pvc-0 (ReadWriteOncePod) was mounted for two pods on worker at once"},
		{"a container on a second node", "mounts", addDisk(func(t *historytest.Trial) {
			t.Holding("worker2", 100, "other-uid", 20, 21)
		}), fail, "within the container of mysqld (pid 5000)"},
		{"a container of another pod, of a volume for one", "mounts", then(strangerHolds(""), mode("ReadWriteOncePod")),
			fail, "Volume pvc-0 (ReadWriteOncePod) was mounted for two pods on worker at once"},
		{"a container in the making, of a volume for one", "mounts",
			then(strangerHolds(historytest.GlobalPath("pvc-0")), mode("ReadWriteOncePod")), pass, ""},
		{"containers not watched", "mounts", onDisk(drop(observer("holdings", "worker", history.ObserverOn))), unknown,
			"the observer holdings was never on on node worker"},
	}
}

// strangerHolds has a container of another pod hold the volume of mysql-0 on its node, at that path when it is not
// empty.
func strangerHolds(path string) func([]history.Event) []history.Event {
	stranger := func(e *history.Event) bool {
		return e.Kind == history.KindHolding && e.Holding.PodUID == "stranger-uid"
	}
	return then(addDisk(func(t *historytest.Trial) { t.Holding("worker", 100, "stranger-uid", 20, 21) }),
		editAll(stranger, func(e *history.Event) {
			if path != "" {
				e.Holding.Path = path
			}
		}))
}

// left leaves the mounts of a path on a node to the end.
func left(node, path string) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		ids := map[uint64]bool{}
		for _, e := range events {
			if e.Kind == history.KindMount && e.Mount.Node == node && strings.Contains(e.Mount.Path, path) {
				ids[e.Mount.MountID] = true
			}
		}
		return drop(func(e *history.Event) bool {
			return e.Kind == history.KindMount && e.Mount.Action == history.MountDetach && ids[e.Mount.MountID]
		})(events)
	}
}

// settles gives the plan another bound of settling.
func settles(old, bound string) func([]history.Event) []history.Event {
	return edit(kind(history.KindPlan), func(e *history.Event) {
		e.Plan = []byte(strings.Replace(string(e.Plan), `"settle":"`+old+`"`, `"settle":"`+bound+`"`, 1))
	})
}

func residueMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	healed := faultStage(3, history.StageConfirmedHealed)
	lateUnmount := func(at float64) func([]history.Event) []history.Event {
		return onDisk(editAll(unmountOn("worker2"), func(e *history.Event) {
			e.Span = history.Between(historytest.At(at), historytest.At(at+0.0001))
		}))
	}
	return []mutation{
		{"nothing changed", "mount-residue", onDisk(nil), pass, ""},
		{"the pod's mount left behind", "mount-residue", onDisk(left("worker2", "/pods/")), fail,
			"was left behind: pod mysql-1 was gone at +33.000 s, and it was still there at"},
		{"the global mount left behind", "mount-residue", onDisk(left("worker2", "/globalmount")), fail,
			"The mount of volume pvc-1 as \"/var/lib/kubelet/plugins/kubernetes.io/csi/shared.disk/"},
		{"gone within the bound", "mount-residue", lateUnmount(42.9), pass, ""},
		{"gone after the bound", "mount-residue", lateUnmount(43.1), fail,
			"after the bound of 10s had run out at +43.000 s"},
		{"fault healed later", "mount-residue", then(lateUnmount(43.1), editAll(healed, func(e *history.Event) {
			e.Span = history.At(historytest.At(34))
		})), pass, ""},
		{"fault never healed", "mount-residue", then(lateUnmount(43.1), drop(healed)), unknown,
			"was never shown to be healed"},
		{"over before the bound", "mount-residue", onDisk(then(left("worker2", "/globalmount"),
			settles("10s", "1m0s"))),
			unknown, "may have been left behind"},
		{"global mount used by the next pod in time", "mount-residue", addDisk(func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 101, historytest.GlobalPath("pvc-1"), 36)
		}), pass, ""},
		{"mount for a pod that nobody knows", "mount-residue", addDisk(func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 100, historytest.PodPath("x", "pvc-0"), 36)
		}), unknown, "for a pod with uid x, which the API never showed"},
		{"pods not watched", "mount-residue", onDisk(drop(observer("api/pods", "", history.ObserverOn))), unknown,
			"api/pods was never on"},
		{"nothing mounted", "mount-residue", onDisk(drop(kind(history.KindMount))), unknown, "nothing to judge"},
		{"local volume left behind", "mount-residue", then(left("worker2", "/pods/"), settles("30s", "5s")), fail,
			"The mount of volume data-mysql-1"},
	}
}

func inUseMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	mysqld := func(e *history.Event) bool {
		return e.Kind == history.KindProcess && e.Process.Node == "worker2" && e.Process.Action == history.ProcessGone
	}
	until := func(at float64) func(*history.Event) {
		return func(e *history.Event) { e.Span = history.Between(historytest.At(at-0.2), historytest.At(at)) }
	}
	held := func(e *history.Event) bool {
		return e.Kind == history.KindHolding && e.Holding.Node == "worker2" && e.Holding.Action == history.ProcessGone
	}
	return []mutation{
		{"nothing changed", "unpublish-in-use", onDisk(nil), pass, ""},
		{"mysqld outlives the mount", "unpublish-in-use", onDisk(edit(mysqld, until(36))), fail,
			"Volume pvc-1 was taken from pod mysql-1 on node worker2 by +32.850 s"},
		{"mysqld outlives the mount by less than is told apart", "unpublish-in-use", onDisk(edit(mysqld, until(33.8))),
			pass, ""},
		{"mysqld's end seen late", "unpublish-in-use", onDisk(edit(mysqld, func(e *history.Event) {
			e.Span = history.Between(historytest.At(32), historytest.At(36))
		})), pass, ""},
		{"mysqld may have outlived the mount", "unpublish-in-use", onDisk(edit(mysqld, func(e *history.Event) {
			e.Span = history.Between(historytest.At(33), historytest.At(39))
		})), unknown, "whether mysqld (pid 4101) still ran then is not known"},
		{"the container outlives the mount", "unpublish-in-use", onDisk(edit(held, until(36))), fail,
			"the container of mysqld (pid 5000) still had it"},
		{"unmounted under a living pod", "unpublish-in-use", addDisk(func(t *historytest.Trial) {
			path := historytest.PodPath(t.PodUID("mysql-0"), "pvc-0")
			t.Call("NodeUnpublishVolume", "pvc-0", "worker", 20, 20.1, historytest.Target(path))
		}), fail, "(NodeUnpublishVolume ended well) while it was in use: mysqld (pid 4100) still ran"},
		{"unstaged under a living pod", "unpublish-in-use", addDisk(func(t *historytest.Trial) {
			t.Call("NodeUnstageVolume", "pvc-0", "worker", 20, 20.1, nil)
		}), fail, "Volume pvc-0 was taken from node worker by +20.100 s (NodeUnstageVolume ended well)"},
		{"unpublish failed under a living pod", "unpublish-in-use", addDisk(func(t *historytest.Trial) {
			t.Call("NodeUnstageVolume", "pvc-0", "worker", 20, 20.1, func(c *history.CSI) { c.Code = "Internal" })
		}), pass, ""},
		{"local volume taken from a living pod", "unpublish-in-use", edit(func(e *history.Event) bool {
			return e.Kind == history.KindProcess && e.Process.PID == 4000 && e.Process.Action == history.ProcessGone
		}, until(54)), fail, "Volume data-mysql-2 was taken from pod mysql-2 on node worker"},
		{"mounts gone as the node goes down", "unpublish-in-use", add(func(t *historytest.Trial) {
			t.Unmount("worker2", historytest.FirstBoot, 4, 31.15) // That of mysql-1.
		}), pass, ""},
		{"processes not watched", "unpublish-in-use", onDisk(drop(observer("processes", "worker2",
			history.ObserverOn))), unknown, "processes was never on on node worker2"},
		{"containers not watched", "unpublish-in-use", onDisk(drop(observer("holdings", "worker2",
			history.ObserverOn))), unknown, "holdings was never on on node worker2"},
		{"nothing mounted", "unpublish-in-use", onDisk(drop(kind(history.KindMount))), unknown, "nothing to judge"},
	}
}

func identityMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	// The pod of mysql-1 is force-deleted and its twin made, while its process lives on.
	lives := func(until float64) func([]history.Event) []history.Event {
		return onDisk(edit(func(e *history.Event) bool {
			return e.Kind == history.KindProcess && e.Process.Node == "worker2" &&
				e.Process.Action == history.ProcessGone
		}, func(e *history.Event) { e.Span = history.Between(historytest.At(until-0.2), historytest.At(until)) }))
	}
	return []mutation{
		{"nothing changed", "pod-identity", onDisk(nil), pass, ""},
		{"nothing changed, local", "pod-identity", nil, pass, ""},
		{"twin", "pod-identity", lives(45), fail, "Two database processes of mysql-1 lived at once, certainly from " +
			"+40.300 s to +44.800 s (4.5s): mysqld (pid 4101) on node worker2 and mysqld (pid 4101) on node worker"},
		{"the API's word is told", "pod-identity", lives(45), fail, "the API had given up the pod of the first"},
		{"twin perhaps", "pod-identity", lives(40.4), unknown, "may have lived at once"},
		{"no twin", "pod-identity", lives(40), pass, ""},
		{"initialization of the same pod", "pod-identity", addDisk(func(t *historytest.Trial) {
			t.Process("worker", "mysqld", t.PodUID("mysql-0"), 77, 20, 30)
		}), pass, ""},
		{"process of no known pod", "pod-identity", addDisk(func(t *historytest.Trial) {
			t.Process("worker", "mysqld", "nobody", 77, 20, 30)
		}), unknown, "is of a pod with uid nobody, which the API never showed"},
		{"process of no pod", "pod-identity", addDisk(func(t *historytest.Trial) {
			t.Process("worker", "mysqld", "", 77, 20, 30)
		}), unknown, "mysqld (pid 77) on node worker is of no pod"},
		{"another program", "pod-identity", addDisk(func(t *historytest.Trial) {
			t.Process("worker", "sh", "nobody", 77, 20, 30)
		}), pass, ""},
		{"processes not seen", "pod-identity", onDisk(drop(kind(history.KindProcess))), unknown,
			"no database process of mysql-0 was ever seen"},
		{"processes blind", "pod-identity", addDisk(func(t *historytest.Trial) {
			t.Observer("processes", "worker", historytest.FirstBoot, history.ObserverGap, "", 20, 26)
		}), unknown, "processes of node worker was blind for 6s"},
	}
}

func witnessMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	read := func(instance, label string) match {
		return func(e *history.Event) bool {
			return e.Kind == history.KindWitness && e.Witness.Instance == instance && e.Witness.Label == label
		}
	}
	last := read("mysql-1", "settled") // 27 entries of start-b, then 12 of start-c.
	entries := func(f func(all []history.WitnessEntry) []history.WitnessEntry) func([]history.Event) []history.Event {
		return onDisk(edit(last, func(e *history.Event) { e.Witness.Entries = f(e.Witness.Entries) }))
	}
	alter := func(f func(*history.Witness)) func([]history.Event) []history.Event {
		return onDisk(edit(last, func(e *history.Event) { f(e.Witness) }))
	}
	return []mutation{
		{"nothing changed", "witness", onDisk(nil), pass, ""},
		{"in turns", "witness", entries(func(all []history.WitnessEntry) []history.WitnessEntry {
			all[26], all[27] = all[27], all[26]
			return all
		}), fail, "The witness file of volume pvc-1 (mysql-1) was written by two in turns: entry 27 of start start-b"},
		{"at once", "witness", entries(func(all []history.WitnessEntry) []history.WitnessEntry {
			all[26].At = historytest.At(43)
			return all
		}), fail, "was written by two at once: start start-c made its first entry 2s before start start-b made"},
		{"an entry missing", "witness", entries(func(all []history.WitnessEntry) []history.WitnessEntry {
			return append(all[:5], all[6:]...)
		}), fail, "has a line too few or too many: entry 7 of start start-b on node worker2 comes where entry 6"},
		{"an entry twice", "witness", entries(func(all []history.WitnessEntry) []history.WitnessEntry {
			return append(all, all[len(all)-1])
		}), fail, "entry 12 of start start-c on node worker comes where entry 13"},
		{"torn", "witness", alter(func(w *history.Witness) { w.Torn = 2 }), fail, "has 2 torn lines"},
		{"not read", "witness", onDisk(drop(func(e *history.Event) bool {
			return e.Kind == history.KindWitness && e.Witness.Instance == "mysql-1"
		})), unknown, "the witness in the volume of mysql-1 was never read"},
		{"could not be read", "witness", alter(func(w *history.Witness) { w.Error = "no node" }), unknown, "no node"},
		{"nobody wrote", "witness", alter(func(w *history.Witness) { w.Entries = nil }), unknown,
			"nothing wrote to it"},
		{"none at all", "witness", onDisk(drop(kind(history.KindWitness))), unknown, "was never read"},

		{"nothing changed", "right-volume", onDisk(nil), pass, ""},
		{"another's volume", "right-volume", alter(func(w *history.Witness) { w.Volume = "disk-pvc-0" }), fail,
			"mysql-1 on node worker had volume pvc-1, and the identity in it was that of volume disk-pvc-0."},
		{"named by the PersistentVolume", "right-volume", alter(func(w *history.Witness) {
			w.Volume = "pvc-1"
		}), pass, ""},
		{"empty volume", "right-volume", alter(func(w *history.Witness) { w.Volume, w.Entries = "", nil }), fail,
			"there was no identity in it"},
		{"entries of another volume", "right-volume", alter(func(w *history.Witness) {
			w.Entries[30].Volume = "disk-pvc-0"
		}), fail, `made by a writer that believed itself on volume "disk-pvc-0"`},
		{"earlier entries gone", "right-volume", alter(func(w *history.Witness) { w.Entries = w.Entries[27:] }), fail,
			`entry 1 of start start-b on node worker2, which an earlier reading ("scaled") had found in it, was gone`},
		{"could not be read", "right-volume", alter(func(w *history.Witness) { w.Error = "no node" }), unknown,
			"no node"},
		{"volume not in the API", "right-volume", onDisk(drop(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Resource == "persistentvolumes"
		})), unknown, "was not seen with a volume handle"},
		{"none at all", "right-volume", onDisk(drop(kind(history.KindWitness))), unknown, "was never read"},
	}
}
