package check_test

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

func podJSON(phase string, ready, ending bool) json.RawMessage {
	t := historytest.New(historytest.SmokePlan())
	t.Pod(history.VerbAdded, "mysql-0", phase, ready, ending, 0)
	return t.History().Events[1].Object.Raw
}

func orderMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	blind := func(name string, from, to float64) func([]history.Event) []history.Event {
		return add(func(t *historytest.Trial) { t.Observer(name, "", "", history.ObserverGap, "", from, to) })
	}
	return []mutation{
		{"nothing changed", "order", nil, pass, ""},
		{"successor created before Ready", "order", swapVersions(pod(history.VerbModified, "mysql-0", 2),
			pod(history.VerbAdded, "mysql-1", 1)),
			fail, "Pod mysql-1 was created at +3.000 s although mysql-0 was Running and not Ready"},
		{"successor created before Running", "order", swapVersions(pod(history.VerbModified, "mysql-0", 1),
			pod(history.VerbAdded, "mysql-1", 1)),
			fail, "although mysql-0 was not Running"},
		{"successor created first", "order", swapVersions(pod(history.VerbAdded, "mysql-0", 1),
			pod(history.VerbAdded, "mysql-1", 1)),
			fail, "although mysql-0 was not there"},
		{"ended in the wrong order", "order", swapVersions(pod(history.VerbDeleted, "mysql-2", 1),
			pod(history.VerbModified, "mysql-1", 5)),
			fail, "Pod mysql-1 was ended by scaling down at +50.000 s although mysql-2 was still terminating"},
		{"process outlived its pod", "order", edit(func(e *history.Event) bool {
			return e.Kind == history.KindProcess && e.Process.Action == history.ProcessGone &&
				strings.HasPrefix(e.Process.PodUID, "mysql-2")
		}, func(e *history.Event) { e.Span = history.Between(historytest.At(50.1001), historytest.At(50.3)) }),
			fail, "although mysqld (pid 4000) of mysql-2 still ran on worker"},
		{"process may have outlived its pod", "order", edit(func(e *history.Event) bool {
			return e.Kind == history.KindProcess && e.Process.Action == history.ProcessGone &&
				strings.HasPrefix(e.Process.PodUID, "mysql-2")
		}, func(e *history.Event) {
			e.Span = history.Between(historytest.At(50.1),
				historytest.At(50.3))
		}), pass, ""},
		{"pod replaced, not scaled away", "order", add(func(t *historytest.Trial) {
			t.Pod(history.VerbModified, "mysql-0", "Running", true, true, 62.1)
			t.Pod(history.VerbDeleted, "mysql-0", "Succeeded", false, true, 62.2)
			t.Pod(history.VerbAdded, "mysql-0", "Pending", false, false, 62.3)
			t.Pod(history.VerbModified, "mysql-0", "Running", true, false, 62.4)
		}), pass, ""},
		{"creation just after readiness was lost", "order", add(func(t *historytest.Trial) {
			t.Pod(history.VerbModified, "mysql-1", "Running", false, false, 59.09)
		}), unknown, "had lost its readiness"},
		{"creation long after readiness was lost", "order", then(add(func(t *historytest.Trial) {
			t.Pod(history.VerbModified, "mysql-0", "Running", false, false, 53)
		})), fail, "Pod mysql-1 was created at +56.200 s although mysql-0 was Running and not Ready"},
		{"Parallel", "order", editAll(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Resource == "statefulsets"
		}, func(e *history.Event) {
			e.Object.Raw = []byte(strings.Replace(string(e.Object.Raw), "OrderedReady", "Parallel", 1))
		}), unknown, "Parallel"},
		{"gap over a creation", "order", blind("api/pods", 56, 57), unknown, "blind between"},
		{"pod that ended in a gap", "order",
			then(edit(pod(history.VerbDeleted, "mysql-2", 1), func(e *history.Event) { e.Object.Raw = nil }),
				drop(pod(history.VerbModified, "mysql-2", 3))), unknown, "ended while the API watch was blind"},
		{"gap in which nothing was due", "order", blind("api/pods", 20, 21), unknown, "blind between"},
		{"gap after the last change", "order", blind("api/pods", 75, 76), pass, ""},
		{"creation missed", "order", drop(pod(history.VerbAdded, "mysql-1", 1)), unknown, "its creation was missed"},
		{"scaled down out of order, as far as was seen", "order", drop(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Name == "mysql-2" &&
				strings.Contains(string(e.Object.Raw), "deletionTimestamp")
		}), fail, "although mysql-2 was still there"},
		{"never scaled down", "order", drop(after(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Resource == "pods"
		}, 48)), unknown, "the end of 0 was judged"},
		{"no watch", "order", drop(observer("api/pods", "", history.ObserverOn)), unknown, "was never on"},
		{"version that is no number", "order", edit(pod(history.VerbAdded, "mysql-1", 1), func(e *history.Event) {
			e.Object.ResourceVersion = "x7"
		}), unknown, "no place in the order"},
	}
}

