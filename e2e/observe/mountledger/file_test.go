package mountledger

import (
	"log/slog"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/observe/ledgerfile"
)

func TestRunRecordsTheGapSinceAnEarlierLedger(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		boot string
		want int
	}{{"1.000s", 2}, {"0.500s", 0}} {
		sink := &kept{}
		l := &ledger{cfg: Config{Node: "n", Boot: "1.000s", Last: ledgerfile.Last{At: 5, Boot: tt.boot}}, sink: sink}
		l.begin(ObserverMounts, 50, "")
		l.begin(ObserverProcesses, 60, "")
		gaps := 0
		for _, e := range sink.events {
			if e.Observer.State == history.ObserverGap && e.Span.NotBefore == 5 {
				gaps++
			}
		}
		if gaps != tt.want {
			t.Errorf("earlier ledger of boot %q: %d gaps, want %d", tt.boot, gaps, tt.want)
		}
	}
}

func TestRunRefuses(t *testing.T) {
	t.Parallel()
	ready := func() error { return nil }
	for _, cfg := range []Config{{}, {Node: "n"}, {Boot: "b"}, {Node: "n", Boot: "b", Method: "dowsing"}} {
		cfg.Log = slog.New(slog.DiscardHandler)
		if err := Run(t.Context(), cfg, &kept{}, ready); err == nil {
			t.Errorf("Run(%+v): no error", cfg)
		}
	}
}

// TestProcessesComeAndGo watches a program of this machine that needs no root: a sleep of this test.
func TestProcessesComeAndGo(t *testing.T) {
	t.Parallel()
	sink := &kept{}
	l := &ledger{cfg: Config{Node: "n", Boot: "1.000s", Processes: []string{"sleep"}}, sink: sink}
	known, err := l.compareProcesses(nil, 1, history.ProcessPresent)
	if err != nil {
		t.Fatal(err)
	}
	cmd := startSleep(t)
	pid := cmd.Process.Pid
	find := func(action history.ProcessAction) int {
		n := 0
		for _, e := range sink.copy() {
			if e.Process != nil && e.Process.PID == pid && e.Process.Action == action {
				n++
			}
		}
		return n
	}
	deadline := time.Now().Add(10 * time.Second)
	for find(history.ProcessStarted) == 0 && time.Now().Before(deadline) {
		if known, err = l.compareProcesses(known, 1, history.ProcessStarted); err != nil {
			t.Fatal(err)
		}
	}
	if _, err = l.compareProcesses(known, 1, history.ProcessStarted); err != nil || find(history.ProcessStarted) != 1 {
		t.Fatalf("started %d times (%v), want once", find(history.ProcessStarted), err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // It says that it was killed.
	if _, err = l.compareProcesses(known, 1, history.ProcessStarted); err != nil || find(history.ProcessGone) != 1 {
		t.Errorf("gone %d times (%v), want once", find(history.ProcessGone), err)
	}
}
