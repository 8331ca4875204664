package check_test

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

const (
	kubeletPath = "/var/lib/kubelet/pods/9-9/volumes/kubernetes.io~local-volume/data-mysql-0"
	csiPath     = "/var/lib/kubelet/pods/9-9/volumes/kubernetes.io~csi/shared/mount"
)

func mountMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	second := func(path string, from, to float64) func([]history.Event) []history.Event {
		return add(func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 100, path, from)
			t.Unmount("worker2", historytest.FirstBoot, id, to)
		})
	}
	return []mutation{
		{"nothing changed", "mounts", nil, pass, ""},
		{"second node by kubelet", "mounts", second(kubeletPath, 20, 21), fail,
			"mounted on worker and on worker2 at once"},
		{"second node by hand", "mounts", second("/mnt/by-hand", 20, 21), fail,
			"certainly from +20.000 s to +21.000 s"},
		{
			"second node, certain for 1 ns",
			"mounts",
			second("/mnt/by-hand", 20, 20.000100001),
			fail,
			"(1ns, and possibly",
		},
		{"second node, shorter than it took to see", "mounts", second("/mnt/by-hand", 20, 20.00005), fail,
			"at once, at some time between +20.000 s and +20.000 s"},
		{"second node to the end", "mounts", add(func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 102, csiPath, 70)
		}), fail, "volume data-mysql-2"},
		{"second node, its ledger silent at once", "mounts", then(add(func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 102, csiPath, 75)
		}), drop(after(observer("mounts", "control-plane",
			history.ObserverBeat), 74.5))), unknown, "may have been mounted"},
		{"rebooted node held it until its last beat", "mounts", add(func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 101, csiPath, 31.5)
		}), fail, "data-mysql-1"}, // The second boot mounts it again.
		{"mounted while the node was down", "mounts", add(func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 101, csiPath, 31.5)
			t.Unmount("control-plane", historytest.FirstBoot, id, 32.5)
		}), unknown, "may have been mounted on worker2 and on control-plane"},
		{"mounted after the new boot began", "mounts", add(func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 101, csiPath, 33.02)
			t.Unmount("control-plane", historytest.FirstBoot, id, 33.4)
		}), pass, ""},
		{"secret on two nodes", "mounts", add(func(t *historytest.Trial) {
			path := "/var/lib/kubelet/pods/9-9/volumes/kubernetes.io~secret/s"
			t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 900, path, 20)
			t.Mount(history.MountAttach, "control-plane", historytest.FirstBoot, 900, path, 20)
		}), pass, ""},
	}
}

// elsewhere has objects of a resource, those of a name or all, on a node of which the API showed nothing.
func elsewhere(resource, name string) func([]history.Event) []history.Event {
	return editAll(func(e *history.Event) bool {
		return e.Object != nil && e.Object.Resource == resource && (name == "" || e.Object.Name == name)
	}, func(e *history.Event) {
		e.Object.Raw = regexp.MustCompile(`"nodeName":"[^"]*"`).ReplaceAll(e.Object.Raw,
			[]byte(`"nodeName":"elsewhere"`))
	})
}

func blindMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	return []mutation{
		{"mount nobody could identify, brief", "mounts", unidentified(20, 20.001, true), pass, ""},
		{"mount nobody could identify, long", "mounts", unidentified(20, 26, true), unknown, "blind for 6"},
		{"mount nobody could identify, to the end", "mounts", unidentified(20, 0, false), unknown, "blind for"},
		{"gap of 5 s", "mounts", blindFor("worker", history.ObserverGap, 20, 25), pass, ""},
		{"gap of 5.001 s", "mounts", blindFor("worker", history.ObserverGap, 20, 25.001), unknown,
			"blind for 5.001s"},
		{"losses that touch", "mounts", then(blindFor("worker", history.ObserverLoss, 20, 23),
			func(events []history.Event) []history.Event {
				extra := historytest.New(historytest.SmokePlan())
				extra.Observer("mounts", "worker", historytest.FirstBoot, history.ObserverLoss, "", 23, 26)
				return append(events, extra.History().Events[1])
			}), unknown, "blind for 6s"},
		{"no ledger on a node", "mounts", drop(func(e *history.Event) bool {
			return e.Source == "ledger/control-plane"
		}), unknown, "node control-plane kept no mount ledger"},
		{"pod on a node that is not of the trial", "mounts", elsewhere("pods", "mysql-2"), unknown,
			"node elsewhere kept no mount ledger"},
		{"pod on a node that is not of the trial", "pod-identity", elsewhere("pods", "mysql-2"), unknown, "elsewhere"},
		{"volume attached to a node that is not of the trial", "mounts", onDisk(elsewhere("volumeattachments", "")),
			unknown, "node elsewhere kept no mount ledger"},
		{"ledger silent too early", "mounts", drop(after(observer("mounts", "worker", history.ObserverBeat), 67)),
			unknown, "blind for"},
		{"ledger after reboot began late", "mounts", editAll(observer("mounts", "worker2", history.ObserverOn),
			func(e *history.Event) {
				e.Observer.Detail = strings.ReplaceAll(e.Observer.Detail, "before", "after")
			}), pass, ""}, // 31 s to 33.2 s is within the bound.
		{"reboot that no fault explains", "mounts", then(drop(kind(history.KindFault)),
			drop(after(before(observer("mounts", "worker2", history.ObserverBeat), 32), 27))), unknown, "blind for"},
		{"reboot that a fault explains", "mounts", edit(faultStage(6, history.StageIntent), func(e *history.Event) {
			e.Span = history.At(historytest.At(28))
		}), pass, ""},
		{"ledger begun again, mounts listed anew", "mounts", begunAgain(true, nil), pass, ""},
		{"ledger begun again, volume handed over later", "mounts", begunAgain(true, func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "worker2", historytest.SecondBoot, 102, "/mnt/later", 63)
		}), fail, "data-mysql-2"}, // It was mounted at +60 s on worker.
		{"mount lost in a gap, other node long after", "mounts", begunAgain(false, func(t *historytest.Trial) {
			t.Mount(history.MountAttach, "worker2", historytest.SecondBoot, 555, csiPath, 40)
		}), pass, ""},
		{"mount lost in a gap, other node within it", "mounts", begunAgain(false, func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 555, csiPath, 21)
			t.Unmount("worker2", historytest.FirstBoot, id, 21.5)
		}), unknown, "volume shared may have been mounted"},
		{"mount before a gap, other node before it", "mounts", begunAgain(false, func(t *historytest.Trial) {
			id := t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 555, csiPath, 19)
			t.Unmount("worker2", historytest.FirstBoot, id, 19.5)
		}), fail, "Volume shared was mounted on worker and on worker2 at once, certainly from +19.000 s to +19.500 s"},
		{"two directories of one disk", "mounts", directories("/a", "/b"), pass, ""},
		{"one directory of one disk", "mounts", directories("/a", "/a"), fail,
			"mounted on worker and on worker2 at once"},
		{"a directory in the other", "mounts", directories("/a", "/a/b"), fail,
			"mounted on worker and on worker2 at once"},
		{"nothing mounted", "mounts", drop(kind(history.KindMount)), unknown, "0 volumes were seen mounted for a pod"},
		{"a volume never mounted for its pod", "mounts", drop(func(e *history.Event) bool {
			return e.Kind == history.KindMount && strings.HasSuffix(e.Mount.Path, "/data-mysql-1") &&
				strings.Contains(e.Mount.Path, "kubelet")
		}), unknown, "2 volumes were seen mounted for a pod"},
		{"volume without identity", "mounts", edit(kind(history.KindVolume), func(e *history.Event) {
			e.Volume.Identity = history.Identity{}
		}), unknown, "no identity"},
		{"no nodes", "mounts",
			drop(func(e *history.Event) bool { return e.Kind == history.KindObject && e.Object.Resource == "nodes" }),
			unknown, "no node of the cluster"},
	}
}

// unidentified is a mount on worker without a known identity.
func unidentified(from, to float64, ends bool) func([]history.Event) []history.Event {
	return then(add(func(t *historytest.Trial) {
		id := t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 4711, "", from)
		if ends {
			t.Unmount("worker", historytest.FirstBoot, id, to)
		}
	}), edit(func(e *history.Event) bool {
		return e.Kind == history.KindMount && e.Mount.Identity.BackingInode == 4711
	},
		func(e *history.Event) { e.Mount.Identity, e.Mount.Unknown, e.Mount.Root = history.Identity{}, true, "" }))
}

// begunAgain stops the ledger of worker at +20 s and starts it again at +22 s. A volume called shared was mounted there
// at +10 s; the new session lists what it finds, and that mount only if it was kept.
func begunAgain(kept bool, tell func(*historytest.Trial)) func([]history.Event) []history.Event {
	return then(add(func(t *historytest.Trial) {
		const node, boot = "worker", historytest.FirstBoot
		t.Mount(history.MountAttach, node, boot, 555, csiPath, 10)
		t.Observer("mounts", node, boot, history.ObserverGap, "the ledger did not run", 20, 22)
		t.Observer("mounts", node, boot, history.ObserverOn, "fanotify", 22, 22)
		t.Mount(history.MountPresent, node, boot, 100, "/var/lib/seatrial/data-mysql-0", 22.01)
		t.Mount(history.MountPresent, node, boot, 102, "/var/lib/seatrial/data-mysql-2", 22.01)
		if kept {
			t.Mount(history.MountPresent, node, boot, 555, csiPath, 22.01)
		}
		if tell != nil {
			tell(t)
		}
	}), drop(before(after(observer("mounts", "worker", history.ObserverBeat), 20.5), 21.5)))
}

