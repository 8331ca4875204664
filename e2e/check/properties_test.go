package check_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// mutationsTo returns the mutations that lead to a verdict.
func mutationsTo(v check.Verdict) []mutation {
	var out []mutation
	for _, m := range mutations() {
		if m.want == v {
			out = append(out, m)
		}
	}
	return out
}

// drawUnrelated draws an event that does not concern the trial's volumes, rows, pods, faults or plan.
func drawUnrelated(t *rapid.T) history.Event {
	at := historytest.At(rapid.Float64Range(-5, 100).Draw(t, "at"))
	e := history.Event{Span: history.Between(at,
		at.Add(rapid.SampledFrom([]history.Time{0, 5, 1e9}).Draw(t, "for").Sub(0)))}
	yes := true
	switch rapid.IntRange(0, 6).Draw(t, "kind") {
	case 0:
		e.Kind, e.Object = history.KindObject, &history.Object{Verb: history.VerbAdded, Resource: "pods",
			Namespace: "trial",
			Name:      "other-0", UID: "u", ResourceVersion: "7", Raw: []byte(`{}`)}
	case 1:
		e.Kind, e.Mount = history.KindMount, &history.Mount{Action: history.MountAttach, Node: "worker",
			Boot: historytest.FirstBoot, MountID: 1 << 40, Identity: historytest.Identity(777), Path: "/mnt"}
	case 2:
		e.Kind, e.Process = history.KindProcess, &history.Process{Action: history.ProcessGone, Node: "worker",
			Name: "sh"}
	case 3:
		e.Kind, e.Checksum = history.KindChecksum, &history.Checksum{Instance: "other-0", Table: "x", Quiet: true,
			Label: "l"}
	case 4:
		e.Kind, e.Phase = history.KindPhase, &history.Phase{Name: "rest", Detail: "x"}
	case 5:
		e.Kind, e.Op = history.KindOp, &history.Op{Client: 99, Number: 1, F: history.OpRead, Stage: history.StageOK,
			Instance: "other-0", Seq: 1, Found: &yes}
	case 6:
		e.Kind, e.Observer = history.KindObserver, &history.Observer{Name: "else", State: history.ObserverBeat}
	}
	return e
}

// TestUnrelatedFactsHideNoViolation adds facts anywhere to a trial that fails: it fails still.
func TestUnrelatedFactsHideNoViolation(t *testing.T) {
	count := len(mutationsTo(check.Fail))
	rapid.Check(t, func(rt *rapid.T) {
		m := mutationsTo(check.Fail)[rapid.IntRange(0, count-1).Draw(rt, "mutation")]
		h := trialOf(m.change)
		for _, e := range rapid.SliceOfN(rapid.Custom(drawUnrelated), 1, 4).Draw(rt, "facts") {
			h.Events = slices.Insert(h.Events, rapid.IntRange(1, len(h.Events)).Draw(rt, "place"), e)
		}
		if res := result(t, h, m.check); res.Verdict != check.Fail {
			rt.Fatalf("%s %q became %s", m.check, m.name, res.Verdict)
		}
	})
}

// evidence reports whether an event supports a Pass.
func evidence(e *history.Event) bool {
	switch e.Kind {
	case history.KindFault, history.KindRows, history.KindChecksum, history.KindPhase, history.KindPlan:
		return true
	case history.KindObserver:
		return e.Observer.State == history.ObserverBeat || e.Observer.State == history.ObserverOn
	}
	return false
}

// TestLessEvidenceProvesNoMore removes evidence from an Unknown trial: it never passes.
func TestLessEvidenceProvesNoMore(t *testing.T) {
	count := len(mutationsTo(check.Unknown))
	rapid.Check(t, func(rt *rapid.T) {
		m := mutationsTo(check.Unknown)[rapid.IntRange(0, count-1).Draw(rt, "mutation")]
		every := rapid.IntRange(1, 12).Draw(rt, "every")
		n := rapid.IntRange(0, every).Draw(rt, "offset")
		h := trialOf(m.change)
		h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool {
			if !evidence(&e) {
				return false
			}
			n++
			return n%every == 0
		})
		if res := result(t, h, m.check); res.Verdict == check.Pass {
			rt.Fatalf("%s %q passed after every %d. piece of evidence was taken", m.check, m.name, every)
		}
	})
}

