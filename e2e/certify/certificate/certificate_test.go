package certificate

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/world"
)

// recorded judges a recorded run.
func recorded(t testing.TB, name string) Judged {
	t.Helper()
	dir, err := rundir.Open(filepath.Join("../../../fixtures/recorded", name))
	if err != nil {
		t.Fatal(err)
	}
	h, err := dir.ReadHistory()
	if err != nil {
		t.Fatal(err)
	}
	var run struct {
		Scenario string
		Seed     uint64
	}
	if err := dir.ReadJSON(rundir.RunFile, &run); err != nil {
		t.Fatal(err)
	}
	w := world.New(h)
	return Judged{
		Run:    Run{Path: name, Scenario: run.Scenario, Seed: run.Seed, Files: map[string]string{"plan.json": "00"}},
		Report: check.Judge(w, check.All()), World: w,
	}
}

func head() Head {
	return Head{
		Issued: time.Date(2026, 11, 24, 5, 0, 0, 0, time.UTC), Commit: "0123abc", Profile: "quick",
		Cluster: []string{"API server v1.37.0", "node worker"},
		Audit: audit.Report{From: "v1.37.0", To: "v1.37", Verdict: check.Pass, Rules: []string{"two-attachments"},
			Findings: []audit.Finding{}, Unseen: []audit.Unseen{}},
	}
}

func TestMake(t *testing.T) {
	good, bad := recorded(t, "smoke-861908-pass"), recorded(t, "selftest-deleted-row-42-fail")
	unsure := recorded(t, "selftest-ipv6-open-42-unknown")
	for _, c := range []struct {
		name   string
		change func(*Head)
		runs   []Judged
		want   check.Verdict
		says   string // In the answer.
	}{
		{"pass", nil, []Judged{good}, check.Pass, "promises held in 1 trials"},
		{"fail", nil, []Judged{good, bad}, check.Fail, "no. Selftest-deleted-row, seed 42, is FAIL: "},
		{"unknown", nil, []Judged{good, unsure}, check.Unknown, "selftest-ipv6-open, seed 42, is UNKNOWN: "},
		{"fail over unknown", nil, []Judged{unsure, bad}, check.Fail, "is FAIL"},
		{"no run", nil, nil, check.Unknown, "No trial was carried out"},
		{"danger", func(h *Head) {
			h.Audit.Verdict = check.Fail
			h.Audit.Findings = []audit.Finding{{Rule: "budget-blocks", Severity: audit.Danger}}
		}, []Judged{good}, check.Fail, "no. Audit: "},
		{"not looked at", func(h *Head) {
			h.Audit.Verdict = check.Unknown
		}, []Judged{good}, check.Unknown, "not shown. Audit: "},
		{"changed", func(h *Head) {
			h.Changed = []string{"gone: PersistentVolume pv-1"}
		}, []Judged{good}, check.Unknown,
			"Objects came or went during the trials: gone: PersistentVolume pv-1"},
		{"danger, called PASS", func(h *Head) {
			h.Audit.Findings = []audit.Finding{{Rule: "budget-blocks", Severity: audit.Danger}}
		}, []Judged{good}, check.Fail, "no. "},
		{"trials left out", func(h *Head) {
			h.Stopped = "nothing shows that the cluster is clean after smoke"
		}, []Judged{good}, check.Unknown, "trials were left out: nothing shows that the cluster is clean after smoke"},
		{"another cluster", func(h *Head) { h.Drift = []string{"new: node x"} }, []Judged{good}, check.Unknown,
			"The cluster became another one during the trials: new: node x"},
	} {
		h := head()
		if c.change != nil {
			c.change(&h)
		}
		got := Make(h, c.runs, check.All())
		if got.Verdict != c.want || !strings.Contains(strings.ToLower(got.Answer()), strings.ToLower(c.says)) {
			t.Errorf("%s: %s, %q", c.name, got.Verdict, got.Answer())
		}
		if len(got.Checks()) < len(check.All()) {
			t.Errorf("%s: %d checks of %d are named", c.name, len(got.Checks()), len(check.All()))
		}
	}
}

// TestMakeCounts: evidence and faults are those of all runs, and what is in no run is named.
func TestMakeCounts(t *testing.T) {
	one := recorded(t, "smoke-861908-pass")
	h := head()
	h.Refused = []Refused{{Scenario: "power-loss", Seed: 7, Why: "no power"}}
	single, twice := Make(h, []Judged{one}, check.All()), Make(h, []Judged{one, one}, check.All())
	for i, p := range twice.Promises {
		if p.Evidence != 2*single.Promises[i].Evidence || p.Runs != 2 {
			t.Errorf("%+v, and of one run %+v", p, single.Promises[i])
		}
	}
	if len(single.Promises) != len(one.Report.Results) || len(single.Faults) != 3 {
		t.Errorf("%d promises of %d, %+v", len(single.Promises), len(one.Report.Results), single.Faults)
	}
	for i, f := range twice.Faults {
		if f.Planned != 2 || f.Shown != 2 || f.Seconds != 2*single.Faults[i].Seconds || f.Seconds < 1 {
			t.Errorf("%+v, and of one run %+v", f, single.Faults[i])
		}
	}
	for _, want := range []string{"power-loss, seed 7", "damage"} {
		if !slices.ContainsFunc(single.NotJudged, func(n NotJudged) bool { return n.What == want }) {
			t.Errorf("%q is not among what was not judged: %+v", want, single.NotJudged)
		}
	}
}

// TestDiffer: whatever the runs do not show is found.
func TestDiffer(t *testing.T) {
	run := recorded(t, "smoke-861908-pass")
	made := func() Certificate { return Make(head(), []Judged{run}, check.All()) }
	if differ := Differ(made(), made()); len(differ) > 0 {
		t.Errorf("equal ones differ: %v", differ)
	}
	for name, change := range map[string]func(*Certificate){
		"verdict":              func(c *Certificate) { c.Verdict = check.Fail },
		"a promise's":          func(c *Certificate) { c.Promises[0].Verdict = check.Unknown },
		"evidence":             func(c *Certificate) { c.Promises[1].Evidence++ },
		"a promise more":       func(c *Certificate) { c.Promises = append(c.Promises, Promise{Check: "peace"}) },
		"a promise less":       func(c *Certificate) { c.Promises = c.Promises[1:] },
		"a fault":              func(c *Certificate) { c.Faults[0].Shown++ },
		"the verdict of a run": func(c *Certificate) { c.Runs[0].Verdict = check.Fail },
		"a run less":           func(c *Certificate) { c.Runs = nil },
	} {
		c := made()
		change(&c)
		if len(Differ(c, made())) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}