// directories are two directories of one disk, each mounted by the kubelet of a node.
func directories(a, b string) func([]history.Event) []history.Event {
	path := strings.Replace(kubeletPath, "data-mysql-0", "directory", 1)
	disk := func(root string, e *history.Event) {
		e.Mount.Identity, e.Mount.Root = history.Identity{Device: "8:1"}, root
	}
	at := func(node string) match {
		return func(e *history.Event) bool {
			return e.Kind == history.KindMount && e.Mount.Path == path && e.Mount.Node == node
		}
	}
	return then(add(func(t *historytest.Trial) {
		t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 1, path, 20)
		t.Mount(history.MountAttach, "worker2", historytest.FirstBoot, 1, path, 21)
	}), edit(at("worker"), func(e *history.Event) {
		disk(a,
			e)
	}), edit(at("worker2"), func(e *history.Event) { disk(b, e) }))
}

func blindFor(node string, state history.ObserverState, from, to float64) func([]history.Event) []history.Event {
	return add(func(t *historytest.Trial) {
		t.Observer("mounts", node, historytest.FirstBoot, state, "", from, to)
	})
}

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
	later := func(e *history.Event) bool {
		return e.Kind == history.KindHolding && e.Holding.PodUID == historytest.Disk().PodUID("mysql-1")
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
		{"no container seen", "mounts", onDisk(drop(kind(history.KindHolding))), unknown,
			"was seen in no container, though pod mysql-0, which uses it, was Ready"},
		{"the container of a later pod not seen", "mounts", onDisk(drop(later)), unknown,
			"volume pvc-1 was seen in no container, though pod mysql-1, which uses it, was Ready"},
		{"the container of a later pod, seen while runc made it", "mounts", onDisk(editAll(later,
			func(e *history.Event) { e.Holding.PodUID = "" })), pass, ""},
		{"containers not watched", "mounts", onDisk(drop(observer("holdings", "worker", history.ObserverOn))), unknown,
			"the observer holdings was never on on node worker"},
	}
}

// strangerHolds has a container of another pod hold the volume of mysql-0 on its node, at that path unless it is empty.
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

// settles sets the plan's settle bound.
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
		{"those of volumes of another namespace left behind", "mount-residue",
			onDisk(then(left("worker2", "/globalmount"), editAll(kind(history.KindObject), ofAnother))), unknown,
			"there was nothing to judge"},
		{"gone within the bound", "mount-residue", lateUnmount(42.9), pass, ""},
		{"gone after the bound", "mount-residue", lateUnmount(43.1), fail,
			"after the bound of 10s had run out at +43.000 s"},
		{"fault healed later", "mount-residue", then(lateUnmount(43.1), editAll(healed, func(e *history.Event) {
			e.Span = history.At(historytest.At(34))
		})), pass, ""},
		{"fault never healed", "mount-residue", then(lateUnmount(43.1), drop(healed)), unknown,
			"was never shown to be healed"},
		{"taken away by a later fault", "mount-residue", then(lateUnmount(43.2), editAll(kind(history.KindFault),
			func(e *history.Event) { e.Span = history.At(historytest.At(43.1)) })), fail,
			"was left behind: pod mysql-1 was gone at +33.000 s, and it was still there at +43.2"},
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
		{"the record breaks off as the node goes down", "unpublish-in-use", then(add(func(t *historytest.Trial) {
			t.Unmount("worker2", historytest.FirstBoot, 4, 31.15)
			t.Beats("processes", "worker2", historytest.FirstBoot, 31.5, 32.9)
		}), drop(func(e *history.Event) bool { return e.Span.NotAfter > historytest.At(33) })), pass, ""},
		{"processes not watched", "unpublish-in-use", onDisk(drop(observer("processes", "worker2",
			history.ObserverOn))), unknown, "processes was never on on node worker2"},
		{"containers not watched", "unpublish-in-use", onDisk(drop(observer("holdings", "worker2",
			history.ObserverOn))), unknown, "holdings was never on on node worker2"},
		{"nothing mounted", "unpublish-in-use", onDisk(drop(kind(history.KindMount))), unknown, "nothing to judge"},
	}
}

// ofAnother puts the claim of a volume into another namespace.
func ofAnother(e *history.Event) {
	if e.Object.Resource == "persistentvolumes" {
		e.Object.Raw = bytes.ReplaceAll(e.Object.Raw, []byte(`"namespace":"`), []byte(`"namespace":"another-`))
	}
}
