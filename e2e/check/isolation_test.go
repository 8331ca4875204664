package check_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// transactions is a history of 60 transactions on each instance, one after the other, and the last reads.
func transactions() []history.Event {
	p := historytest.SmokePlan()
	p.Workload.Transactions = 2
	t := historytest.New(p)
	for n, pod := range []string{"mysql-0", "mysql-1", "mysql-2"} {
		record := func(client int, number int64, at float64, ops ...history.Access) {
			op := history.Op{F: history.OpTxn, Client: client, Number: number, Seq: number, Instance: pod,
				Txn: &history.Txn{Level: "SERIALIZABLE", Ops: ops}}
			for stage, to := range map[history.Stage]float64{history.StageInvoke: at, history.StageOK: at + 0.05} {
				e := op
				e.Stage = stage
				t.Add(history.Event{Kind: history.KindOp, Op: &e,
					Span: history.Between(historytest.At(at), historytest.At(to))})
			}
		}
		var list []int64
		for i := range int64(60) {
			record(n+1, i+1, 10+float64(i)/10, history.Access{Key: 1, Read: list},
				history.Access{Key: 1, Write: true, Value: i + 1})
			list = append(list[:len(list):len(list)], i+1)
		}
		record(0, 1, 40, history.Access{Key: 1, Read: list})
	}
	return t.History().Events
}

func txn(client int, number int64, stage history.Stage) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindOp && e.Op.F == history.OpTxn && e.Op.Client == client && e.Op.Number == number &&
			e.Op.Stage == stage && (client != 0 || e.Op.Instance == "mysql-1")
	}
}

// TestIsolation changes one thing of a sound history at a time.
func TestIsolation(t *testing.T) {
	ok := history.StageOK
	read := func(change func(*history.Access)) func(*history.Event) {
		return func(e *history.Event) {
			txn := *e.Op.Txn
			txn.Ops = slices.Clone(txn.Ops)
			change(&txn.Ops[0])
			e.Op.Txn = &txn
		}
	}
	for _, m := range []struct {
		name   string
		change func([]history.Event) []history.Event
		want   check.Verdict
		says   string
	}{
		{"sound", nil, check.Pass, ""},
		{"the last append is gone", edit(txn(0, 1, ok), read(func(l *history.Access) { l.Read = l.Read[:59] })),
			check.Fail, "mysql-1 broke READ COMMITTED, lost append: the final reader read key 1 without 60, which " +
				"transaction 60 of client 2 had appended and committed before."},
		{"the first append is gone", edit(txn(0, 1, ok), read(func(l *history.Access) { l.Read = l.Read[1:] })),
			check.Fail, "lost append: the final reader read key 1 without 1,"},
		{"an append that was rolled back is there", edit(txn(2, 60, ok),
			func(e *history.Event) { e.Op.Stage = history.StageFailed }), check.Fail, "G1a"},
		{"one of unknown outcome is there", edit(txn(2, 60, ok),
			func(e *history.Event) { e.Op.Stage = history.StageUnknown }), check.Pass, ""},
		{"one without an answer is there", drop(txn(2, 60, ok)), check.Pass, ""},
		{"a number of nobody", edit(txn(0, 1, ok), read(func(l *history.Access) { l.Read = append(l.Read, 99) })),
			check.Fail, "read 99 in key 1, which nobody has appended"},
		{"two read the same and both append", edit(txn(2, 9, ok),
			read(func(l *history.Access) { l.Read = l.Read[:7] })), check.Fail, "lost update"},
		{"no last read", drop(txn(0, 1, ok)), check.Unknown, "were not read in the end"},
		{"the last read failed", edit(txn(0, 1, ok), func(e *history.Event) { e.Op.Stage = history.StageFailed }),
			check.Unknown, "were not read in the end"},
		{"an invocation is missing", drop(txn(2, 9, history.StageInvoke)), check.Unknown, "not whole"},
		{"a level of another database", edit(txn(2, 9, ok), func(e *history.Event) {
			txn := *e.Op.Txn
			txn.Level = "SNAPSHOT"
			e.Op.Txn = &txn
		}), check.Unknown, `"SNAPSHOT"`},
		{"one number twice", edit(txn(2, 9, ok), func(e *history.Event) {
			txn := *e.Op.Txn
			txn.Ops = []history.Access{txn.Ops[0], {Key: 1, Write: true, Value: 3}}
			e.Op.Txn = &txn
		}), check.Unknown, "appended to key 1 twice"},
		{"too few", then(drop(func(e *history.Event) bool {
			return e.Op != nil && e.Op.F == history.OpTxn && e.Op.Client == 2 && e.Op.Number > 40
		}), edit(txn(0, 1, ok), read(func(l *history.Access) { l.Read = l.Read[:40] }))), check.Unknown,
			"transactions of mysql-1 committed, want 50"},
		{"an instance without any", drop(func(e *history.Event) bool {
			return e.Op != nil && e.Op.Instance == "mysql-2"
		}), check.Unknown, "no transaction of mysql-2"},
	} {
		t.Run(m.name, func(t *testing.T) {
			events := transactions()
			if m.change != nil {
				events = m.change(events)
			}
			expect(t, result(t, history.History{Events: events}, "isolation"), m.want, m.says)
		})
	}
}

