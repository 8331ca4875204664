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

// silenced is a history of a group whose only fault is injected at 19.5 s to 20 s, shown at 21 s, healed from 60 s on
// and gone at 62 s. The plan bounds a failover to 10 s.
func silenced(inserts ...insert) []history.Event {
	return silencedBy(historytest.FaultTimes{
		Intent: 19, Injected: 19.5, InjectedEnd: 20, Confirmed: 21, Healed: 60, HealedEnd: 61, Over: 62}, inserts...)
}

func silencedBy(times historytest.FaultTimes, inserts ...insert) []history.Event {
	p := historytest.SmokePlan()
	p.Workload.Topology, p.Bounds.Failover = plan.TopologySemiSync, plan.Duration(10*time.Second)
	p.Steps = p.Steps[:3]
	t := historytest.New(p)
	t.Fault(3, "kubelet-kill", "worker", "mysql-0", times)
	for i, in := range inserts {
		op := history.Op{F: history.OpInsert, Client: i, Number: 1, Instance: "mysql", Seq: 1,
			Stage: history.StageInvoke}
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
			Span: history.Between(historytest.At(in.sent), historytest.At(in.answered))})
	}
	return t.History().Events
}

func TestFailover(t *testing.T) {
	before := every(10, 20, "mysql-0")
	fault := historytest.FaultTimes{
		Intent: 19, Injected: 19.5, InjectedEnd: 20, Confirmed: 21, Healed: 60, HealedEnd: 61, Over: 62}
	brief, slow := fault, fault
	brief.Confirmed, brief.Healed, brief.HealedEnd, brief.Over = 20.3, 20.5, 20.6, 26
	slow.Injected = 8
	for _, tt := range []struct {
		name    string
		fault   historytest.FaultTimes
		inserts []insert
		want    check.Verdict
		says    string
	}{
		{"another takes the place", fault, slices.Concat(before, every(20, 28, ""), every(28, 70, "mysql-1")),
			check.Pass, ""},
		{"nobody was hurt", fault, every(10, 70, "mysql-0"), check.Pass, ""},
		{"too late", fault, slices.Concat(before, every(20, 45, ""), every(45, 70, "mysql-1")), check.Fail,
			"Nobody acknowledged a write for 25.5s because of step 3 kubelet-kill: the bound is 10s. 26 inserts were " +
				"tried, mysql-1 did again at +45.500 s."},
		{"only when it was healed", fault, slices.Concat(before, every(20, 65, ""), every(65, 70, "mysql-0")),
			check.Fail, "for 45.5s because of step 3 kubelet-kill: the bound is 10s. 46 inserts were tried"},
		{"never", fault, slices.Concat(before, every(20, 70, "")), check.Fail, "nobody did later in the trial"},
		{"late the second time", fault, slices.Concat(before, every(20, 25, ""), every(25, 30, "mysql-1"),
			every(30, 50, ""), every(50, 70, "mysql-2")), check.Fail, "for 21s because of"},
		{"late, and a longer pause of the clients", fault, slices.Concat(before, every(20, 33, ""),
			every(33, 34, "mysql-1"), every(58, 90, "mysql-1")), check.Fail, "for 13.5s because of"},
		{"gone at once, and late", brief, slices.Concat(before, []insert{{20.1, 20.2, "mysql-0"}}, every(21, 90, ""),
			every(90, 95, "mysql-0")), check.Fail, "for 1m10.3s because of"},
		{"gone at once", brief, slices.Concat(before, every(20, 27, ""), every(27, 70, "mysql-0")), check.Pass, ""},
		{"an insert hangs and is acknowledged", fault, slices.Concat(before, []insert{{20.1, 32.5, "mysql-1"}},
			every(33, 70, "mysql-1")), check.Fail, "for 12.5s because of"},
		{"inserts hang and fail", fault, slices.Concat(before, []insert{{20, 33, ""}, {33.2, 46.2, ""}},
			every(47, 70, "mysql-1")), check.Fail, "for 27.5s because of"},
		{"sent before and acknowledged after", fault, slices.Concat(before, []insert{{19.9, 24.9, "mysql-0"}},
			every(25, 30, ""), every(30, 70, "mysql-1")), check.Pass, ""},
		{"a client is dead", fault, slices.Concat(before, []insert{{20, 0, ""}, {69, 0, ""}}), check.Unknown,
			"whether clients tried all the time"},
		{"long after it was gone", fault, slices.Concat(every(10, 63, "mysql-0"), every(63, 90, "")), check.Pass, ""},
		{"the clients paused", fault, slices.Concat(before, every(40, 70, "mysql-1")), check.Unknown,
			"nobody acknowledged for 21s around step 3 kubelet-kill, and whether clients tried all the time after " +
				"its injection is not known"},
		{"injected at a time not well known", slow, slices.Concat(every(5, 9, "mysql-0"), every(9, 29, ""),
			every(29, 70, "mysql-1")), check.Unknown, "nobody acknowledged for 21s around step 3"},
		{"the clients ended", fault, slices.Concat(before, every(20, 26, "")), check.Unknown,
			"the clients ended 5.5s after the last acknowledgement, before step 3 kubelet-kill was gone"},
		{"the clients ended at work", fault, every(10, 26, "mysql-0"), check.Unknown, "the clients ended 0s after"},
		{"no clients", fault, nil, check.Unknown, "the clients ended 0s after"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			events := silencedBy(tt.fault, tt.inserts...)
			expect(t, result(t, history.History{Events: events}, "failover"), tt.want, tt.says)
		})
	}
	for _, stage := range []history.FaultStage{history.StageInjected, history.StageConfirmed} {
		t.Run("without "+string(stage), func(t *testing.T) {
			events := drop(func(e *history.Event) bool {
				return e.Kind == history.KindFault && e.Fault.Stage == stage
			})(silenced(every(10, 70, "mysql-0")...))
			expect(t, result(t, history.History{Events: events}, "failover"), check.Unknown,
				"never shown to have taken effect")
		})
	}
}