func coverageMutations() []mutation {
	pass, unknown := check.Pass, check.Unknown
	fault := func(stage history.FaultStage) match { return faultStage(3, stage) }
	acked := func(e *history.Event) bool { return e.Kind == history.KindOp && e.Op.Stage == history.StageOK }
	return []mutation{
		{"nothing changed", "coverage", nil, pass, ""},
		{"no intent", "coverage", drop(fault(history.StageIntent)), unknown,
			"step 3 kubelet-kill was never written down"},
		{"not injected", "coverage", drop(fault(history.StageInjected)), unknown,
			"step 3 kubelet-kill was never injected"},
		{"not confirmed", "coverage", drop(fault(history.StageConfirmed)), unknown,
			"never shown to have taken effect"},
		{"not healed", "coverage", drop(fault(history.StageHealed)), unknown, "never healed"},
		{"not confirmed healed", "coverage", drop(fault(history.StageConfirmedHealed)), unknown,
			"never shown to be gone"},
		{"confirmed without a word", "coverage", edit(fault(history.StageConfirmed),
			func(e *history.Event) { e.Fault.Evidence = []string{" "} }),
			unknown, "nothing that was seen is given"},
		{"failed", "coverage", edit(fault(history.StageConfirmed), func(e *history.Event) {
			e.Fault.Stage, e.Fault.Error = history.StageFaultFailed, "await: IPv6 is still open"
		}), unknown, "IPv6 is still open"},
		{"healed before it was confirmed", "coverage", edit(fault(history.StageHealed), func(e *history.Event) {
			e.Span = history.At(historytest.At(17))
		}), unknown, "was healed before it was shown"},
		{"nothing done before", "coverage", drop(before(acked, 16.2)), unknown,
			"0 operations were acknowledged before step 3"},
		{"nothing done during", "coverage", drop(after(before(acked, 23.1), 17.9)), unknown,
			"acknowledged during step 3"},
		{"nothing done after", "coverage", drop(after(before(acked, 31.3), 24.9)), unknown,
			"0 operations were acknowledged after step 3"},
		{"nothing done by the victim after", "coverage",
			drop(after(func(e *history.Event) bool { return acked(e) && e.Op.Instance == "mysql-1" }, 41.9)),
			unknown, "by mysql-1 after step 6"},
		{"a step never began", "coverage", drop(phase(history.PhaseStep, 4, false)), unknown,
			"step 4 (load) never began"},
		{"a step never ended", "coverage", drop(phase(history.PhaseStep, 4, true)), unknown,
			"step 4 (load) never ended"},
		{"a step ended badly", "coverage", edit(phase(history.PhaseStep, 9, true), fails("too late")), unknown,
			"step 9 (scale) ended badly: too late"},
		{"no audit", "coverage", drop(phase(history.PhaseAudit, 0, true)), unknown, "phase audit never ended"},
		{"no end", "coverage", drop(phase(history.PhaseDone, 0, true)), unknown, "has no end"},
		{"observer silent for less than the bound", "coverage",
			drop(after(observer("mounts", "worker", history.ObserverBeat), 61.5)), pass, ""},
		{"observer silent", "coverage",
			drop(after(func(e *history.Event) bool { return e.Source == "ledger/worker" }, 58)),
			unknown, "mounts of worker fell silent"},
		{"one watch silent beside others", "coverage", drop(after(func(e *history.Event) bool {
			return e.Kind == history.KindObserver && e.Observer.Name == "api/pods"
		}, 50)), unknown, "the observer api/pods fell silent"},
		{"no observers", "coverage", drop(kind(history.KindObserver)), unknown, "no observer"},
	}
}

func settleMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	acked := func(e *history.Event) bool {
		return e.Kind == history.KindOp && e.Op.F == history.OpInsert && e.Op.Stage == history.StageOK &&
			e.Op.Instance == "mysql-1"
	}
	refused := editAll(after(acked, 66.9), func(e *history.Event) { e.Op.Stage = history.StageUnknown })
	late := then(edit(phase(history.PhaseSettle, 0, true), func(e *history.Event) {
		e.Span, e.Phase.Error = history.At(historytest.At(97.5)), "await writable: timed out"
	}), func(events []history.Event) []history.Event {
		more := historytest.New(historytest.SmokePlan())
		more.Beats("api/pods", "", "", 80, 99)
		return append(events, more.History().Events[1:]...)
	})
	notReady := editAll(func(e *history.Event) bool {
		return e.Kind == history.KindObject && e.Object.Name == "mysql-1" && e.Span.NotBefore > historytest.At(58)
	}, func(e *history.Event) { e.Object.Raw = podJSON("Running", false, false) })
	// The last sign of life of the watch before it is from within the bound.
	ended := func(events []history.Event) []history.Event {
		for _, e := range slices.Backward(events) {
			if e.Kind == history.KindObject && e.Object.Resource == "statefulsets" {
				o := *e.Object
				o.ResourceVersion, o.Raw = "99999", []byte(`{"spec":{"replicas":0}}`)
				e.Object, e.Span = &o, history.Between(historytest.At(96.9), historytest.At(97.6))
				return append(events, e)
			}
		}
		panic("there is no StatefulSet")
	}
	inTime := func(events []history.Event) []history.Event {
		more := historytest.New(historytest.SmokePlan())
		more.Pod(history.VerbModified, "mysql-1", "Running", true, false, 97)
		e := more.History().Events[1]
		e.Object.ResourceVersion, e.Span = "99998", history.Between(historytest.At(96.4), historytest.At(97.6))
		return append(events, e)
	}
	return []mutation{
		{"nothing changed", "settle", nil, pass, ""},
		{"Ready at the end of the bound, or after it", "settle", then(notReady, late, inTime), unknown,
			"mysql-1 was not seen Ready"},
		{"no write, the harness saw it for the whole bound", "settle", then(refused, late), fail,
			"mysql-1 took no write within 30s"},
		{"no write, given up early", "settle",
			then(refused, edit(phase(history.PhaseSettle, 0, true), fails("interrupted"))),
			unknown, "not seen to take a write"},
		{"no write, no word of the harness", "settle", refused, unknown, "mysql-1 was not seen to take a write"},
		{"no write ever", "settle",
			then(editAll(acked, func(e *history.Event) { e.Op.Stage = history.StageFailed }), late),
			unknown, "not seen to take a write"},
		{"never Ready", "settle", then(notReady, refused, late), fail, "mysql-1"},
		{"never Ready, though it takes writes", "settle", then(notReady, late), fail,
			"mysql-1 was not Ready at any time"},
		{"never Ready, and ended right after the bound", "settle", then(notReady, refused, late, ended), fail,
			"mysql-1"},
		{"never Ready, the watch blind", "settle", then(notReady, late, func(events []history.Event) []history.Event {
			more := historytest.New(historytest.SmokePlan())
			more.Observer("api/pods", "", "", history.ObserverGap, "", 80, 81)
			return append(events, more.History().Events[1:]...)
		}), unknown, "not seen Ready"},
		{"never Ready, the watch dead", "settle",
			then(notReady, late, drop(after(observer("api/pods", "", history.ObserverBeat), 90))),
			unknown, "not seen Ready"},
		{"not wanted any more", "settle", then(notReady, refused, late, editAll(after(func(e *history.Event) bool {
			return e.Kind == history.KindObject && e.Object.Resource == "statefulsets"
		}, 56), func(e *history.Event) {
			e.Object.Raw = []byte(`{"spec":{"replicas":1}}`)
		})), unknown, "mysql-1"},
		{"healing failed", "settle", edit(phase(history.PhaseHeal, 0, true), fails("node gone")), unknown,
			"node gone"},
		{"no healing", "settle", drop(phase(history.PhaseHeal, 0, true)), unknown,
			"never came to the end of its healing"},
	}
}

