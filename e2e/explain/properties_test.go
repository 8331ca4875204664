package explain_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/world"
)

// sane holds what is so of every diagnosis, of whatever facts.
func sane(t interface {
	Helper()
	Errorf(string, ...any)
}, d explain.Diagnosis, shown string) {
	t.Helper()
	idle := d.Action == explain.ActionNone
	if idle != (d.Outlook == "") || idle != (d.Reason == "") || idle && (len(d.Blockers)+len(d.Causes) > 0 || d.Stuck) {
		t.Errorf("it does not go together: %+v", d)
	}
	if !slices.Contains([]explain.Outlook{"", explain.Transient, explain.Permanent, explain.NotKnown}, d.Outlook) {
		t.Errorf("outlook %q", d.Outlook)
	}
	if len(d.Blockers) > 0 && len(d.Causes) == 0 {
		t.Errorf("%s blocks it, and nothing is said of why", d.Blockers[0].Pod)
	}
	for _, b := range d.Blockers {
		if b.For < 0 || b.State == "" || b.Outlook == "" || b.Reason == "" || b.After == b.Pod {
			t.Errorf("blocker %+v", b)
		}
	}
	for _, l := range strings.Split(shown, "\n") {
		if utf8.RuneCountInString(l) > 100 || strings.ContainsAny(l, "\x00\x1b\x07") {
			t.Errorf("line %q", l)
		}
	}
}

// TestDamagedHistories drops, shuffles and breaks facts: there is always an answer that goes together.
func TestDamagedHistories(t *testing.T) {
	tales := causes()
	rapid.Check(t, func(r *rapid.T) {
		h, _ := rapid.SampledFrom(tales).Draw(r, "tale").history()
		more, _ := rapid.SampledFrom(tales).Draw(r, "another").history()
		events := slices.Concat(h.Events, more.Events)
		if rapid.Bool().Draw(r, "shuffle") {
			events = rapid.Permutation(events).Draw(r, "events")
		}
		keep := rapid.IntRange(1, len(events)).Draw(r, "keep")
		events = slices.Clone(events[:keep])
		for range rapid.IntRange(0, 5).Draw(r, "broken") {
			i := rapid.IntRange(0, keep-1).Draw(r, "which")
			if o := events[i].Object; o != nil && len(o.Raw) > 0 {
				broken := *o
				cut := rapid.IntRange(0, len(o.Raw)-1).Draw(r, "cut")
				instead := rapid.SampledFrom([]string{"", "{", "-1", "null,", `"`}).Draw(r, "instead")
				broken.Raw = slices.Concat(o.Raw[:cut:cut], []byte(instead), o.Raw[cut+1:])
				events[i].Object = &broken
			}
		}
		damaged := history.History{Events: events}
		moment := at(rapid.Float64Range(-10, 80).Draw(r, "moment"))
		for _, d := range explain.At(world.New(damaged), moment, explain.DefaultBound) {
			sane(r, d, text(t, d))
		}
		s, ok := explain.Longest(world.New(damaged), moment, time.Second)
		if ok && (s.For < time.Second || s.Diagnosis.StatefulSet == "") {
			r.Errorf("%+v", s)
		}
	})
}

// FuzzApply takes whatever bytes there are for an object.
func FuzzApply(f *testing.F) {
	resources := []string{"events", "leases", "nodes", "persistentvolumeclaims", "persistentvolumes", "pods",
		"statefulsets", "volumeattachments"}
	h, _ := causes()[1].history()
	for i := range h.Events {
		if o := h.Events[i].Object; o != nil {
			f.Add(uint8(slices.Index(resources, o.Resource)), []byte(o.Raw))
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		name := "web-1"
		resource := resources[int(which)%len(resources)]
		if resource == "statefulsets" {
			name = "web"
		}
		more := append(slices.Clone(h.Events), history.Event{Kind: history.KindObject, Span: history.At(at(60)),
			Object: &history.Object{Verb: history.VerbModified, Resource: resource, Namespace: "trial", Name: name,
				UID: name + "-1", ResourceVersion: "99999", Raw: raw}})
		d := explain.Of(world.New(history.History{Events: more}), at(60), "trial/web", time.Second)
		sane(t, d, text(t, d))
	})
}

// TestRecordedRuns explains real runs at many moments.
func TestRecordedRuns(t *testing.T) {
	paths, err := filepath.Glob("../../fixtures/recorded/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recorded runs: %v", err)
	}
	says := map[string]string{
		"k8s-61832-5-fail":                        "is still attached to node try-worker2",
		"smoke-861908-pass":                       "",
		"topology-semisync-primary-killed-1-pass": "",
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir, err := rundir.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			h, err := dir.ReadHistory()
			if err != nil {
				t.Fatal(err)
			}
			w := world.New(h)
			end := w.Trialled()
			for i := range 3 {
				moment := w.Begin().Add(end.Sub(w.Begin()) / 3 * time.Duration(i+1))
				for _, d := range explain.At(w, moment, explain.DefaultBound) {
					sane(t, d, text(t, d))
				}
			}
			settled, ok := w.EndOf(history.PhaseSettle)
			if !ok {
				t.Fatal("it never settled")
			}
			// A database that is Ready holds its StatefulSet up no more, though it takes no write or is behind.
			stuck := slices.ContainsFunc(h.Events, func(e history.Event) bool {
				return e.Phase != nil && e.Phase.Name == history.PhaseSettle && e.Phase.End && e.Phase.Error != "" &&
					!strings.Contains(e.Phase.Error, "to take a write") &&
					!strings.Contains(e.Phase.Error, "to have the transactions")
			})
			for _, d := range explain.At(w, settled, explain.DefaultBound) {
				if d.Stuck != stuck {
					t.Errorf("stuck is %t, want %t: %s", d.Stuck, stuck, text(t, d))
				}
			}
			trial, err := w.Trial()
			if err != nil {
				t.Fatal(err)
			}
			s, ok := explain.Longest(w, end, explain.DefaultBound)
			if !ok && trial.Plan.Workload.Light {
				return // Its pods start within a second.
			}
			if !ok || s.Diagnosis.Action == explain.ActionNone {
				t.Fatalf("MySQL starts in no time: %v %+v", ok, s)
			}
			sane(t, s.Diagnosis, text(t, s.Diagnosis))
			if want := says[filepath.Base(path)]; !strings.Contains(strings.Join(strings.Fields(
				text(t, s.Diagnosis)), " "), want) {
				t.Errorf("does not say %q: %s", want, text(t, s.Diagnosis))
			}
		})
	}
}
