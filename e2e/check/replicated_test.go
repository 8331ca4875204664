package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// replicated is a trial of an instance that clients write ten rows to, and of a copy of it. Tell says which rows the
// final read of the copy shows.
func replicated(tell func(seq int64) bool, more ...int64) history.History {
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
		if tell != nil && tell(seq) {
			some = append(some, row)
		}
	}
	for _, seq := range more {
		some = append(some, history.Row{Client: 1, Seq: seq, CRC: 1, Sum: 1})
	}
	read("mysql-0", all)
	if tell != nil {
		read("mysql-1", some)
	}
	t.Done(70)
	return t.History()
}

// TestACopyHasEveryRow holds that what was acknowledged by the instance that clients write to is asked of its copies.
func TestACopyHasEveryRow(t *testing.T) {
	every := func(int64) bool { return true }
	for _, tc := range []struct {
		name    string
		h       history.History
		verdict check.Verdict
		says    string
	}{
		{"all are there", replicated(every), check.Pass, ""},
		{"one is missing", replicated(func(seq int64) bool { return seq != 4 }), check.Fail,
			"mysql-1 lost a row that mysql-0 had acknowledged: client 1, seq 4"},
		{"a stranger", replicated(every, 99), check.Fail, "mysql-1 holds a row that no client wrote: client 1, seq 99"},
		{"one is there twice, and not as it was written", replicated(every, 3), check.Fail,
			"mysql-1 holds one row 2 times: client 1, seq 3"},
		{"the copy was not read", replicated(nil), check.Unknown, "mysql-1 was not read back whole at the end"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := result(t, tc.h, "rows")
			said := strings.Join(got.Reasons, "\n")
			for _, f := range got.Findings {
				said += "\n" + f.Sentence
			}
			if got.Verdict != tc.verdict || !strings.Contains(said, tc.says) {
				t.Errorf("verdict %s, want %s and %q:\n%s", got.Verdict, tc.verdict, tc.says, said)
			}
		})
	}
}