// TestFailoverFails exactly if no insert is acknowledged for longer than the bound because of the fault.
func TestFailoverFails(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var inserts []insert
		longest, last := 0.0, 0.0
		for at := 10.0; at < 80; at++ {
			in := insert{sent: at, answered: at + 0.5}
			if rapid.IntRange(0, 5).Draw(rt, "acknowledged") == 0 {
				in.by = "mysql-1"
				if last < 62 && in.answered > 20 {
					longest = max(longest, in.answered-max(last, 20))
				}
				last = in.answered
			}
			inserts = append(inserts, in)
		}
		want := check.Pass
		if last < 62 {
			want, longest = check.Unknown, max(longest, 79.5-max(last, 20))
		}
		if longest > 10 {
			want = check.Fail
		}
		got := result(t, history.History{Events: silenced(inserts...)}, "failover")
		if got.Verdict != want {
			rt.Fatalf("%s, want %s after at most %v s: %+v", got.Verdict, want, longest, got)
		}
	})
}

// TestFailoverByTransactions: what a transaction writes is a write too. The client of inserts can be the last that
// finds the new primary: it hangs on the old one for as long as it takes to give up.
func TestFailoverByTransactions(t *testing.T) {
	inserts := slices.Concat(every(10, 20, "mysql-0"), []insert{{20.1, 32.1, ""}}, every(32.2, 70, "mysql-1"))
	for _, tt := range []struct {
		name string
		txn  history.Op
		want check.Verdict
	}{
		{"one that writes", history.Op{Stage: history.StageOK, Txn: &history.Txn{On: history.OnAccounts,
			Ops: []history.Access{{Key: 1, Write: true, Value: -5}, {Key: 2, Write: true, Value: 5}}}}, check.Pass},
		{"one that reads", history.Op{Stage: history.StageOK, Txn: &history.Txn{On: history.OnAccounts,
			Ops: []history.Access{{Key: 1}, {Key: 2}}}}, check.Fail},
		{"one that fails", history.Op{Stage: history.StageFailed, Txn: &history.Txn{On: history.OnAccounts,
			Ops: []history.Access{{Key: 1, Write: true, Value: -5}}}}, check.Fail},
	} {
		sent, answered := tt.txn, tt.txn
		sent.F, answered.F, sent.Stage = history.OpTxn, history.OpTxn, history.StageInvoke
		sent.Client, answered.Client, answered.By = 99, 99, "mysql-1"
		events := silenced(inserts...)
		for _, op := range []*history.Op{&sent, &answered} {
			events = append(events, history.Event{Kind: history.KindOp, Op: op,
				Span: history.Between(historytest.At(24), historytest.At(24.1))})
		}
		if got := result(t, history.History{Events: events}, "failover"); got.Verdict != tt.want {
			t.Errorf("%s: %s, want %s: %+v", tt.name, got.Verdict, tt.want, got)
		}
	}
}