// TestGarbage removes payloads, mixes kinds and shuffles times: no check crashes.
func TestGarbage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		h := trialOf(nil)
		for range rapid.IntRange(1, 60).Draw(rt, "changes") {
			i := rapid.IntRange(0, len(h.Events)-1).Draw(rt, "at")
			spoil(rt, h.Events, i)
		}
		judgeTwice(rt, h)
	})
}

func spoil(t *rapid.T, events []history.Event, i int) {
	e := &events[i]
	number := rapid.SampledFrom([]int64{0, 1, -1, 1 << 62, -1 << 63, 1<<63 - 1})
	switch rapid.IntRange(0, 6).Draw(t, "how") {
	case 0:
		*e = history.Event{Kind: e.Kind, Span: e.Span}
	case 1:
		e.Kind = events[rapid.IntRange(0, len(events)-1).Draw(t, "other")].Kind
	case 2:
		e.Span = history.Span{NotBefore: history.Time(number.Draw(t, "nb")),
			NotAfter: history.Time(number.Draw(t, "na"))}
	case 3:
		j := rapid.IntRange(0, len(events)-1).Draw(t, "swap")
		events[i], events[j] = events[j], events[i]
	case 4:
		data, _ := json.Marshal(*e)
		from := rapid.SampledFrom([]string{"mysql-0", "worker", "1", "true", "invoke", "ok"}).Draw(t, "from")
		to := rapid.SampledFrom([]string{"", "-1", "0", "999999999999", "\\u0000", "failed"}).Draw(t, "to")
		changed := bytes.ReplaceAll(data, []byte(from), []byte(to))
		var fresh history.Event
		if json.Unmarshal(changed, &fresh) == nil {
			*e = fresh
		}
	case 5:
		if e.Object != nil {
			e.Object.Raw = json.RawMessage(rapid.SampledFrom([]string{"", "null", "[]", "{",
				`{"spec":{"replicas":-5}}`,
				`{"spec":{"ordinals":{"start":-9}}}`, `{"status":{"conditions":[null]}}`}).Draw(t, "raw"))
		}
	case 6:
		if e.Rows != nil {
			e.Rows.Chunk, e.Rows.Chunks = int(number.Draw(t, "chunk")), int(number.Draw(t, "chunks"))
		}
	}
}

// fatal is what *rapid.T and *testing.T share.
type fatal interface {
	Fatalf(format string, args ...any)
}

// judgeTwice judges a history twice: no check crashes, both reports are equal, and no result exceeds its limits.
func judgeTwice(t fatal, h history.History) check.Report {
	first, second := check.Run(h, check.All()), check.Run(h, check.All())
	if diff := cmp.Diff(first, second); diff != "" {
		t.Fatalf("judged twice, two reports: %s", diff)
	}
	for _, r := range first.Results {
		all := strings.Join(r.Reasons, "\n")
		if strings.Contains(all, "crashed") {
			t.Fatalf("%s: %s", r.Check, all)
		}
		if len(r.Findings) > 10 || len(r.Reasons) > 22 {
			t.Fatalf("%s: %d findings and %d reasons", r.Check, len(r.Findings), len(r.Reasons))
		}
	}
	return first
}

// FuzzJudge judges arbitrary lines of JSON.
func FuzzJudge(f *testing.F) {
	var seed bytes.Buffer
	h := historytest.Smoke().History()
	for i, e := range h.Events {
		if i%9 == 0 || e.Kind == history.KindFault || e.Kind == history.KindMount {
			if err := history.Append(&seed, e); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.Add(seed.Bytes())
	f.Add([]byte(`{"id":1,"kind":"plan","plan":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var h history.History
		for line := range bytes.Lines(data) {
			var e history.Event
			if json.Unmarshal(line, &e) == nil {
				h.Events = append(h.Events, e)
			}
		}
		judgeTwice(t, h)
	})
}

func TestAll(t *testing.T) {
	var names []string
	for _, c := range check.All() {
		names = append(names, c.Name)
	}
	want := []string{"acknowledged", "attach-order", "balances", "checksums", "coverage", "damage", "detach-in-use",
		"detach-order", "errant-gtid", "etcd-rollback", "failover", "in-sync", "integrity", "isolation",
		"mount-residue", "mounts",
		"one-writer", "order", "pdb-honoured", "pod-identity", "registers", "residue-audit", "right-volume", "rows",
		"set-binding", "set-claims", "set-identity", "set-on-delete", "set-partition", "set-policy",
		"set-promotion", "set-status", "set-update",
		"settle",
		"stage-order", "unpublish-in-use", "upgrade-order", "version-reached", "witness"}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names of checks are kept, since dashboards follow them: %s", diff)
	}
}
