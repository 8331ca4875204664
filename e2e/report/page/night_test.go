package page

import (
	"bytes"
	"encoding/xml"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/report"
)

// madeUpNight has one unit of each kind.
func madeUpNight() nightly.Summary {
	l := nightly.List{Build: nightly.Build{Commit: "c0ffee", Kubernetes: "v1.37.0"}}
	var results []nightly.Result
	for name, verdicts := range map[string][]check.Verdict{
		"regression": {check.Fail, check.Fail, check.Fail, check.Fail, check.Fail, check.Fail},
		"flake":      {check.Fail, check.Pass}, "blind": {check.Unknown}, "missing": nil, "sound": {check.Pass},
	} {
		r := nightly.Result{Unit: nightly.Unit{ID: name, Name: name, Seed: 7, Expect: "PASS"}, Build: l.Build}
		l.Units = append(l.Units, r.Unit)
		for i, v := range verdicts {
			r.Attempts = append(r.Attempts, nightly.Attempt{Verdict: v, Trial: v, Check: "rows", Run: name + "/1",
				Why: "a row of <b>mysql-0</b>\x1b is gone", Seconds: 30,
				Started: time.Date(2026, 11, 23, 1, i, 0, 0, time.UTC)})
		}
		results = append(results, r)
	}
	return nightly.Merge(nightly.List{Build: l.Build, Units: l.Units}, results)
}

// TestTheMorningPage: the verdict and what is urgent come first, each attempt leads to its page, and nothing that a
// trial says is taken for markup.
func TestTheMorningPage(t *testing.T) {
	var b bytes.Buffer
	link := func(run string) string { return "../" + run + "/report.html" }
	if err := WriteNight(&b, madeUpNight(), link); err != nil {
		t.Fatal(err)
	}
	html := b.String()
	at := -1
	for _, want := range []string{"<h1><span class=\"verdict FAIL\">FAIL</span>",
		"findings: 1, flakes: 1, not shown: 1, not run: 1, as expected: 1.",
		"Findings (1)", `href="../regression/1/report.html"`, "0 of 6 attempts as expected", "Flakes (1)",
		"1 of 2 attempts as expected", "Not shown (1)", "Not run (1)", "As expected (1)"} {
		i := strings.Index(html, want)
		if i < at {
			t.Errorf("%q is at %d, after what came before it at %d", want, i, at)
		}
		at = i
	}
	if strings.Contains(html, "<b>mysql-0") {
		t.Error("text of a trial is markup")
	}
}

// TestTheMorningFiles: UNKNOWN and missing are errors for a dashboard, and the metrics say so too.
func TestTheMorningFiles(t *testing.T) {
	var junit, prom bytes.Buffer
	if err := report.WriteNightJUnit(&junit, madeUpNight()); err != nil {
		t.Fatal(err)
	}
	var suites struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
	}
	if err := xml.Unmarshal(junit.Bytes(), &suites); err != nil {
		t.Fatal(err)
	}
	if suites.Tests != 5 || suites.Failures != 2 || suites.Errors != 2 {
		t.Errorf("%+v, want 2 failures and 2 errors of 5", suites)
	}
	if err := report.WriteNightProm(&prom, madeUpNight()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`verdict="FAIL",commit="c0ffee",kubernetes="v1.37.0"} 1`, `units{kind="missing"} 1`,
		"seatrial_nightly_trials 10"} {
		if !strings.Contains(prom.String(), want) {
			t.Errorf("no %q in\n%s", want, &prom)
		}
	}
}

// TestTheMorningMessages: only what is not as expected is told, and nothing that a trial says ends a line of a table or
// of a workflow command.
func TestTheMorningMessages(t *testing.T) {
	s := madeUpNight()
	for i := range s.Results {
		for k := range s.Results[i].Attempts {
			s.Results[i].Attempts[k].Why = "a | b\n::set-env 5%"
		}
	}
	var table, commands bytes.Buffer
	if err := report.WriteNightMarkdown(&table, s); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteNightAnnotations(&commands, s); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(table.String(), "\n| "); got != 5 || strings.Contains(table.String(), "sound") {
		t.Errorf("%d rows, want the head and 4:\n%s", got, &table)
	}
	lines := strings.Split(strings.TrimSuffix(commands.String(), "\n"), "\n")
	if len(lines) != 4 || strings.Count(commands.String(), "::error ") != 2 {
		t.Errorf("%d commands, want 4, 2 of them errors:\n%s", len(lines), &commands)
	}
	for _, l := range lines {
		if !strings.HasPrefix(l, "::error title=") && !strings.HasPrefix(l, "::warning title=") ||
			strings.Contains(l, "5%") && !strings.Contains(l, "5%25") {
			t.Errorf("command %q", l)
		}
	}
	if !strings.Contains(table.String(), `a \| b`) {
		t.Errorf("a cell is not escaped:\n%s", &table)
	}
}
