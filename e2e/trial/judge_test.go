package trial_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

// TestRecordedReports holds that a text report tells findings of one cause as one and loses no proof: it names what
// every finding is about and every fact that proves it.
func TestRecordedReports(t *testing.T) {
	paths, err := filepath.Glob(recorded + "/*-*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no recorded run: %v", err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			dir, err := rundir.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			j, err := trial.Judge(dir, trial.AllParts().Checks)
			if err != nil {
				t.Fatal(err)
			}
			for _, all := range []bool{false, true} {
				var b bytes.Buffer
				if err := report.WriteText(&b, j, report.Options{All: all}); err != nil {
					t.Fatal(err)
				}
				text := b.String()
				flat := " " + strings.Join(strings.FieldsFunc(text, func(r rune) bool {
					return strings.ContainsRune(" \n(),;", r)
				}), " ") + " "
				for _, r := range j.Report.Results {
					for _, f := range r.Findings {
						for _, id := range f.Events {
							if !strings.Contains(flat, fmt.Sprintf(" #%d ", id)) {
								t.Errorf("all %t: no #%d, which proves %s of %s", all, id, r.Check, f.Subject)
							}
						}
						for _, word := range strings.Fields(f.Subject) {
							if word = strings.Trim(
								word,
								"(),",
							); len(word) > 3 &&
								!strings.Contains(flat, " "+word+" ") {
								t.Errorf("all %t: %q, of the subject of %s, is not in the report", all, word, r.Check)
							}
						}
					}
				}
				if lines := strings.Count(
					text,
					"\n",
				); !all && filepath.Base(path) == "k8s-61832-5-fail" &&
					lines >= 200 {
					t.Errorf("%d lines, want less than 200", lines)
				}
			}
		})
	}
}

// TestPlanFile judges a run whose plan.json is another than the plan in its history, or none: the verdict is that of
// the plan in the history, and every report says what is wrong with the file.
func TestPlanFile(t *testing.T) {
	const run = recorded + "/smoke-861908-pass"
	whole, err := os.ReadFile(filepath.Join(run, rundir.PlanFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, plan string
		want       []string // Of the one warning; none for a file that agrees.
	}{
		{"same", string(whole), nil},
		{"other layout", strings.Join(strings.Fields(string(whole)), " "), nil},
		{"missing", "", []string{"plan.json is missing"}},
		{"torn", string(whole[:200]), []string{"plan.json cannot be read (unexpected EOF)"}},
		{"other seed", strings.Replace(string(whole), "861908", "9007199254740993", 1),
			[]string{`seed is "9007199254740993" there and "861908" in the history`}},
		{"other fault", strings.Replace(string(whole), `"kubelet-kill"`, `"node-reboot"`, 1),
			[]string{`steps[2].fault.name is "node-reboot" there and "kubelet-kill" in the history`}},
		{"bound added", strings.Replace(string(whole), `"minOps": 50,`, `"minOps": 50, "odd": {"a": 1},`, 1),
			[]string{"bounds.odd is an object of 1 fields there and missing in the history"}},
		{"no plan at all", "[]", []string{"the plan is a list of 0 there and an object of"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := t.TempDir()
			for _, name := range []string{rundir.RunFile, rundir.HistoryFile} {
				data, err := os.ReadFile(filepath.Join(run, name))
				if err == nil {
					err = os.WriteFile(filepath.Join(path, name), data, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if tt.plan != "" {
				if err := os.WriteFile(filepath.Join(path, rundir.PlanFile), []byte(tt.plan), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			dir, err := rundir.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			j, err := trial.Judge(dir, trial.AllParts().Checks)
			if err != nil || j.Report.Verdict != "PASS" {
				t.Fatalf("verdict %s, %v", j.Report.Verdict, err)
			}
			var text, junit, chronicle bytes.Buffer
			for _, err := range []error{report.WriteText(&text, j, report.Options{}), report.WriteJUnit(&junit, j),
				report.WriteChronicle(&chronicle, j, report.Options{})} {
				if err != nil {
					t.Fatal(err)
				}
			}
			if len(tt.want) == 0 {
				if len(j.Warnings) > 0 || strings.Contains(text.String(), "WARNING") {
					t.Errorf("warnings %q", j.Warnings)
				}
				return
			}
			if len(j.Warnings) != 1 {
				t.Fatalf("warnings %q", j.Warnings)
			}
			for _, want := range append(tt.want, "the plan in the history is what was judged") {
				if !strings.Contains(j.Warnings[0], want) {
					t.Errorf("warning %q, want %q in it", j.Warnings[0], want)
				}
			}
			for name, got := range map[string]string{"text": text.String(), "chronicle": chronicle.String()} {
				if !strings.Contains(strings.Join(strings.Fields(got), " "), j.Warnings[0]) {
					t.Errorf("the %s does not say %q", name, j.Warnings[0])
				}
			}
			if !strings.Contains(junit.String(), `<property name="warning"`) {
				t.Error("the JUnit report has no warning")
			}
		})
	}
}
