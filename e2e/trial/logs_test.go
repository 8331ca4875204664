package trial

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// TestKubeletLines gives a recorded run the journal of a node.
func TestKubeletLines(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../fixtures/recorded/selftest-deleted-row-42-fail")); err != nil {
		t.Fatal(err)
	}
	dir, err := rundir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Judge(dir, nil)
	if err != nil || len(j.Kubelets) > 0 {
		t.Fatalf("without logs: %q (%v)", j.Kubelets, err)
	}
	volume := j.World.Volumes().All[0].Name
	line := func(unit string, after time.Duration, text string) string {
		return "Nov 25 04:33:02 w " + unit + "[7]: I" + j.Run.Started.Add(after).UTC().Format("0102 15:04:05.000000") +
			"     246 a.go:1] " + text + "\n"
	}
	mounted := `"MountVolume.SetUp succeeded for volume \"` + volume + `\""`
	journal := line("kubelet", 25*time.Second, mounted) + line("kubelet", 24*time.Second, "for volume "+volume) +
		line("kubelet", 25*time.Second, "for volume "+volume+"0") + line("kubelet", -time.Second, mounted) +
		line("kubelet", time.Hour, mounted) + line("containerd", 25*time.Second, mounted)
	if err := os.MkdirAll(filepath.Join(root, "nodes", "w"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "nodes", "w", "journal.log"), []byte(journal), 0o600); err != nil {
		t.Fatal(err)
	}
	if j, err = Judge(dir, nil); err != nil {
		t.Fatal(err)
	}
	at := func(after time.Duration) time.Duration {
		return j.Run.Started.Add(after).Truncate(time.Microsecond).Sub(j.Run.Started)
	}
	want := []report.LogLine{
		{Node: "w", Volume: volume, At: at(24 * time.Second), Text: "a.go:1] for volume " + volume},
		{Node: "w", Volume: volume, At: at(25 * time.Second), Text: "a.go:1] " + mounted},
	}
	if d := cmp.Diff(want, j.Kubelets); d != "" {
		t.Errorf("lines (-want +got):\n%s", d)
	}
}

// TestLogsNearTheFirstFinding gives a recorded run logs of nodes. Its first finding, about mysql-0, begins at 22.9 s.
func TestLogsNearTheFirstFinding(t *testing.T) {
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("../../fixtures/recorded/selftest-deleted-row-42-fail")); err != nil {
		t.Fatal(err)
	}
	judge := func() ([]string, []string) {
		dir, err := rundir.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		j, err := Judge(dir, AllParts().Checks)
		if err != nil {
			t.Fatal(err)
		}
		return j.Logs, j.Warnings
	}
	if lines, _ := judge(); lines != nil {
		t.Errorf("a run without logs has lines of them: %q", lines)
	}
	dir, err := rundir.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	j, err := Judge(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(after time.Duration) string { return j.Run.Started.Add(after).UTC().Format("0102 15:04:05.000000") }
	put := func(name, text string) {
		path := filepath.Join(root, "nodes", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const unit = "Nov 25 04:33:02 w kubelet[7]: "
	put("w/journal.log", unit+"W"+at(25*time.Second)+" 7 a.go:1] a warning\n"+
		unit+"I"+at(24*time.Second)+" 7 a.go:1] pod mysql-0 <b>\n"+
		unit+"I"+at(24*time.Second)+" 7 a.go:1] pod mysql-1\n"+unit+"E"+at(50*time.Second)+" 7 a.go:1] too late\n"+
		"no time\n"+unit+"E9999 99:99:99.999999 7 a.go:1] no time either\n")
	put("c/pods/kube-system_kube-controller-manager-c_1/kube-controller-manager/0.log",
		"2026-11-25T04:33:02.1Z stderr F E"+at(20*time.Second)+" 1 b.go:2] an error\n")
	want := []string{
		"+20.000 s  c kube-controller-manager: 2026-11-25T04:33:02.1Z stderr F E" + at(20*time.Second) +
			" 1 b.go:2] an error",
		"+24.000 s  w journal: kubelet[7]: I" + at(24*time.Second) + " 7 a.go:1] pod mysql-0 <b>",
		"+25.000 s  w journal: kubelet[7]: W" + at(25*time.Second) + " 7 a.go:1] a warning",
	}
	got, warnings := judge()
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) > 0 {
		t.Errorf("lines (-want +got):\n%s%q", diff, warnings)
	}
	put("w/journal.log", strings.Repeat(unit+"W"+at(25*time.Second)+" 7 a.go:1] again\n", mostLogs+4))
	if got, _ = judge(); len(got) != mostLogs+1 || got[mostLogs] != fmt.Sprintf("(%d more lines are in nodes/)", 5) {
		t.Errorf("%d lines, the last is %q", len(got), got[len(got)-1])
	}
}
