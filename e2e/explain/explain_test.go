package explain_test

import (
	"bytes"
	"cmp"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/world"
)

var update = flag.Bool("update", false, "write the golden files anew")

// text is a diagnosis as people read it.
func text(t *testing.T, d explain.Diagnosis) string {
	t.Helper()
	var b bytes.Buffer
	if err := report.WriteDiagnosis(&b, d); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), got); diff != "" {
		t.Errorf("differs from %s (-want +got):\n%s", path, diff)
	}
}

// history returns the tale's, and the moment at which it is asked.
func (c tale) history() (history.History, history.Time) {
	w := newMaker(cmp.Or(c.sets, 3))
	c.tell(w)
	return w.history(), at(cmp.Or(c.at, 60))
}

// TestCauses tells of each cause what the controller wants, who is in its way, how it looks, and what the golden file
// says in full.
func TestCauses(t *testing.T) {
	for _, c := range causes() {
		t.Run(c.name, func(t *testing.T) {
			h, moment := c.history()
			all := explain.At(world.New(h), moment, explain.DefaultBound)
			if len(all) != 1 {
				t.Fatalf("%d diagnoses, want 1", len(all))
			}
			d := all[0]
			if d.Action != c.action || d.Ordinal != c.ordinal {
				t.Errorf("wants to %s ordinal %d, want %s %d", d.Action, d.Ordinal, c.action, c.ordinal)
			}
			blocker := ""
			if len(d.Blockers) > 0 {
				blocker = d.Blockers[0].Pod
			}
			if blocker != c.blocker || d.Outlook != c.outlook {
				t.Errorf("blocked by %q and %q, want %q and %q", blocker, d.Outlook, c.blocker, c.outlook)
			}
			got := text(t, d)
			flat := strings.Join(strings.Fields(got), " ")
			for _, says := range c.says {
				if !strings.Contains(flat, says) {
					t.Errorf("does not say %q", says)
				}
			}
			golden(t, c.name, got)
		})
	}
}

// TestUnknown holds that what was not seen is not made up.
func TestUnknown(t *testing.T) {
	w := newMaker(3)
	w.up(2, 0)
	w.pod(3, 1, podOf{phase: "Pending", made: 3, turned: 3})
	w.add(4, history.Event{Kind: history.KindObserver, Source: "api", Observer: &history.Observer{
		Name: "api/pods", State: history.ObserverGap}})
	h := w.history()
	d := explain.At(world.New(h), at(60), explain.DefaultBound)[0]
	if d.Outlook != explain.NotKnown {
		t.Errorf("outlook %q, want not known", d.Outlook)
	}
	golden(t, "unknown", text(t, d))
	for _, key := range []string{"trial/other", "", "web"} {
		d := explain.Of(world.New(h), at(60), key, time.Second)
		if d.Action != explain.ActionUnknown || d.Outlook != explain.NotKnown || d.Stuck {
			t.Errorf("%q: %+v", key, d)
		}
	}
	if all := explain.At(world.New(h), at(0.5), time.Second); len(all) != 0 {
		t.Errorf("before there is a StatefulSet: %+v", all)
	}
	if all := explain.At(world.New(history.History{}), at(0), time.Second); len(all) != 0 {
		t.Errorf("without a fact: %+v", all)
	}
}

// TestLongest finds the longest time in which nothing moved, and what was in the way in it.
func TestLongest(t *testing.T) {
	w := newMaker(3)
	w.up(2, 0)
	w.pod(3, 1, podOf{phase: "Pending", node: "worker2", made: 3, turned: 3}) // 7 s.
	w.up(10, 1, 2)
	w.pod(20, 0, podOf{phase: "Running", node: "worker", made: 2, turned: 20, containers: runs()})
	w.set(21, m{"replicas": 2}) // Nothing moves for 24 s.
	w.pod(45, 0, podOf{phase: "Running", node: "worker", ready: true, made: 2, turned: 45})
	w.drop(46, "pods", "trial", "web-2")
	h := w.history()
	s, ok := explain.Longest(world.New(h), at(60), explain.DefaultBound)
	if !ok || s.For != 24*time.Second || s.Open || s.From != "+21.0 s" || s.To != "+45.0 s" {
		t.Fatalf("%v: %+v", ok, s)
	}
	d := s.Diagnosis
	if d.Action != explain.ActionDelete || d.Ordinal != 2 || d.Blockers[0].Pod != "web-0" || !d.Stuck {
		t.Errorf("%+v", d)
	}
	var b bytes.Buffer
	if err := report.WriteSpell(&b, s); err != nil {
		t.Fatal(err)
	}
	golden(t, "longest", b.String())
	if s, ok := explain.Longest(world.New(h), at(60), 25*time.Second); ok {
		t.Errorf("longer than 25 s: %+v", s)
	}
	if s, ok := explain.Longest(world.New(h), at(30), explain.DefaultBound); !ok || !s.Open || s.For != 9*time.Second {
		t.Errorf("up to +30 s: %v %+v", ok, s)
	}
}

// TestAtIsThatMoment holds that what came later is not known earlier.
func TestAtIsThatMoment(t *testing.T) {
	w := newMaker(2)
	w.up(2, 0)
	w.pod(5, 1, podOf{phase: "Pending", node: "worker2", made: 5, turned: 5,
		containers: waits("ErrImagePull", "no such image")})
	w.up(40, 1)
	h := w.history()
	for seconds, want := range map[float64]explain.Action{1.5: explain.ActionCreate, 3: explain.ActionCreate,
		20: explain.ActionSettle, 50: explain.ActionNone} {
		if d := explain.At(world.New(h), at(seconds), explain.DefaultBound)[0]; d.Action != want {
			t.Errorf("at +%v s it wants to %s, want %s", seconds, d.Action, want)
		}
	}
	d := explain.At(world.New(h), at(20), explain.DefaultBound)[0]
	if d.Since != "+5.0 s" || d.Outlook != explain.Permanent {
		t.Errorf("%+v", d)
	}
}
