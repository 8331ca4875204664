package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// TestDiskPasses holds that a sound trial on attached disks passes every check that applies to it.
func TestDiskPasses(t *testing.T) {
	r := judgeTwice(t, historytest.Disk().History())
	for _, res := range r.Results {
		if res.Verdict != check.Pass || res.Evidence == 0 || len(res.Reasons) > 0 {
			t.Errorf("%s: %s with %d %s, reasons %q, findings %+v",
				res.Check, res.Verdict, res.Evidence, res.Unit, res.Reasons, res.Findings)
		}
		if res.Promise == "" || res.Source == "" || res.Unit == "" {
			t.Errorf("%s: it does not say what it promises, on what ground, or what it counts: %+v", res.Check, res)
		}
	}
	if want := len(check.All()) - len(notOnDisk()); len(r.Results) != want {
		t.Errorf("%d checks judged, want %d", len(r.Results), want)
	}
}

// notOnDisk names the checks that do not apply to DiskPlan, which has no deliberate damage, residue audit, local
// volumes, transactions, updates, upgrades, budget, group or bound of a failover.
func notOnDisk() []string {
	return []string{"acknowledged", "balances", "damage", "errant-gtid", "etcd-rollback", "failover", "in-sync",
		"isolation",
		"one-writer", "pdb-honoured", "registers", "residue-audit", "set-binding", "set-on-delete", "set-promotion",
		"set-update", "upgrade-order", "version-reached"}
}

// TestChecksApplyByPlan holds that the plan alone leaves a check out: for a trial on attached disks without any other
// events, all checks apply and none passes.
func TestChecksApplyByPlan(t *testing.T) {
	names := func(r check.Report) []string {
		var all []string
		for _, res := range r.Results {
			all = append(all, res.Check)
		}
		return all
	}
	local := names(check.Run(historytest.Smoke().History(), check.All()))
	for _, name := range []string{"attach-order", "detach-order", "right-volume", "stage-order", "witness"} {
		if slices.Contains(local, name) {
			t.Errorf("%s judged a trial on local volumes", name)
		}
	}
	for name, h := range map[string]history.History{
		"plan alone": historytest.New(historytest.DiskPlan()).History(),
		"no plan":    {},
		"torn":       {Events: historytest.Disk().History().Events, Truncated: true},
		"local": {Events: append(historytest.New(historytest.DiskPlan()).History().Events,
			historytest.Smoke().History().Events[1:]...)},
	} {
		r := judgeTwice(t, h)
		want := len(check.All())
		if name != "no plan" {
			want -= len(notOnDisk())
		}
		if len(r.Results) != want {
			t.Errorf("%s: %d checks judged, want %d: %q", name, len(r.Results), want, names(r))
		}
		for _, res := range r.Results {
			onlyDisk := !slices.Contains(local, res.Check)
			if res.Verdict != check.Unknown && (name != "local" || onlyDisk) || len(res.Reasons) == 0 && onlyDisk {
				t.Errorf("%s: %s is %s, reasons %q", name, res.Check, res.Verdict, res.Reasons)
			}
		}
	}
}

// TestNestedSteps holds that steps and faults within a fault are steps and faults of the trial.
func TestNestedSteps(t *testing.T) {
	p := historytest.SmokePlan()
	inner := slices.Clone(p.Steps[3:6]) // Load, checksum, node-reboot.
	p.Steps[2].Fault.During = inner
	p.Steps = append(p.Steps[:3], p.Steps[6:]...)
	nested := historytest.New(p).History().Events[0]
	h := trialOf(edit(kind(history.KindPlan), func(e *history.Event) { e.Plan = nested.Plan }))
	for _, res := range judgeTwice(t, h).Results {
		if res.Verdict != check.Pass {
			t.Errorf("%s: %s, reasons %q", res.Check, res.Verdict, res.Reasons)
		}
	}
	h.Events = drop(faultStage(6, history.StageConfirmed))(h.Events)
	if res := result(t, h, "coverage"); res.Verdict != check.Unknown || !strings.Contains(said(res),
		"step 6 node-reboot was never shown to have taken effect") {
		t.Errorf("coverage: %s, %q", res.Verdict, said(res))
	}
}

// TestDiskGarbage corrupts the events of a trial on attached disks: no check crashes.
func TestDiskGarbage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := historytest.Disk().History()
		for range rapid.IntRange(1, 60).Draw(rt, "changes") {
			spoil(rt, h.Events, rapid.IntRange(0, len(h.Events)-1).Draw(rt, "at"))
		}
		judgeTwice(rt, h)
	})
}

