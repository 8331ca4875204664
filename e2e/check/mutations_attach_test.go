package check_test

import (
	"bytes"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// call is the n-th begin or end of a method for the volume of an ordinal.
func call(rpc, pv string, end bool, n int) match {
	return func(e *history.Event) bool {
		if e.Kind != history.KindCSI || e.CSI.RPC != rpc || e.CSI.Volume != historytest.Handle(pv) || e.CSI.End != end {
			return false
		}
		n--
		return n == 0
	}
}

// moved gives a call another time, both of its facts.
func moved(rpc, pv string, n int, from, to float64) func([]history.Event) []history.Event {
	return then(edit(call(rpc, pv, false, n), func(e *history.Event) { e.Span = history.At(historytest.At(from)) }),
		edit(call(rpc, pv, true, n), func(e *history.Event) {
			e.Span = history.Between(historytest.At(from), historytest.At(to))
		}))
}

func attached(nodes ...string) func(*history.Event) {
	return func(e *history.Event) { e.CSI.Attached = nodes }
}

func detachInUseMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	mark := func(t *historytest.Trial) {
		t.Attachment(history.VerbModified, "pvc-0", "worker", true, true, 30)
	}
	then := func(more func(*historytest.Trial)) func([]history.Event) []history.Event {
		return addDisk(func(t *historytest.Trial) { more(t); mark(t) })
	}
	return []mutation{
		{"nothing changed", "detach-in-use", onDisk(nil), pass, ""},
		{"deleted while in use", "detach-in-use", addDisk(mark), fail,
			"The VolumeAttachment of volume pvc-0 to node worker was deleted by +30.000 s while the node, which was " +
				"Ready"},
		{"listed a moment ago", "detach-in-use", then(func(t *historytest.Trial) {
			t.InUse("worker", 20)
			t.InUse("worker", 21, "pvc-0")
		}), pass, ""},
		{"not listed", "detach-in-use", then(func(t *historytest.Trial) { t.InUse("worker", 20) }), pass, ""},
		{"another listed", "detach-in-use", then(func(t *historytest.Trial) {
			t.InUse("worker", 15, "pvc-1")
		}), pass, ""},
		{"by force", "detach-in-use", then(func(t *historytest.Trial) { t.NotReady("worker", 20, "pvc-0") }), pass, ""},
		{"Ready again", "detach-in-use", then(func(t *historytest.Trial) {
			t.NotReady("worker", 20, "pvc-0")
			t.InUse("worker", 21, "pvc-0")
		}), fail, "in volumesInUse"},
		{"blind before", "detach-in-use", then(func(t *historytest.Trial) {
			t.Observer("api/nodes", "", "", history.ObserverGap, "", 28, 29)
		}), unknown, "the watch was blind before"},
		{"blind for long", "detach-in-use", addDisk(func(t *historytest.Trial) {
			t.Observer("api/volumeattachments", "", "", history.ObserverGap, "", 20, 28)
		}), unknown, "api/volumeattachments was blind for 8s"},
		{"listed by the node before it was made anew", "detach-in-use", then(func(t *historytest.Trial) {
			t.GoneNode("worker", 29, "pvc-0")
			t.InUse("worker", 29.5, "pvc-0")
		}), pass, ""},
		{"listed again after a gap", "detach-in-use", then(func(t *historytest.Trial) {
			t.Observer("api/nodes", "", "", history.ObserverGap, "", 24, 26)
			t.InUse("worker", 26, "pvc-0")
		}), pass, ""},
		{"listed in a gap, perhaps", "detach-in-use", then(func(t *historytest.Trial) {
			t.InUse("worker", 15)
			t.Observer("api/nodes", "", "", history.ObserverGap, "", 16, 31)
		}), unknown, "the watch was blind before"},
		{"never watched", "detach-in-use", onDisk(drop(observer("api/volumeattachments", "", history.ObserverOn))),
			unknown, "api/volumeattachments was never on"},
		{"no attachment seen", "detach-in-use", onDisk(drop(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Resource == "volumeattachments"
		})), unknown, "nothing to judge"},
	}
}

func detachOrderMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	early := func() func([]history.Event) []history.Event {
		return moved("ControllerUnpublishVolume", "pvc-1", 1, 32, 32.1)
	}
	cut := func() func([]history.Event) []history.Event {
		return drop(call("ControllerUnpublishVolume", "pvc-1", true, 1))
	}
	return []mutation{
		{"nothing changed", "detach-order", onDisk(nil), pass, ""},
		{"detached while mounted", "detach-order", onDisk(early()), fail,
			"Volume pvc-1 was detached from node worker2 at +32.000 s while the node still had it mounted"},
		{"volumesInUse named it", "detach-order", onDisk(early()), fail, "the node's volumesInUse still named it"},
		{"detached between unpublish and unstage, forgotten", "detach-order", addDisk(func(t *historytest.Trial) {
			t.InUse("worker", 20)
			t.Call("ControllerUnpublishVolume", "pvc-0", "worker", 20.5, 20.6, historytest.On())
		}), fail, "the node's volumesInUse did not name it"},
		{"an error, and detached all the same", "detach-order", onDisk(then(early(),
			edit(call("ControllerUnpublishVolume", "pvc-1", true, 1),
				func(e *history.Event) { e.CSI.Code, e.CSI.Point = "Internal", "late" }))), fail, "was detached from"},
		{"an error, and nothing done", "detach-order", addDisk(func(t *historytest.Trial) {
			t.Call("ControllerUnpublishVolume", "pvc-0", "worker", 20, 20.1, func(c *history.CSI) {
				c.Code, c.Attached = "FailedPrecondition", []string{"worker"}
			})
		}), pass, ""},
		{"made to fail", "detach-order", addDisk(func(t *historytest.Trial) {
			t.Call("ControllerUnpublishVolume", "pvc-0", "worker", 20, 20.1, func(c *history.CSI) {
				c.Code, c.Point = "Internal", "fail"
			})
		}), pass, ""},
		{"cut off while mounted", "detach-order", onDisk(then(early(), cut())), unknown, "was cut off"},
		{"cut off when unmounted", "detach-order", onDisk(cut()), pass, ""},
		{"a container still had it", "detach-order", onDisk(editAll(func(e *history.Event) bool {
			return e.Kind == history.KindHolding && e.Holding.Node == "worker2" &&
				e.Holding.Action == history.ProcessGone
		}, func(e *history.Event) { e.Span = history.Between(historytest.At(34.5), historytest.At(34.7)) })), fail,
			"within the container of mysqld"},
		{"unmount seen late, unstaged in time", "detach-order", onDisk(editAll(unmountOn("worker2"),
			func(e *history.Event) { e.Span.NotAfter = historytest.At(34) })), pass, ""},
		{"unmount seen late, unstage not seen", "detach-order", onDisk(then(editAll(unmountOn("worker2"),
			func(e *history.Event) { e.Span.NotAfter = historytest.At(34) }),
			drop(call("NodeUnstageVolume", "pvc-1", true, 1)), drop(call("NodeUnpublishVolume", "pvc-1", true, 1)))),
			unknown, "may still have been mounted"},
		{"controller not watched", "detach-order", onDisk(drop(observer("csi-controller", "control-plane",
			history.ObserverOn))), unknown, "csi-controller was never on"},
		{"controller blind", "detach-order", addDisk(func(t *historytest.Trial) {
			t.Observer("csi-controller", "control-plane", historytest.FirstBoot, history.ObserverGap, "", 20, 26)
		}), unknown, "csi-controller of node control-plane was blind for 6s"},
		{"controller restarted", "detach-order", addDisk(func(t *historytest.Trial) {
			t.Observer("csi-controller", "control-plane", historytest.FirstBoot, history.ObserverGap,
				"the driver did not run", 20, 26)
		}), pass, ""},
		{"ledger not kept", "detach-order", onDisk(drop(observer("mounts", "worker2", history.ObserverOn))), unknown,
			"kept no mount ledger"},
		{"no calls at all", "detach-order", onDisk(drop(kind(history.KindCSI))), unknown, "nothing to judge"},
		{"nothing attaches", "detach-order", onDisk(drop(func(e *history.Event) bool {
			return e.Kind == history.KindCSI && strings.HasPrefix(e.CSI.RPC, "Controller")
		})), pass, ""},
	}
}

