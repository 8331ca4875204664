package trial_test

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestRecordedChronicle tells what happened to a volume in the real run that `make demo` shows.
func TestRecordedChronicle(t *testing.T) {
	const run = "k8s-61832-5-fail"
	dir, err := rundir.Open(filepath.Join(recorded, run))
	if err != nil {
		t.Fatal(err)
	}
	j, err := trial.Judge(dir, trial.AllParts().Checks)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := report.WriteChronicle(&got, j, report.Options{}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", run+".chronicle")
	if *update {
		if err := os.WriteFile(path, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; write it with -update", err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("%s differs; look at it, and write it anew with -update if it is right:\n%s", path, diff)
	}
	for _, told := range []string{
		"NOW ON TWO NODES AT ONCE", "NOW TWO OF mysql-0 RUN AT ONCE", "48 OF 1417", "4 other volumes had the same",
	} {
		if !strings.Contains(got.String(), told) {
			t.Errorf("the chronicle does not tell %q", told)
		}
	}
}
