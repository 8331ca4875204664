package check_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// lossesPlan is one instance whose node loses its power twice, with a read of all rows after each time.
func lossesPlan() plan.Plan {
	p := historytest.SmokePlan()
	p.Workload.Replicas, p.Bounds.MinOps = 1, 1
	loss := func() *plan.Fault {
		return &plan.Fault{Name: "power-loss", Hold: plan.Duration(time.Second)}
	}
	p.Steps = []plan.Step{
		{Do: plan.ActionLoad, Commits: 5}, {Do: plan.ActionFault, Fault: loss()}, {Do: plan.ActionRead},
		{Do: plan.ActionLoad, Commits: 5}, {Do: plan.ActionFault, Fault: loss()}, {Do: plan.ActionRead},
	}
	for i := range p.Steps {
		p.Steps[i].N, p.Steps[i].Bound = i+1, plan.Duration(time.Minute)
	}
	return p
}

// losses is a trial of lossesPlan. Seqs 1 to 10 are acknowledged at 11 s to 20 s, the power is lost at 21 s, all rows
// are read at 30 s; seqs 11 to 20 follow at 31 s to 40 s, a loss at 41 s, a read at 50 s, and the final one at 60 s.
// The reads miss the rows that are gone by then.
func losses(first, second, final []int64) history.History {
	t := historytest.New(lossesPlan())
	for i := range int64(10) {
		at := float64(i)
		t.Insert("mysql-0", 1, i+1, history.StageOK, 11+at, 11.5+at)
		t.Insert("mysql-0", 1, i+11, history.StageOK, 31+at, 31.5+at)
	}
	t.Fault(2, "power-loss", "worker", "mysql-0", historytest.FaultTimes{
		Intent: 21, Injected: 21.1, InjectedEnd: 21.2, Confirmed: 22, Healed: 24, HealedEnd: 24.5, Over: 26,
	})
	t.Fault(5, "power-loss", "worker", "mysql-0", historytest.FaultTimes{
		Intent: 41, Injected: 41.1, InjectedEnd: 41.2, Confirmed: 42, Healed: 44, HealedEnd: 44.5, Over: 46,
	})
	t.Phase(history.PhaseStep, 3, 30, 30.2)
	t.Phase(history.PhaseStep, 6, 50, 50.2)
	read := func(label string, upTo int64, gone []int64, at float64) {
		rows := []history.Row{}
		for seq := int64(1); seq <= upTo; seq++ {
			crc := historytest.CRC(1, seq)
			if !slices.Contains(gone, seq) {
				rows = append(rows, history.Row{Client: 1, Seq: seq, CRC: crc, Sum: crc})
			}
		}
		t.Add(history.Event{Kind: history.KindRows, Source: "trial",
			Span: history.Between(historytest.At(at), historytest.At(at+0.1)),
			Rows: &history.Rows{Instance: "mysql-0", Read: label, Chunk: 1, Chunks: 1, Rows: rows}})
	}
	read(history.ReadOfStep(3), 10, first, 30)
	read(history.ReadOfStep(6), 20, second, 50)
	read("final", 20, final, 60)
	t.Done(70)
	return t.History()
}