// TestGroupIsolation is about a group: a replaced writer may answer from its past, the final readers may not.
func TestGroupIsolation(t *testing.T) {
	read := func(client int, number int64, elements int) func([]history.Event) []history.Event {
		return editAll(func(e *history.Event) bool {
			return e.Op != nil && e.Op.Client == client && (e.Op.Number == number || client == history.Auditor) &&
				e.Op.Stage == history.StageOK
		}, func(e *history.Event) {
			txn := *e.Op.Txn
			txn.Ops = []history.Access{{Key: 1, Read: txn.Ops[0].Read[:elements]}}
			e.Op.Txn = &txn
		})
	}
	pods := []string{"mysql-0", "mysql-1", "mysql-2"}
	shorter := executed("mysql", "-e", "SET GLOBAL rpl_semi_sync_source_timeout = 100")
	early := func(events []history.Event) []history.Event {
		return append(events, history.Event{ID: events[len(events)-1].ID + 1, Kind: history.KindMember,
			Source: "workload/ledger", Span: history.At(historytest.At(14)),
			Member: &history.Member{Instance: "mysql-0", Writable: true, SemiSync: true, WaitPoint: "AFTER_COMMIT"}})
	}
	for _, m := range []struct {
		name, topology string
		change         func([]history.Event) []history.Event
		semiSync       bool
		want           check.Verdict
		says           string
		acts           string // Of the promoter before: o opens mysql-0, P promotes it, p another.
	}{
		{"sound", plan.TopologySemiSync, nil, true, check.Pass, "", "o"},
		{"a primary began again", plan.TopologySemiSync, nil, true, check.Pass, "", "oo"},
		{"and was replaced later", plan.TopologySemiSync, nil, true, check.Unknown, "may have been read", "oop"},
		{"a replaced primary falls back", plan.TopologySemiSync, nil, false, check.Pass, "", "op"},
		{"a read from the past", plan.TopologyGroup, then(read(2, 60, 9), read(0, 1, 59)), true,
			check.Pass, "", ""},
		{"the past of the final reader", plan.TopologyGroup, read(0, 1, 58), true, check.Fail,
			"the final reader of mysql-0 read key 1 without 60", ""},
		{"an instance that was not read", plan.TopologyGroup, drop(func(e *history.Event) bool {
			return e.Op != nil && e.Op.Client == history.Auditor && e.Op.By == "mysql-1"
		}), true, check.Unknown, "the lists of mysql-1 were not read in the end", ""},
		{"a fall back", plan.TopologySemiSync, read(0, 1, 58), false, check.Unknown, "had fallen back", ""},
		{"a row that others saw is lost", plan.TopologySemiSync, read(0, 1, 58), true, check.Fail, "without 60", "o"},
		{"they saw what no replica had", plan.TopologySemiSync, then(read(0, 1, 58), early), true, check.Unknown,
			"with AFTER_COMMIT others see what a failover loses", "op"},
		{"a shorter wait, and a primary that is gone", plan.TopologySemiSync, then(shorter, read(0, 1, 58)), true,
			check.Unknown, "had waited for replicas was not seen", "Pop"},
		{"a shorter wait, and all is there", plan.TopologySemiSync, shorter, true, check.Pass, "", "Pop"},
		{"a shorter wait, and nobody replaced it", plan.TopologySemiSync, then(shorter, read(0, 1, 58)), true,
			check.Fail, "without 60", "Po"},
		{"they did, and nobody replaced it", plan.TopologySemiSync, then(read(0, 1, 58), early), true, check.Fail,
			"without 60", "o"},
	} {
		t.Run(m.name, func(t *testing.T) {
			var events []history.Event
			for _, e := range transactions() {
				switch {
				case e.Kind == history.KindPlan:
					p := historytest.SmokePlan()
					p.Workload.Transactions, p.Workload.Topology = 2, m.topology
					p.Steps = slices.DeleteFunc(p.Steps, func(s plan.Step) bool { return s.Do == plan.ActionScale })
					plan.Number(p.Steps)
					e.Plan, _ = json.Marshal(p)
				case e.Op == nil || e.Op.F != history.OpTxn:
				case e.Op.Client == history.Auditor:
					e.Op.Number = int64(slices.Index(pods, e.Op.Instance) + 1)
					e.Op.Instance, e.Op.By = "mysql", e.Op.Instance
				case e.Op.Instance != "mysql-1":
					continue
				default:
					e.Op.Instance, e.Op.By = "mysql", "mysql-2"
				}
				events = append(events, e)
			}
			if m.change != nil {
				events = m.change(events)
			}
			for _, act := range m.acts {
				p := history.Promotion{Act: history.ActOpen, Instance: "mysql-0"}
				switch act {
				case 'P':
					p.Act = history.ActPromote
				case 'p':
					p = history.Promotion{Act: history.ActPromote, Instance: "mysql-1"}
				}
				events = append(events, history.Event{ID: events[len(events)-1].ID + 1, Kind: history.KindPromotion,
					Source: "workload/ledger", Span: history.At(historytest.At(15)), Promotion: &p})
			}
			members := []history.Member{{Instance: "mysql-0", Writable: true, SemiSync: m.semiSync}}
			for _, pod := range pods {
				members = append(members, history.Member{Instance: pod, Label: history.FinalRead, Executed: "a:1-9"})
			}
			for i, member := range members {
				events = append(events, history.Event{ID: events[len(events)-1].ID + 1, Kind: history.KindMember,
					Source: "workload/ledger", Span: history.At(historytest.At(20 + float64(i))), Member: &member})
			}
			expect(t, result(t, history.History{Events: events}, "isolation"), m.want, m.says)
		})
	}
}
