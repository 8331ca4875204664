package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// savedBelow copies recorded runs into a directory for runs.
func savedBelow(t *testing.T, names ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, name := range names {
		if err := os.CopyFS(filepath.Join(root, name, "run"), os.DirFS("../../fixtures/recorded/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// edit replaces a text in a file of a saved run.
func edit(t *testing.T, file, old, text string) {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(data, []byte(old), []byte(text), 1)
	if bytes.Equal(changed, data) {
		t.Fatalf("%s has no %q", file, old)
	}
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	scaled, settled, scaling = "recreate-light-77-pass", "k8s-136831-678764-fail", "set-scale-light-70-fail"
)

// TestNightlyJudge: what is judged as before is as expected, a FAIL too; what is not is told, and what cannot be judged
// is UNKNOWN. The runs stay as they were.
func TestNightlyJudge(t *testing.T) {
	root := savedBelow(t, scaled, settled, scaling)
	verdict := filepath.Join(root, scaled, "run", rundir.VerdictFile)
	out := t.TempDir()
	if got := ask(t, "nightly", "judge", root, "--out", out); got.code != exitPass ||
		!strings.Contains(got.stdout, "verdict: PASS, 3 of 3 as expected") {
		t.Errorf("%+v", got)
	}
	edit(t, verdict, `"verdict": "PASS"`, `"verdict": "UNKNOWN"`) // Of the run, which its checks say anyway.
	edit(t, verdict, `"check": "coverage",`, `"check": "cover",`)
	before, err := os.ReadFile(verdict)
	if err != nil {
		t.Fatal(err)
	}
	out = t.TempDir()
	got := ask(t, "nightly", "judge", root, "--out", out)
	if want := "FAIL     finding  " + scaled + "/run: not as it was judged before: cover is not judged, and was " +
		"PASS (0 of 1 attempts as expected)"; got.code != exitViolated || !strings.Contains(got.stdout, want) {
		t.Errorf("want %q in %+v", want, got)
	}
	if after, err := os.ReadFile(verdict); err != nil || !bytes.Equal(after, before) {
		t.Errorf("the run was changed: %v", err)
	}
	if err := os.Remove(filepath.Join(root, settled, "run", rundir.HistoryFile)); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(root, scaled)); err != nil {
		t.Fatal(err)
	}
	got = ask(t, "nightly", "judge", root, "--out", t.TempDir())
	if want := settled + "/run: not run: cannot be judged: "; got.code != exitUnknown ||
		!strings.Contains(got.stdout, want) {
		t.Errorf("want %q in %+v", want, got)
	}
	t.Setenv("JOB_COMPLETION_INDEX", "0") // A pod has done its work when it has a verdict.
	if got := ask(t, "nightly", "judge", root, "--shard", "job/1", "--out", t.TempDir()); got.code != exitPass {
		t.Errorf("in an Indexed Job: %+v", got)
	}
}

// TestJudgedAgainAgain: a result counts as long as the run is what it was.
func TestJudgedAgainAgain(t *testing.T) {
	root, out := savedBelow(t, scaled, settled, scaling), t.TempDir()
	ask(t, "nightly", "judge", root, "--out", out)
	if err := os.RemoveAll(filepath.Join(root, scaled)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(root, settled, "run", rundir.HistoryFile)); err != nil {
		t.Fatal(err)
	}
	got := ask(t, "nightly", "judge", root, "--out", out)
	if got.code != exitUnknown || !strings.Contains(got.stdout, "verdict: UNKNOWN, 1 of 2 as expected") {
		t.Errorf("%+v", got)
	}
	if strings.Contains(got.stdout, root) {
		t.Errorf("the directory of this machine is told: %s", got.stdout)
	}
}

// TestRunsAndResultsAreApart: nothing of the runs' place is touched.
func TestRunsAndResultsAreApart(t *testing.T) {
	root := savedBelow(t, scaled)
	link := filepath.Join(t.TempDir(), "runs")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	for args, says := range map[[2]string]string{
		{root, root + "/"}: "--out: ", {root, link}: "--out: ", {t.TempDir(), "/tmp/out"}: "no run with a verdict",
		{root, ""}: "--out is empty",
	} {
		got := ask(t, "nightly", "judge", args[0], "--out", args[1])
		if got.code != exitArguments || !strings.Contains(got.stderr, says) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	if _, err := os.Stat(filepath.Join(root, rundir.NightDir)); !os.IsNotExist(err) {
		t.Errorf("something was written beside the runs: %v", err)
	}
}

// TestAPlaceThatCannotBeWrittenToIsABadArgument, before a run is judged.
func TestAPlaceThatCannotBeWrittenToIsABadArgument(t *testing.T) {
	root, judged := savedBelow(t, scaled), t.TempDir()
	if got := ask(t, "nightly", "judge", root, "--out", judged); got.code != exitPass {
		t.Fatalf("%+v", got)
	}
	for _, args := range [][]string{{"nightly", "judge", root}, {"nightly", "merge", judged}} {
		got := ask(t, append(args, "--out", "/dev/null/x")...)
		if got.code != exitArguments || !strings.Contains(got.stderr, `--out "/dev/null/x" cannot be written to`) {
			t.Errorf("%q: %+v", args, got)
		}
	}
}

// TestPartsJudgeAsOneDoes: what is merged is what one process writes, byte for byte.
func TestPartsJudgeAsOneDoes(t *testing.T) {
	root := savedBelow(t, scaled, settled, scaling)
	one, parts := t.TempDir(), []string{}
	ask(t, "nightly", "judge", root, "--out", one)
	for i := range 2 {
		part := t.TempDir()
		ask(t, "nightly", "judge", root, "--out", part, "--shard", strconv.Itoa(i+1)+"/2")
		parts = append(parts, part)
	}
	merged := t.TempDir()
	ask(t, slices.Concat([]string{"nightly", "merge", "--out", merged}, parts)...)
	for _, name := range []string{
		rundir.NightFile, rundir.JUnitFile, rundir.IndexFile, rundir.PromFile, rundir.MarkdownFile,
	} {
		want, err := os.ReadFile(rundir.OpenNight(one).Path(name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(rundir.OpenNight(merged).Path(name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s of the parts is not that of one process: %v", name, err)
		}
	}
}

func TestChanges(t *testing.T) {
	report := func(verdicts ...string) check.Report { // CHECK=VERDICT.
		var r check.Report
		for _, v := range verdicts {
			name, verdict, _ := strings.Cut(v, "=")
			r.Results = append(r.Results, check.Result{Check: name, Verdict: check.Verdict(verdict)})
		}
		return r
	}
	tests := []struct {
		name        string
		before, now check.Report
		want        string
	}{
		{"nothing", report("rows=FAIL", "order=PASS"), report("rows=FAIL", "order=PASS"), "[]"},
		{"another order", report("rows=FAIL", "order=PASS"), report("order=PASS", "rows=FAIL"), "[]"},
		{"a verdict", report("rows=FAIL"), report("rows=PASS"), "[{rows FAIL PASS}]"},
		{"a new check passes", report(), report("rows=PASS"), "[]"},
		{"a new check fails", report(), report("rows=FAIL"), "[{rows not judged FAIL}]"},
		{"a new check does not know", report(), report("rows=UNKNOWN"), "[{rows not judged UNKNOWN}]"},
		{"a check is gone", report("rows=PASS"), report(), "[{rows PASS not judged}]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(changes(tt.before, tt.now)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
