package trial_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

// recorded is where real run directories are kept, each with the verdict it must be given.
const recorded = "../../fixtures/recorded"

// TestRecordedRuns judges real runs again, without a cluster: the verdict must be the recorded one, byte for byte. A
// judge that is changed on purpose is recorded anew with `seatrial judge RUNDIR -o json > RUNDIR/verdict.json`.
func TestRecordedRuns(t *testing.T) {
	entries, err := os.ReadDir(recorded)
	if err != nil {
		t.Fatal(err)
	}
	judged := 0
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		judged++
		t.Run(e.Name(), func(t *testing.T) { judgeAgain(t, filepath.Join(recorded, e.Name())) })
	}
	if judged == 0 {
		t.Fatalf("no recorded run in %s", recorded)
	}
}

func judgeAgain(t *testing.T, path string) {
	dir, err := rundir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	j, err := trial.Judge(dir, trial.AllParts().Checks)
	if err != nil {
		t.Fatal(err)
	}
	// The folder's name ends in the verdict, so that a wrong recording cannot agree with itself.
	if want := strings.ToUpper(path[strings.LastIndex(path, "-")+1:]); string(j.Report.Verdict) != want {
		t.Errorf("verdict %s, want %s", j.Report.Verdict, want)
	}
	// A case is reproduced by the one finding that it is known by: another failure would not be it.
	c, isCase := trial.AllParts().Case(j.Run.Scenario)
	if isCase && !c.Control && len(j.Report.Shows(c.Finding)) == 0 {
		t.Errorf("the finding of case %s, %q of %s, is not there", c.Name, c.Finding.Says, c.Finding.Check)
	}
	var got bytes.Buffer
	if err := report.WriteVerdict(&got, j.Report); err != nil {
		t.Fatal(err)
	}
	want, err := dir.ReadFile(rundir.VerdictFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("verdict.json differs (-recorded +now):\n%s", diff)
	}
}
