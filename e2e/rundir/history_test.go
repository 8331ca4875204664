package rundir

import (
	"os"
	"path/filepath"
	"testing"
	"time"

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

// BenchmarkRecord records operations of clients, each with two facts: that it was sent, and how it was answered. The
// goal is 100,000 operations per second on one core.
func BenchmarkRecord(b *testing.B) {
	f, err := os.Create(filepath.Join(b.TempDir(), HistoryFile))
	if err != nil {
		b.Fatal(err)
	}
	w, err := newHistoryWriter(f)
	if err != nil {
		b.Fatal(err)
	}
	at, seq := history.Time(0), int64(0)
	for b.Loop() {
		at, seq = at.Add(time.Millisecond), seq+1
		op := history.Op{F: history.OpInsert, Stage: history.StageInvoke, Client: int(seq % 8), Seq: seq}
		w.Record(history.Event{Kind: history.KindOp, Span: history.At(at), Op: &op})
		answer := op
		answer.Stage, answer.By, answer.CRC = history.StageOK, "mysql-0", uint32(seq*2654435761)
		w.Record(history.Event{Kind: history.KindOp, Span: history.Between(at, at.Add(time.Millisecond)), Op: &answer})
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "operations/s")
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
}
