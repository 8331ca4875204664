package check_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

func verdict(t *testing.T, events []history.Event, name string, want check.Verdict) {
	t.Helper()
	if res := result(t, history.History{Events: events}, name); res.Verdict != want {
		t.Errorf("%s: %s, want %s\nfindings %+v\nreasons %q", name, res.Verdict, want, res.Findings, res.Reasons)
	}
}

// killed moves kubelet-kill of the smoke trial to worker2, from +16.1 s to over; worker2 is rebooted from +31 s on.
func killed(intent, over float64, more func(*historytest.Trial)) []history.Event {
	return then(add(func(t *historytest.Trial) {
		t.Fault(3, "kubelet-kill", "worker2", "mysql-1", historytest.FaultTimes{Intent: intent, Injected: intent + 0.1,
			InjectedEnd: intent + 0.2, Confirmed: intent + 0.3, Healed: over - 0.5, HealedEnd: over - 0.4, Over: over})
		if more != nil {
			more(t)
		}
	}), drop(func(e *history.Event) bool {
		return e.Kind == history.KindFault && e.Fault.Step == 3 && e.Fault.Node == "worker"
	}))(nil)
}

// The ledger of worker2 dies at +18 s; the node goes down at +31 s. A kubelet-kill, healed at +25 s, explains nothing.
func TestLedgerDeadBeforeReboot(t *testing.T) {
	dies := drop(after(before(observer("mounts", "worker2", history.ObserverBeat), 32), 18.5))
	verdict(t, dies(add()(nil)), "mounts", check.Unknown)
	verdict(t, dies(killed(16.1, 25, nil)), "mounts", check.Unknown)
}

// The volume of a living mysqld is unmounted at +27 s, 4 s before the reboot, while only kubelet-kill is active.
func TestUnmountedBeforeReboot(t *testing.T) {
	taken := func(t *historytest.Trial) { t.Unmount("worker2", historytest.FirstBoot, 4, 27) }
	verdict(t, add(taken)(nil), "unpublish-in-use", check.Fail)
	verdict(t, killed(26, 29.5, taken), "unpublish-in-use", check.Fail)
}

// whenScaled is Delete: from +39 s on, mysql-1 has a new claim and a new volume, pvc-2. No mount is left behind.
func TestResidueOfNewClaim(t *testing.T) {
	anew := func(more func(*historytest.Trial)) []history.Event {
		events := addDisk(func(t *historytest.Trial) {
			t.Claim("data-mysql-1", "pvc-1", 39.12)
			t.PV("pvc-1", "data-mysql-1", "ReadWriteOnce", 39.15)
			if more != nil {
				more(t)
			}
		})(nil)
		for i, e := range events {
			if e.Span.NotBefore < historytest.At(38) {
				continue
			}
			text, err := json.Marshal(e)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range [][2]string{{historytest.GlobalPath("pvc-1"), historytest.GlobalPath("pvc-2")},
				{"pvc-1", "pvc-2"}, {`"backingInode":101`, `"backingInode":102`}, {"pvc-OLD", "pvc-1"}} {
				text = bytes.ReplaceAll(text, []byte(r[0]), []byte(r[1]))
			}
			events[i] = history.Event{}
			if err := json.Unmarshal(text, &events[i]); err != nil {
				t.Fatal(err)
			}
		}
		return settles("10s", "5s")(events)
	}
	verdict(t, settles("10s", "5s")(addDisk()(nil)), "mount-residue", check.Pass)
	verdict(t, anew(nil), "mount-residue", check.Pass)
	verdict(t, anew(func(t *historytest.Trial) { // The old volume, Released, changes once more.
		t.PV("pvc-OLD", "data-mysql-1", "ReadWriteOnce", 45)
	}), "mount-residue", check.Pass)
}

// What undid a step answered an error, and did its work all the same.
func TestStagedAfterFailedUndo(t *testing.T) {
	verdict(t, addDisk(func(t *historytest.Trial) {
		t.Call("NodeUnstageVolume", "pvc-0", "worker", 20, 20.1, nil)
		t.Call("ControllerUnpublishVolume", "pvc-0", "worker", 20.2, 20.3, func(c *history.CSI) {
			c.Code, c.Point, c.Attached = "Internal", "late", []string{}
		})
		t.Call("NodeStageVolume", "pvc-0", "worker", 21, 21.1, nil)
	})(nil), "stage-order", check.Fail)
	verdict(t, addDisk(func(t *historytest.Trial) {
		t.Call("NodeUnstageVolume", "pvc-0", "worker", 20, 20.1, func(c *history.CSI) {
			c.Code, c.Point = "Internal", "late"
		})
		t.Call("NodePublishVolume", "pvc-0", "worker", 21, 21.1, nil)
	})(nil), "stage-order", check.Fail)
}

// Detached at +33.05 s; the global mount ended at some time between +32.9 s and +33.3 s, NodeUnstageVolume began at
// +33.2 s. Only the pod's mount was taken down before.
func TestDetachedBeforeUnstaged(t *testing.T) {
	verdict(t, onDisk(then(moved("ControllerUnpublishVolume", "pvc-1", 1, 33.05, 33.06),
		editAll(after(unmountOn("worker2"), 33), func(e *history.Event) {
			e.Span.NotBefore = historytest.At(32.9)
		})))(nil), "detach-order", check.Unknown)
}

