// Package case_test reproduces the example on a kind cluster:
//
//	SEATRIAL_LONG=1 go test -timeout 1h ./examples/case
package case_test

import (
	"cmp"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestReproduced(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		t.Skip("NOT RUN: needs a cluster: make long")
	}
	program := filepath.Join(t.TempDir(), "seatrial")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../../tools/seatrial").
		CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.CommandContext(t.Context(), program, "reproduce", "--case", "lost-row.yaml", "--times", "1",
		"--cluster", cmp.Or(os.Getenv("SEATRIAL_CLUSTER"), "seatrial-test"), "--runs", t.TempDir(), "-o", "json")
	cmd.Stderr = t.Output()
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("reproduce: %v", err)
	}
	var rates []struct {
		Case     string
		Good, Of int
	}
	if err := json.Unmarshal(out, &rates); err != nil || len(rates) != 1 || rates[0].Good != 1 || rates[0].Of != 1 {
		t.Errorf("%v: reproduced %+v", err, rates)
	}
}
