package rundir_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/rundir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func create(t *testing.T, root string) *rundir.Dir {
	t.Helper()
	d, err := rundir.Create(root, "smoke", 42, time.Date(2026, 11, 21, 5, 40, 12, 0, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func phase(n history.PhaseName) history.Event {
	return history.Event{Kind: history.KindPhase, Source: "trial", Phase: &history.Phase{Name: n}}
}

func TestCreateNamesTheRunAndPointsLatest(t *testing.T) {
	root := t.TempDir()
	d := create(t, root)
	want := filepath.Join(root, "smoke", "20261121T054012.000Z-42")
	if d.Path() != want {
		t.Errorf("path %q, want %q", d.Path(), want)
	}
	got, err := filepath.EvalSymlinks(filepath.Join(root, "latest"))
	if err != nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("latest leads to %q, want %q", got, want)
	}
	if _, err := rundir.Create(root, "smoke", 42, time.Date(2026, 11, 21, 5, 40, 12, 0, time.UTC)); err == nil {
		t.Error("a second run in the same directory was accepted")
	}
}

// TestWhatCannotBeTheLatestRunIsNotLeft has a folder of the user's where the link goes.
func TestWhatCannotBeTheLatestRunIsNotLeft(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "latest", "of"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := rundir.Create(root, "smoke", 42, time.Now()); err == nil || !strings.Contains(err.Error(), "latest") {
		t.Errorf("got %v", err)
	}
	for _, pattern := range []string{"smoke/*", "latest.*"} {
		if left, err := filepath.Glob(filepath.Join(root, pattern)); err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	}
}

func TestHistoryRoundTrip(t *testing.T) {
	d := create(t, t.TempDir())
	w, err := d.RecordHistory()
	if err != nil {
		t.Fatal(err)
	}
	w.Record(phase(history.PhaseSetup))
	w.Record(phase(history.PhaseLoad))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	w.Record(phase(history.PhaseAudit)) // After Close: dropped, no crash.
	h, err := d.ReadHistory()
	if err != nil {
		t.Fatal(err)
	}
	a, b := phase(history.PhaseSetup), phase(history.PhaseLoad)
	a.ID, b.ID = 1, 2
	if diff := cmp.Diff(history.History{Events: []history.Event{a, b}}, h); diff != "" {
		t.Error(diff)
	}
}

// TestTornHistoryIsTruncated cuts a good file at every byte: what is read must be a prefix, and never whole.
func TestTornHistoryIsTruncated(t *testing.T) {
	d := create(t, t.TempDir())
	w, err := d.RecordHistory()
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		w.Record(phase(history.PhaseSetup))
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := d.ReadFile(rundir.HistoryFile)
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := os.WriteFile(d.File(rundir.HistoryFile), whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		h, err := d.ReadHistory()
		if err == nil && !h.Truncated {
			t.Fatalf("cut to %d of %d bytes it reads as whole, with %d events", n, len(whole), len(h.Events))
		}
	}
}

func TestAHistoryIsWrittenOnce(t *testing.T) {
	d := create(t, t.TempDir())
	w, err := d.RecordHistory()
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.RecordHistory(); err == nil {
		t.Error("a history file that was there already was written over")
	}
}

func TestWriteFileKeepsTheOldOneWhenItFails(t *testing.T) {
	d := create(t, t.TempDir())
	if err := d.WriteFile(rundir.PlanFile, []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := d.WriteFile(filepath.Join("no-such-folder", "x"), []byte("new")); err == nil {
		t.Error("writing below a folder that is not there succeeded")
	}
	got, err := d.ReadFile(rundir.PlanFile)
	if err != nil || string(got) != "old" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestOpenWantsAHistory(t *testing.T) {
	if _, err := rundir.Open(t.TempDir()); err == nil {
		t.Error("an empty folder was taken for a run directory")
	}
}

// TestARootMayHaveAnyLetters has those of patterns in the name of the directory for runs.
func TestARootMayHaveAnyLetters(t *testing.T) {
	root := filepath.Join(t.TempDir(), "job [1-4] *?")
	d := create(t, root)
	night := rundir.OpenNight(root)
	unlock, err := night.Begin(nightly.List{}, "1-of-1")
	if err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := errors.Join(d.WriteFile(rundir.VerdictFile, []byte("{}")), night.Keep(nightly.Result{}),
		os.Mkdir(d.File("nodes/n"), 0o755), d.WriteFile("nodes/n/journal.log", []byte("a line\n"))); err != nil {
		t.Fatal(err)
	}
	runs, err := rundir.List(root)
	if err != nil || len(runs) != 1 || runs[0].Path() != d.Path() {
		t.Errorf("runs: %v, %v", runs, err)
	}
	if kept, err := night.Results(); err != nil || len(kept) != 1 {
		t.Errorf("results: %v, %v", kept, err)
	}
	var lines []string
	if err := d.Logs(func(node, source, line string) { lines = append(lines, node+source+line) }); err != nil ||
		len(lines) != 1 || lines[0] != "njournala line\n" {
		t.Errorf("lines: %q, %v", lines, err)
	}
}