func unmountOn(node string) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindMount && e.Mount.Action == history.MountDetach && e.Mount.Node == node
	}
}

func attachOrderMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	second := func(node string, on ...string) func(*historytest.Trial) {
		return func(t *historytest.Trial) {
			t.Call("ControllerPublishVolume", "pvc-0", node, 20, 20.1, historytest.On(on...))
		}
	}
	return []mutation{
		{"nothing changed", "attach-order", onDisk(nil), pass, ""},
		{"table has two", "attach-order", addDisk(second("worker2", "worker", "worker2")), fail,
			"Volume pvc-0 was attached to node worker2 at +20.100 s while it was still attached to node worker"},
		{"table has one, the other has it mounted", "attach-order", addDisk(second("worker2", "worker2")), fail,
			"Volume pvc-0 was attached to node worker2 at +20.100 s while node worker still had it mounted"},
		{"attached again to the same node", "attach-order", addDisk(second("worker", "worker")), pass, ""},
		{"refused", "attach-order", addDisk(func(t *historytest.Trial) {
			t.Call("ControllerPublishVolume", "pvc-0", "worker2", 20, 20.1, func(c *history.CSI) {
				c.Code, c.Attached = "FailedPrecondition", []string{"worker"}
			})
		}), pass, ""},
		{"refused, and attached all the same", "attach-order", addDisk(func(t *historytest.Trial) {
			t.Call("ControllerPublishVolume", "pvc-0", "worker2", 20, 20.1, func(c *history.CSI) {
				c.Code, c.Attached = "Internal", []string{"worker", "worker2"}
			})
		}), fail, "still attached to node worker"},
		{"detach failed, then attached elsewhere", "attach-order", onDisk(then(
			edit(call("ControllerUnpublishVolume", "pvc-1", true, 1), func(e *history.Event) {
				e.CSI.Code, e.CSI.Attached = "Internal", []string{"worker2"}
			}), edit(call("ControllerPublishVolume", "pvc-1", true, 2), attached("worker", "worker2")))), fail,
			"Volume pvc-1 was attached to node worker at +39.500 s while it was still attached to node worker2"},
		{"attach cut off", "attach-order", addDisk(func(t *historytest.Trial) {
			t.Call("ControllerPublishVolume", "pvc-0", "worker2", 20, 0, nil)
		}), unknown, "was cut off while it was attached to worker"},
		{"two VolumeAttachments", "attach-order", addDisk(func(t *historytest.Trial) {
			t.Attachment(history.VerbAdded, "pvc-0", "worker2", true, false, 20)
		}), fail, "Volume pvc-0 was attached to node worker2 at +20.000 s, by its VolumeAttachment, while that to"},
		{"two VolumeAttachments, one not attached", "attach-order", addDisk(func(t *historytest.Trial) {
			t.Attachment(history.VerbAdded, "pvc-0", "worker2", false, false, 20)
		}), pass, ""},
		{"may be on many nodes", "attach-order", onDisk(then(editAll(kind(history.KindObject), func(e *history.Event) {
			e.Object.Raw = []byte(strings.Replace(string(e.Object.Raw), "ReadWriteOnce", "ReadWriteMany", 1))
		}), edit(call("ControllerPublishVolume", "pvc-1", true, 2), attached("worker", "worker2")))), pass, ""},
		{"no calls at all", "attach-order", onDisk(drop(kind(history.KindCSI))), unknown, "nothing to judge"},
	}
}

// nodeStatus matches the statuses of a node that have lists of volumes.
func nodeStatus(node string) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindObject && e.Object.Resource == "nodes" && e.Object.Name == node &&
			strings.Contains(string(e.Object.Raw), "volumesInUse")
	}
}

