package rundir

import (
	"os"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
)

// TestFullDiskIsAnError writes to a device that is always full.
func TestFullDiskIsAnError(t *testing.T) {
	f, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skipf("NOT RUN: %v", err)
	}
	w, err := newHistoryWriter(f)
	if err != nil {
		t.Fatal(err)
	}
	w.Record(history.Event{Kind: history.KindPhase, Phase: &history.Phase{Name: history.PhaseSetup}})
	w.flush()
	if w.Err() == nil {
		t.Error("a flush to a full disk left no error")
	}
	if w.Close() == nil {
		t.Error("closing a history that lost facts succeeded")
	}
}
