package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// TestHealTellsWhatTheJournalHasOpen reads journals as a crash of the harness leaves them.
func TestHealTellsWhatTheJournalHasOpen(t *testing.T) {
	stages := []history.FaultStage{history.StageIntent, history.StageInjected, history.StageConfirmedHealed}
	for _, tc := range []struct {
		name string
		upTo int
		tail string
		run  string
		says []string
	}{
		{"nothing begun", 0, "", "", []string{"no fault was started"}},
		{"open", 2, "", "r1", []string{"step 3 kubelet-stop on node worker", "last injected at 2.000s"}},
		{"torn", 2, `{"schema":1,"ru`, "r1", []string{"last injected"}},
		{"broken", 2, "no JSON\n", "r1", []string{"the journal is truncated: read journal: line 3", "last injected"}},
		{"over", 3, "", "r1", []string{"every started fault was shown to be gone"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir, err := rundir.Create(t.TempDir(), "smoke", 1, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if err := dir.WriteFile(rundir.HistoryFile, nil); err != nil {
				t.Fatal(err)
			}
			file, err := dir.OpenAppend(rundir.JournalFile)
			if err != nil {
				t.Fatal(err)
			}
			j := undo.NewJournal(file)
			for i, stage := range stages[:tc.upTo] {
				f := history.Fault{Step: 3, Name: "kubelet-stop", Node: "worker", Stage: stage}
				if err := j.Append("r1", history.Time(i+1)*history.Time(time.Second), f); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := file.WriteString(tc.tail); err != nil {
				t.Fatal(err)
			}
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			run, nodes, err := openFaults(dir.Path(), &said)
			if err != nil || run != tc.run {
				t.Errorf("got run %q, %v", run, err)
			}
			other := healed{Nodes: []undo.Report{{Node: "control"}}}
			missed := other.reached(slices.Clone(nodes), false, io.Discard)
			if open := strings.Contains(said.String(), "on node worker"); open != (missed != nil) {
				t.Errorf("open on %q, and another node was looked at: %v", nodes, missed)
			}
			var gone strings.Builder
			err = other.reached(slices.Clone(nodes), true, &gone)
			if err != nil || strings.Contains(gone.String(), "node worker is in the cluster no") != (missed != nil) {
				t.Errorf("open on %q, which is gone: %v, %q", nodes, err, gone.String())
			}
			if err := (healed{Nodes: []undo.Report{{Node: "worker"}}}).reached(nodes, false, io.Discard); err != nil {
				t.Errorf("open on %q, which was looked at: %v", nodes, err)
			}
			for source, want := range map[string]bool{"published": true, "": false} {
				if err := dir.WriteJSON(rundir.RunFile, report.Run{NodeImageSource: source}); err != nil {
					t.Fatal(err)
				}
				if onKind(dir.Path()) != want {
					t.Errorf("node images %q: on kind %v", source, !want)
				}
			}
			for _, want := range tc.says {
				if !strings.Contains(said.String(), want) {
					t.Errorf("%q is not in %q", want, said.String())
				}
			}
		})
	}
}

func TestHealRefusesWhatIsNoRunDirectory(t *testing.T) {
	empty := t.TempDir()
	for _, args := range [][]string{
		{"heal", "--journal", empty},
		{"heal", "--journal", filepath.Join(empty, "none")},
		{"heal", "--journal", os.DevNull},
		{"heal", "--journal", empty, "--run", "r1"},
		{"heal", "--all", "--journal", empty},
	} {
		if got := ask(t, args...); got.code != exitArguments || !strings.Contains(got.stderr, args[1]) {
			t.Errorf("%q: code %d, %q", args, got.code, got.stderr)
		}
	}
}
