package check_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// busy is the passing trial with about that many more operation events, two for each operation: 4 of 5 operations
// insert a row, which the final read has.
func busy(facts int) history.History {
	h := historytest.Smoke().History()
	final := map[string]*history.Rows{}
	for i := range h.Events {
		if r := h.Events[i].Rows; r != nil {
			final[r.Instance] = r
		}
	}
	yes := true
	step := 50 * time.Second / time.Duration(facts)
	at := historytest.At(11)
	var more []history.Event
	for n := range facts / 2 {
		client := 100 + n%6
		instance := fmt.Sprintf("mysql-%d", client%3)
		op := history.Op{Client: client, Number: int64(n), F: history.OpInsert, Stage: history.StageInvoke,
			Instance: instance, Seq: int64(n), CRC: historytest.CRC(client, int64(n))}
		answer := op
		answer.Stage = history.StageOK
		if n%5 == 4 && n > 36 {
			op.F, op.Seq, op.CRC = history.OpRead, int64(n-36), 0
			answer = op
			answer.Stage, answer.Found, answer.Intact = history.StageOK, &yes, &yes
			answer.CRC = historytest.CRC(client, op.Seq)
		} else {
			final[instance].Rows = append(final[instance].Rows,
				history.Row{Client: client, Seq: op.Seq, CRC: op.CRC, Sum: op.CRC})
		}
		source := fmt.Sprintf("client/%d", client)
		end := at.Add(step)
		more = append(more,
			history.Event{Kind: history.KindOp, Source: source, Span: history.At(at), Op: &op},
			history.Event{Kind: history.KindOp, Source: source, Span: history.Between(at, end), Op: &answer})
		at = end.Add(step)
	}
	// The order across sources does not matter to a judge; each source's own order is kept.
	h.Events = append(h.Events[:1:1], append(more, h.Events[1:]...)...)
	for i := range h.Events {
		h.Events[i].ID = int64(i + 1)
	}
	return h
}

// BenchmarkRun judges trials of growing size with every check: the time for one fact must stay the same.
func BenchmarkRun(b *testing.B) {
	for _, facts := range []int{100_000, 1_000_000} {
		b.Run(fmt.Sprintf("ops=%d", facts), func(b *testing.B) {
			h := busy(facts)
			b.ReportAllocs()
			began := processorTime(b)
			for b.Loop() {
				if r := check.Run(h, check.All()); r.Verdict != check.Pass {
					b.Fatalf("verdict %s: %.2000s", r.Verdict, fmt.Sprintf("%+v", r))
				}
			}
			perEvent(b, len(h.Events), began)
		})
	}
}

// BenchmarkCheck judges the larger trial with one check at a time.
func BenchmarkCheck(b *testing.B) {
	h := busy(1_000_000)
	for _, c := range check.All() {
		b.Run(c.Name, func(b *testing.B) {
			began := processorTime(b)
			for b.Loop() {
				check.Run(h, []check.Check{c})
			}
			perEvent(b, len(h.Events), began)
		})
	}
}

// perEvent reports the wall time and the CPU time for one event: wall time alone says little on a busy machine.
func perEvent(b *testing.B, events int, before time.Duration) {
	each := float64(b.N) * float64(events)
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/each, "ns/event")
	b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/each, "cpu-ns/event")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