func TestEachLossOfRowsIsToldByItself(t *testing.T) {
	for _, tc := range []struct {
		name                 string
		first, second, final []int64
		verdict              check.Verdict
		rows                 []int64          // Of the findings.
		faults               map[int64]string // Of the finding of a row.
		notes                []string
	}{
		{
			name: "nothing is lost", verdict: check.Pass,
			notes: []string{
				"step 2 power-loss: mysql-0 lost none of the 10 rows that were acknowledged since the read before",
				"step 5 power-loss: mysql-0 lost none of the 10 rows",
			},
		},
		{
			name: "by each", first: []int64{8, 9, 10}, second: []int64{8, 9, 10, 18, 20},
			final: []int64{8, 9, 10, 18, 20}, verdict: check.Fail, rows: []int64{8, 9, 10, 18, 20},
			faults: map[int64]string{8: "step 2 power-loss", 10: "step 2 power-loss", 18: "step 5 power-loss"},
			notes: []string{
				"step 2 power-loss: mysql-0 lost 3 rows, of 10 that were acknowledged since the read before: " +
					"client 1, seq 8-10",
				"step 5 power-loss: mysql-0 lost 2 rows, of 10 that were acknowledged since the read before: " +
					"client 1, seq 18, 20",
			},
		},
		{
			name: "a row that a read had found is lost later", second: []int64{2}, final: []int64{2},
			verdict: check.Fail, rows: []int64{2}, faults: map[int64]string{2: "step 5 power-loss"},
			notes: []string{"step 2 power-loss: mysql-0 lost none", "step 5 power-loss: mysql-0 lost 1 rows"},
		},
		{
			name: "a row that comes back was lost for a time", first: []int64{4}, verdict: check.Fail, rows: []int64{4},
			faults: map[int64]string{4: "step 2 power-loss"},
		},
		{
			name: "lost after the last read", final: []int64{20}, verdict: check.Fail, rows: []int64{20},
			faults: map[int64]string{20: ""},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := result(t, losses(tc.first, tc.second, tc.final), "rows")
			if got.Verdict != tc.verdict {
				t.Fatalf("verdict %s, want %s: %v", got.Verdict, tc.verdict, got.Reasons)
			}
			var rows []int64
			for seq := range int64(21) {
				for _, f := range got.Findings {
					if !strings.HasSuffix(f.Subject, fmt.Sprintf(" seq %d)", seq)) {
						continue
					}
					rows = append(rows, seq)
					if want, told := tc.faults[seq]; told && strings.Join(f.Faults, " and ") != want {
						t.Errorf("seq %d is put to %q, want %q", seq, f.Faults, want)
					}
				}
			}
			if !slices.Equal(rows, tc.rows) {
				t.Errorf("rows %v, want %v", rows, tc.rows)
			}
			for _, want := range tc.notes {
				if !slices.ContainsFunc(got.Notes, func(n string) bool { return strings.HasPrefix(n, want) }) {
					t.Errorf("no note %q in %q", want, got.Notes)
				}
			}
		})
	}
}

// TestAReadThatIsNotWholeShowsNothing takes the first read away.
func TestAReadThatIsNotWholeShowsNothing(t *testing.T) {
	h := losses(nil, nil, nil)
	h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool {
		return e.Kind == history.KindRows && e.Rows.Read == history.ReadOfStep(3)
	})
	expect(t, result(t, h, "rows"), check.Unknown, "in step 3")
}

// replicated is a trial of an instance that clients write ten rows to, and of its replica. The final read of the
// replica has the rows that has selects, and those of more, which no client wrote; a nil has means no such read.
func replicated(has func(seq int64) bool, more ...int64) history.History {
	p := historytest.SmokePlan()
	p.Workload.Replicas, p.Workload.Replicated, p.Bounds.MinOps = 2, true, 5
	p.Steps = []plan.Step{{N: 1, Do: plan.ActionLoad, Commits: 5, Bound: plan.Duration(time.Minute)}}
	t := historytest.New(p)
	for i := range int64(10) {
		t.Insert("mysql-0", 1, i+1, history.StageOK, 11+float64(i), 11.5+float64(i))
	}
	read := func(instance string, rows []history.Row) {
		t.Add(history.Event{Kind: history.KindRows, Source: "trial",
			Span: history.Between(historytest.At(60), historytest.At(60.1)),
			Rows: &history.Rows{Instance: instance, Read: "final", Chunk: 1, Chunks: 1, Rows: rows}})
	}
	var all, some []history.Row
	for seq := int64(1); seq <= 10; seq++ {
		crc := historytest.CRC(1, seq)
		row := history.Row{Client: 1, Seq: seq, CRC: crc, Sum: crc}
		all = append(all, row)
		if has != nil && has(seq) {
			some = append(some, row)
		}
	}
	for _, seq := range more {
		some = append(some, history.Row{Client: 1, Seq: seq, CRC: 1, Sum: 1})
	}
	read("mysql-0", all)
	if has != nil {
		read("mysql-1", some)
	}
	t.Done(70)
	return t.History()
}

// TestACopyHasEveryRow holds that a replica must have every row that the instance that clients write to acknowledged.
func TestACopyHasEveryRow(t *testing.T) {
	every := func(int64) bool { return true }
	for _, tc := range []struct {
		name string
		h    history.History
		want check.Verdict
		says string
	}{
		{"all are there", replicated(every), check.Pass, ""},
		{"one is missing", replicated(func(seq int64) bool { return seq != 4 }), check.Fail,
			"mysql-1 lost a row that mysql-0 had acknowledged: client 1, seq 4"},
		{"a stranger", replicated(every, 99), check.Fail, "mysql-1 holds a row that no client wrote: client 1, seq 99"},
		{"one is there twice, and not as it was written", replicated(every, 3), check.Fail,
			"mysql-1 holds one row 2 times: client 1, seq 3"},
		{"the copy was not read", replicated(nil), check.Unknown, "mysql-1 was not read back whole at the end"},
	} {
		t.Run(tc.name, func(t *testing.T) { expect(t, result(t, tc.h, "rows"), tc.want, tc.says) })
	}
}