// unlisted takes a list out of the status of a node.
func unlisted(list string) func(*history.Event) { return rewrite(list, "gone") }

func stageOrderMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	unattached := addDisk(func(t *historytest.Trial) {
		t.PV("pvc-9", "data-other-0", "ReadWriteOnce", 1)
		t.Call("NodeStageVolume", "pvc-9", "worker", 21, 21.1, nil)
	})
	return []mutation{
		{"nothing changed", "stage-order", onDisk(nil), pass, ""},
		{"calls for a volume missed", "stage-order", onDisk(drop(func(e *history.Event) bool {
			return e.Kind == history.KindCSI && e.CSI.Volume == historytest.Handle("pvc-0")
		})), unknown, "no NodePublishVolume of volume pvc-0 on node worker was seen"},
		{"staged and never attached", "stage-order", unattached, fail, "NodeStageVolume of volume pvc-9 on node " +
			"worker began at +21.000 s although no ControllerPublishVolume had ended well for it there"},
		{"a volume of another namespace", "stage-order", then(unattached, editAll(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Name == "pvc-9"
		}, ofAnother)), pass, ""},
		{"staged before attached", "stage-order", onDisk(moved("ControllerPublishVolume", "pvc-0", 1, 1.3, 1.55)), fail,
			"NodeStageVolume of volume pvc-0 on node worker began at +1.500 s although no " +
				"ControllerPublishVolume had ended well for it there"},
		{"attach failed", "stage-order", onDisk(edit(call("ControllerPublishVolume", "pvc-0", true, 1),
			func(e *history.Event) { e.CSI.Code = "Internal" })), fail, "no ControllerPublishVolume had ended well"},
		{"attach never ended", "stage-order", onDisk(drop(call("ControllerPublishVolume", "pvc-0", true, 1))), unknown,
			"whether ControllerPublishVolume had ended well before is not known"},
		{"attached before the controller was watched", "stage-order", onDisk(then(
			drop(call("ControllerPublishVolume", "pvc-0", false, 1)),
			drop(call("ControllerPublishVolume", "pvc-0", true, 1)),
			drop(before(observer("csi-controller", "control-plane", history.ObserverBeat), 4)),
			edit(observer("csi-controller", "control-plane", history.ObserverOn), func(e *history.Event) {
				e.Span, e.Observer.Boot = history.At(historytest.At(3)), "unknown"
			}), editAll(observer("csi-controller", "control-plane", history.ObserverBeat), func(e *history.Event) {
				e.Observer.Boot = "unknown"
			}))), unknown, "not known"},
		{"detached before it was staged", "stage-order", addDisk(func(t *historytest.Trial) {
			t.Call("ControllerUnpublishVolume", "pvc-0", "worker", 20, 20.1, historytest.On())
			t.Call("NodeStageVolume", "pvc-0", "worker", 21, 21.1, nil)
		}), fail, "although ControllerUnpublishVolume had undone that at +20.100 s"},
		{"not listed as attached", "stage-order", onDisk(editAll(nodeStatus("worker"), unlisted("volumesAttached"))),
			fail, "NodeStageVolume of volume pvc-0 on node worker began at +1.500 s although no status of the node " +
				"had listed it in volumesAttached."},
		{"not listed as in use", "stage-order", onDisk(editAll(nodeStatus("worker"), unlisted("volumesInUse"))), fail,
			"had listed it in volumesInUse."},
		{"listed too late", "stage-order", onDisk(editAll(before(nodeStatus("worker"), 5), func(e *history.Event) {
			e.Span = history.At(historytest.At(5))
		})), fail, "had listed it in volumesAttached."},
		{"listed before it was unstaged, and not since", "stage-order", addDisk(func(t *historytest.Trial) {
			t.InUse("worker", 20)
			t.Call("NodeUnstageVolume", "pvc-0", "worker", 21, 21.1, nil)
			t.Call("NodeStageVolume", "pvc-0", "worker", 22, 22.1, nil)
		}), fail, "had listed it in volumesAttached since NodeUnstageVolume at +21.100 s"},
		{"listed before it was detached by force, and not since", "stage-order", addDisk(func(t *historytest.Trial) {
			t.InUse("worker", 20)
			t.Call("ControllerUnpublishVolume", "pvc-0", "worker", 21, 21.1, historytest.On())
			t.Call("ControllerPublishVolume", "pvc-0", "worker", 21.5, 21.6, historytest.On("worker"))
			t.Call("NodeStageVolume", "pvc-0", "worker", 22, 22.1, nil)
		}), fail, "had listed it in volumesAttached since ControllerUnpublishVolume at +21.100 s"},
		{"listed until after it was unstaged", "stage-order", addDisk(func(t *historytest.Trial) {
			t.Call("NodeUnstageVolume", "pvc-0", "worker", 20, 20.1, nil)
			t.InUse("worker", 21)
			t.Call("NodeStageVolume", "pvc-0", "worker", 22, 22.1, nil)
			t.InUse("worker", 23, "pvc-0")
		}), pass, ""},
		{"perhaps listed in a gap", "stage-order", then(addDisk(func(t *historytest.Trial) {
			t.Observer("api/nodes", "", "", history.ObserverGap, "", 0.5, 1)
		}), editAll(nodeStatus("worker"), unlisted("volumesAttached"))), unknown,
			"whether the node had listed it in volumesAttached is not known"},
		{"published before staged", "stage-order", onDisk(moved("NodeStageVolume", "pvc-0", 1, 1.5, 1.85)), fail,
			"NodePublishVolume of volume pvc-0 on node worker began at +1.800 s although no NodeStageVolume had ended"},
		{"published after unstaged", "stage-order", addDisk(func(t *historytest.Trial) {
			t.Call("NodeUnstageVolume", "pvc-0", "worker", 20, 20.1, nil)
			t.Call("NodePublishVolume", "pvc-0", "worker", 21, 21.1, nil)
		}), fail, "although NodeUnstageVolume had undone that at +20.100 s"},
		{"staged on another boot", "stage-order", then(addDisk(func(t *historytest.Trial) {
			const boot = "1017.500s"
			t.Observer("csi", "worker", boot, history.ObserverOn, "", 19, 19)
			t.Beats("csi", "worker", boot, 20, 59)
			t.Call("NodePublishVolume", "pvc-0", "worker", 20, 20.1, func(c *history.CSI) { c.Boot = boot })
		}), drop(after(func(e *history.Event) bool {
			return e.Kind == history.KindObserver && e.Observer.Name == "csi" && e.Observer.Node == "worker" &&
				e.Observer.Boot == historytest.FirstBoot
		}, 17.2)), editAll(func(e *history.Event) bool {
			return e.Kind == history.KindFault && e.Fault.Node == "worker"
		}, func(e *history.Event) { e.Fault.Name = "node-reboot" }), edit(kind(history.KindPlan), func(
			e *history.Event,
		) {
			e.Plan = bytes.ReplaceAll(e.Plan, []byte("kubelet-kill"), []byte("node-reboot"))
		})), fail,
			"at +20.000 s although no NodeStageVolume had ended well"},
		{"unstaging as it is published", "stage-order", addDisk(func(t *historytest.Trial) {
			t.Call("NodeUnstageVolume", "pvc-0", "worker", 20, 20.5, nil)
			t.Call("NodePublishVolume", "pvc-0", "worker", 20.2, 20.3, nil)
		}), unknown, "NodePublishVolume of volume pvc-0 on node worker began at +20.200 s: whether"},
		{"driver of a node not watched", "stage-order", onDisk(drop(observer("csi", "worker2", history.ObserverOn))),
			unknown, "csi was never on on node worker2"},
		{"nothing attaches", "stage-order", onDisk(drop(func(e *history.Event) bool {
			return e.Kind == history.KindCSI && strings.HasPrefix(e.CSI.RPC, "Controller")
		})), pass, ""},
	}
}