// relisted hides the events of some objects from a time on, and shows at another what a list after the gap shows: the
// last state of those that are there, and that the others are gone.
func relisted(is match, from, to float64) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		last, known := map[string]history.Event{}, map[string]bool{}
		var order []string
		var out []history.Event
		version, done := "", false
		list := func() {
			for _, uid := range order {
				e := last[uid]
				o := *e.Object
				e.Span = history.Between(historytest.At(to-0.1), historytest.At(to))
				switch {
				case o.Verb != history.VerbDeleted:
					o.Verb = history.VerbListed
				case !known[uid]:
					continue
				default:
					o.Raw, o.ResourceVersion, e.Span.NotBefore = nil, version, historytest.At(from)
				}
				e.Object = &o
				out = append(out, e)
			}
		}
		for _, e := range events {
			if !done && e.Span.NotAfter > historytest.At(to) {
				list()
				done = true
			}
			if is(&e) && e.Span.NotBefore >= historytest.At(from) && !done {
				if _, ok := last[e.Object.UID]; !ok {
					order = append(order, e.Object.UID)
				}
				last[e.Object.UID], version = e, e.Object.ResourceVersion
				continue
			}
			if is(&e) {
				known[e.Object.UID] = true
			}
			if e.Object != nil {
				version = e.Object.ResourceVersion
			}
			out = append(out, e)
		}
		for i := range out {
			out[i].ID = int64(i + 1)
		}
		return out
	}
}

func of(resource string) match {
	return func(e *history.Event) bool { return e.Kind == history.KindObject && e.Object.Resource == resource }
}

// mysql-1 moves while the watch of VolumeAttachments is blind: detached at +34 s, attached elsewhere at +39.55 s.
func TestMovedInGap(t *testing.T) {
	verdict(t, then(addDisk(func(t *historytest.Trial) {
		t.Observer("api/volumeattachments", "", "", history.ObserverGap, "expired", 33.5, 41)
	}), relisted(of("volumeattachments"), 33.5, 41))(nil), "attach-order", check.Pass)
}

// web-1 ends while the watch of pods is blind; then pvc-protection lets its claim go.
func TestClaimGoneAfterUnseenEnd(t *testing.T) {
	w := historytest.Web(historytest.SetSpec{Replicas: 2, WhenScaled: "Delete", WhenDeleted: "Retain"})
	w.Up(0, 1).Change(func(s *historytest.SetSpec) { s.Replicas = 1 })
	w.End(1).ClaimEnds(history.VerbModified, 1, "").Wait(-2.9)
	from := w.Now - 0.05
	w.Gone(1).Wait(-2.9)
	w.ClaimEnds(history.VerbDeleted, 1, "")
	w.Observer("api/pods", "", "", history.ObserverGap, "expired", from, from+3)
	verdict(t, relisted(of("pods"), from, from+3)(w.Told(30).Events), "set-claims", check.Unknown)
}

// A pod is deleted by the plan while kubeadm replaces the controller manager: nobody writes a status for 40 s.
func TestStatusWhileUpgraded(t *testing.T) {
	p, zero := historytest.SetPlan(2), 0
	p.Kubernetes = historytest.From
	p.Steps = []plan.Step{{N: 1, Do: plan.ActionUpgrade, Bound: plan.Duration(10 * time.Minute),
		Upgrade: &plan.Upgrade{To: historytest.To, Node: plan.UpgradeControlPlane, At: "apply"},
		During:  []plan.Step{{N: 2, Do: plan.ActionDeletePod, Ordinal: &zero, Bound: plan.Duration(time.Minute)}}}}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	w := historytest.Web(historytest.SetSpec{Replicas: 2})
	w.Up(0, 1)
	began := w.Now
	w.Ask(0).Gone(0)
	gone := w.Now
	w.Wait(40).Up(0)
	w.Phase(history.PhaseStep, 1, began-2, w.Now)
	w.Phase(history.PhaseStep, 2, began-0.5, began+4)
	w.UpgradePart(1, "control-plane", history.UpgradeApply, began-1, gone+38)
	verdict(t, then(edit(kind(history.KindPlan), func(e *history.Event) { e.Plan = raw }),
		drop(after(before(of("statefulsets"), gone+38), began-0.5)))(w.Told(30).Events), "set-status", check.Pass)
}

// Also: the node is Ready again for 10 ms when the force detach that was decided before reaches the API server.
func TestForcedAsNodeComesBack(t *testing.T) {
	verdict(t, addDisk(func(t *historytest.Trial) {
		t.NotReady("worker", 18, "pvc-0")
		t.InUse("worker", 29.99, "pvc-0")
		t.Attachment(history.VerbModified, "pvc-0", "worker", true, true, 30)
	})(nil), "detach-in-use", check.Pass)
}

// Also: the watch of pods breaks at +30.5 s and does not come back; the mounts of mysql-1 stay on worker2 for good.
func TestResidueWhilePodsUnseen(t *testing.T) {
	verdict(t, then(addDisk(func(t *historytest.Trial) {
		t.Observer("api/pods", "", "", history.ObserverGap, "the watch was not open at its end", 30.5, 60)
	}), left("worker2", "/"), drop(func(e *history.Event) bool {
		return e.Span.NotBefore > historytest.At(30.5) && (of("pods")(e) || e.Kind == history.KindMount &&
			e.Mount.Node == "worker" && strings.Contains(e.Mount.Path, "/"))
	}))(nil), "mount-residue", check.Unknown)
}