func identityMutations() []mutation {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	// The pod of mysql-1 is force-deleted and its twin made, while its process lives on.
	itsEnd := func(e *history.Event) bool {
		return e.Kind == history.KindProcess && e.Process.Node == "worker2" && e.Process.Action == history.ProcessGone
	}
	lives := func(until float64) func([]history.Event) []history.Event {
		return onDisk(edit(itsEnd, func(e *history.Event) {
			e.Span = history.Between(historytest.At(until-0.2), historytest.At(until))
		}))
	}
	stranger := func(t *historytest.Trial) {
		t.PV("pvc-9", "data-other-0", "ReadWriteOnce", 1)
		t.Mount(history.MountAttach, "worker", historytest.FirstBoot, 99, historytest.PodPath("nobody", "pvc-9"), 19)
		t.Process("worker", "mysqld", "nobody", 77, 20, 30)
	}
	return []mutation{
		{"nothing changed", "pod-identity", onDisk(nil), pass, ""},
		{"nothing changed, local", "pod-identity", nil, pass, ""},
		{"twin", "pod-identity", lives(45), fail, "Two database processes of mysql-1 lived at once, certainly from " +
			"+40.300 s to +44.800 s (4.5s): mysqld (pid 4101) on node worker2 and mysqld (pid 4101) on node worker"},
		{"the API's word is told", "pod-identity", lives(45), fail, "the API had given up the pod of the first"},
		{"twin perhaps", "pod-identity", lives(40.4), unknown, "may have lived at once"},
		{"no twin", "pod-identity", lives(40), pass, ""},
		{"an end that could not be written", "pod-identity", then(addDisk(func(t *historytest.Trial) {
			t.Observer("processes", "worker2", historytest.FirstBoot, history.ObserverLoss, "", 38, 40)
		}), drop(itsEnd)), unknown, "may have lived at once"},
		{"initialization of the same pod", "pod-identity", addDisk(func(t *historytest.Trial) {
			t.Process("worker", "mysqld", t.PodUID("mysql-0"), 77, 20, 30)
		}), pass, ""},
		{"process of no known pod", "pod-identity", addDisk(func(t *historytest.Trial) {
			t.Process("worker", "mysqld", "nobody", 77, 20, 30)
		}), unknown, "is of a pod with uid nobody, which the API never showed"},
		{"process of a pod of another namespace", "pod-identity", then(addDisk(stranger), editAll(
			func(e *history.Event) bool { return e.Kind == history.KindObject && e.Object.Name == "pvc-9" },
			ofAnother)), pass, ""},
		{"process of no known pod, on a volume of the trial", "pod-identity", addDisk(stranger), unknown,
			"is of a pod with uid nobody, which the API never showed"},
		{"process of no pod", "pod-identity", addDisk(func(t *historytest.Trial) {
			t.Process("worker", "mysqld", "", 77, 20, 30)
		}), unknown, "mysqld (pid 77) on node worker is of no pod"},
		{"no process of a later pod of the name", "pod-identity", onDisk(drop(func(e *history.Event) bool {
			return e.Kind == history.KindProcess && e.Process.PodUID == historytest.Disk().PodUID("mysql-1")
		})), unknown, "no database process of pod mysql-1 (uid mysql-1-uid-30) was ever seen, though it was Ready"},
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
