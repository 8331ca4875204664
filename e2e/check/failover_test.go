package check_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// insert is an insert into a group: when it was sent and answered, 0 if never, and by whom it was acknowledged.
type insert struct {
	sent, answered float64
	by             string // Empty: it failed.
}

// every makes an insert each second from a time to another, each of which takes half a second.
func every(from, to float64, by string) (all []insert) {
	for at := from; at < to; at++ {
		all = append(all, insert{at, at + 0.5, by})
	}
	return all
}

// silenced is a history of a group whose only fault is injected at 20 s, shown at 21 s, and healed from 60 s on. The
// plan bounds a failover to 10 s.
func silenced(inserts ...insert) []history.Event {
	p := historytest.SmokePlan()
	p.Workload.Topology, p.Bounds.Failover = plan.TopologySemiSync, plan.Duration(10*time.Second)
	p.Steps = p.Steps[:3]
	t := historytest.New(p)
	t.Fault(3, "kubelet-kill", "worker", "mysql-0", historytest.FaultTimes{19, 19.5, 20, 21, 60, 61, 62})
	for i, in := range inserts {
		op := history.Op{F: history.OpInsert, Client: i, Number: 1, Instance: "mysql", Seq: 1, Stage: history.StageInvoke}
		t.Add(history.Event{Kind: history.KindOp, Source: "workload/ledger", Op: &op,
			Span: history.At(historytest.At(in.sent))})
		if in.answered == 0 {
			continue
		}
		done := op
		done.Stage, done.By = history.StageFailed, in.by
		if in.by != "" {
			done.Stage = history.StageOK
		}
		t.Add(history.Event{Kind: history.KindOp, Source: "workload/ledger", Op: &done,
			Span: history.At(historytest.At(in.answered))})
	}
	return t.History().Events
}

func TestFailover(t *testing.T) {
	before := every(10, 20, "mysql-0")
	for _, tt := range []struct {
		name    string
		inserts []insert
		want    check.Verdict
		says    string
	}{
		{"another takes the place", slices.Concat(before, every(20, 28, ""), every(28, 70, "mysql-1")), check.Pass, ""},
		{"nobody was hurt", every(10, 70, "mysql-0"), check.Pass, ""},
		{"too late", slices.Concat(before, every(20, 45, ""), every(45, 70, "mysql-1")), check.Fail,
			"Nobody acknowledged a write for 25.5s while step 3 kubelet-kill lasted: the bound is 10s. 26 inserts were " +
				"tried, mysql-1 did again at +45.500 s."},
		{"only when it was healed", slices.Concat(before, every(20, 65, ""), every(65, 70, "mysql-0")), check.Fail,
			"for 40s while step 3 kubelet-kill lasted: the bound is 10s. 41 inserts were tried, mysql-0 did again at"},
		{"never", slices.Concat(before, every(20, 70, "")), check.Fail, "nobody did later in the trial"},
		{"late the second time", slices.Concat(before, every(20, 25, ""), every(25, 30, "mysql-1"), every(30, 50, ""),
			every(50, 70, "mysql-2")), check.Fail, "for 21s while"},
		{"inserts hang", slices.Concat(before, []insert{{20, 45, "mysql-1"}}, every(45, 70, "mysql-1")), check.Fail,
			"for 25s while"},
		{"inserts hang for good", slices.Concat(before, []insert{{20, 0, ""}, {69, 0, ""}}), check.Fail, "for 40s while"},
		{"long after it was healed", slices.Concat(every(10, 61, "mysql-0"), every(61, 90, "")), check.Pass, ""},
		{"the clients paused", slices.Concat(before, every(40, 70, "mysql-1")), check.Unknown,
			"nobody acknowledged for 20.5s during step 3 kubelet-kill, and whether clients tried all the time is not known"},
		{"the clients ended", slices.Concat(before, every(20, 26, "")), check.Unknown,
			"the clients ended 5s after step 3 kubelet-kill was injected"},
		{"no clients", nil, check.Unknown, "the clients ended 0s after"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			expect(t, result(t, history.History{Events: silenced(tt.inserts...)}, "failover"), tt.want, tt.says)
		})
	}
	t.Run("the fault was never shown", func(t *testing.T) {
		events := drop(func(e *history.Event) bool {
			return e.Kind == history.KindFault && e.Fault.Stage == history.StageConfirmed
		})(silenced(every(10, 70, "mysql-0")...))
		expect(t, result(t, history.History{Events: events}, "failover"), check.Unknown, "never shown to have taken effect")
	})
}

// TestFailoverFails exactly if no insert is acknowledged for longer than the bound while the fault lasts.
func TestFailoverFails(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var inserts []insert
		longest, last := 0.0, 20.0
		for at := 10.0; at < 70; at++ {
			in := insert{sent: at, answered: at + 0.5}
			if rapid.IntRange(0, 5).Draw(rt, "acknowledged") == 0 {
				in.by = "mysql-1"
				if in.answered > 20 && in.answered <= 60 {
					longest, last = max(longest, in.answered-last), in.answered
				}
			}
			inserts = append(inserts, in)
		}
		longest = max(longest, 60-last)
		want := check.Pass
		if longest > 10 {
			want = check.Fail
		}
		got := result(t, history.History{Events: silenced(inserts...)}, "failover")
		if got.Verdict != want {
			rt.Fatalf("%s after at most %v s: %+v", got.Verdict, longest, got)
		}
	})
}