// TestWitnessAgainstWriters lets two writers write, one after the other or in turns: the check passes exactly if each
// wrote its entries in a row and before the other began.
func TestWitnessAgainstWriters(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var entries []history.WitnessEntry
		next := map[string]int64{}
		seen, clean, last := map[string]bool{}, true, ""
		for i, turn := range rapid.SliceOfN(rapid.SampledFrom([]string{"a", "a", "a", "b"}), 1, 12).Draw(rt, "turns") {
			clean = clean && (turn == last || !seen[turn])
			seen[turn], last = true, turn
			next[turn]++
			if rapid.IntRange(0, 30).Draw(rt, "lost") == 0 {
				next[turn]++
				clean = false
			}
			entries = append(entries, history.WitnessEntry{Volume: "disk-pvc-0", Node: "worker", Start: turn,
				Seq: next[turn], At: historytest.At(float64(i))})
		}
		h := historytest.Disk().History()
		h.Events = editAll(func(e *history.Event) bool {
			return e.Kind == history.KindWitness && e.Witness.Instance == "mysql-0"
		}, func(e *history.Event) { e.Witness.Entries = entries })(h.Events)
		want := check.Fail
		if clean {
			want = check.Pass
		}
		if res := result(t, h, "witness"); res.Verdict != want {
			rt.Fatalf("%s, want %s, for %v: %q", res.Verdict, want, entries, said(res))
		}
	})
}

// TestTwinsAgainstSpans draws when two processes of one ordinal began and ended: they are a violation if and only if
// they certainly lived at once.
func TestTwinsAgainstSpans(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		at := func(name string) float64 { return float64(rapid.IntRange(430, 470).Draw(rt, name)) / 10 }
		from := at("from")
		to := from + 0.3 + at("length") - 43
		// The twin has lived since +40.3 s, and is to end between +44.8 s and +45 s.
		const twinTo, blur = 45, 0.2
		h := historytest.Disk(func(t *historytest.Trial) {
			t.Process("worker2", "mysqld", "late-uid", 99, from, to)
			t.Pod(history.VerbModified, "mysql-1", "Running", true, false, 47.1)
		}).History()
		h.Events = then(editAll(func(e *history.Event) bool {
			return e.Kind == history.KindProcess && e.Process.PodUID == "late-uid"
		}, func(e *history.Event) {
			e.Process.PodUID = firstUID(h.Events, "mysql-1")
		}), func(events []history.Event) []history.Event {
			gone := historytest.New(historytest.DiskPlan())
			gone.Process("worker", "mysqld", "", 4101, 40.3, twinTo)
			e := gone.History().Events[2]
			e.Process.PodUID = lastUID(events, "mysql-1")
			return append(events, e)
		})(h.Events)
		want := check.Pass
		switch {
		case from < min(to-blur, twinTo-blur)-1e-9:
			want = check.Fail
		case from < min(to, twinTo)-1e-9:
			want = check.Unknown
		}
		if res := result(t, h, "pod-identity"); res.Verdict != want {
			rt.Fatalf("%s, want %s, from %v to %v: %q", res.Verdict, want, from, to, said(res))
		}
	})
}

func podUIDs(events []history.Event, name string) []string {
	var uids []string
	for _, e := range events {
		if e.Kind == history.KindObject && e.Object.Resource == "pods" && e.Object.Name == name &&
			!slices.Contains(uids, e.Object.UID) {
			uids = append(uids, e.Object.UID)
		}
	}
	return uids
}

func firstUID(events []history.Event, name string) string { return podUIDs(events, name)[0] }

func lastUID(events []history.Event, name string) string {
	uids := podUIDs(events, name)
	return uids[len(uids)-1]
}

// TestEveryDiskCheckNamesItsFindings holds that findings of mutations carry what a report needs.
func TestEveryDiskCheckNamesItsFindings(t *testing.T) {
	for _, m := range diskMutations() {
		if m.want != check.Fail {
			continue
		}
		for _, f := range result(t, trialOf(m.change), m.check).Findings {
			if f.Promise == "" || f.Sentence == "" || f.Subject == "" || f.Node == "" && m.check != "witness" ||
				len(f.Events) == 0 || f.Span.NotAfter < f.Span.NotBefore || strings.Contains(f.Sentence, "%!") {
				t.Errorf("%s %q: a finding says too little: %s", m.check, m.name, fmt.Sprintf("%+v", f))
			}
		}
	}
}

// TestForgottenGlobalMount replays kubernetes/kubernetes issue 121937: the global mount is never unmounted, and the
// volume goes on to another node. Four checks each find a part of it.
func TestForgottenGlobalMount(t *testing.T) {
	h := trialOf(then(onDisk(left("worker2", "/globalmount")), drop(call("NodeUnstageVolume", "pvc-1", false, 1)),
		drop(call("NodeUnstageVolume", "pvc-1", true, 1))))
	var failed []string
	for _, res := range judgeTwice(t, h).Results {
		if res.Verdict == check.Fail {
			failed = append(failed, res.Check)
		}
	}
	if want := []string{"attach-order", "detach-order", "mount-residue", "mounts"}; !slices.Equal(failed, want) {
		t.Errorf("failed: %q, want %q", failed, want)
	}
}
