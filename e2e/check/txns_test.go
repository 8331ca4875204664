package check_test

import (
	"encoding/json"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// done is a transaction that ran from one time to another, in seconds.
type done struct {
	client   int
	from, to float64
	stage    history.Stage // Empty: no answer.
	txn      history.Txn
}

// worked is a history of one instance on which those transactions ran.
func worked(on string, all []done) []history.Event {
	p := historytest.SmokePlan()
	p.Workload.Replicas, p.Workload.Registers, p.Workload.Transfers, p.Steps = 1, 2, 2, p.Steps[:1]
	t := historytest.New(p)
	numbers := map[int]int64{}
	for _, d := range all {
		numbers[d.client]++
		d.txn.On = on
		op := history.Op{F: history.OpTxn, Client: d.client, Number: numbers[d.client], Seq: numbers[d.client],
			Instance: "mysql-0", Stage: history.StageInvoke, Txn: &d.txn}
		t.Add(history.Event{Kind: history.KindOp, Op: &op, Span: history.At(historytest.At(d.from))})
		if d.stage == "" {
			continue
		}
		answer := op
		answer.Stage = d.stage
		t.Add(history.Event{Kind: history.KindOp, Op: &answer,
			Span: history.Between(historytest.At(d.from), historytest.At(d.to))})
	}
	return t.History().Events
}

const ok = history.StageOK

func wrote(client int, from, to float64, stage history.Stage, value int64) done {
	return done{client, from, to, stage, history.Txn{Level: "READ COMMITTED", Auto: true,
		Ops: []history.Access{{Key: 1, Write: true, Value: value}}}}
}

func got(client int, from, to float64, found ...int64) done {
	return done{client, from, to, ok, history.Txn{Level: "READ COMMITTED", Auto: true,
		Ops: []history.Access{{Key: 1, Read: found}}}}
}

// register is a sound history: client 1 writes 1 to 30, and client 2 reads each before the next.
func register() []done {
	var all []done
	for i := range int64(30) {
		at := 10 + float64(i)/2
		all = append(all, wrote(1, at, at+0.1, ok, i+1), got(2, at+0.2, at+0.3, i+1))
	}
	return append(all, got(history.Auditor, 40, 40.1, 30))
}

// TestRegisters changes one thing of a sound history at a time.
func TestRegisters(t *testing.T) {
	for _, m := range []struct {
		name   string
		change func([]done) []done
		want   check.Verdict
		says   string
	}{
		{"sound", func(all []done) []done { return all }, check.Pass, ""},
		{"a stale read", func(all []done) []done { return append(all, got(3, 20.2, 20.3, 20)) }, check.Fail,
			"transaction 1 of client 3 found 20 in register 1 of mysql-0, which no order of the writes explains: the " +
				"last write that had ended before is 21, by transaction 21 of client 1."},
		{"a read during the next write finds the old value", func(all []done) []done {
			return append(all, got(3, 20.05, 20.3, 20))
		}, check.Pass, ""},
		{"old and new in the wrong order", func(all []done) []done {
			return append(all, got(3, 20.01, 20.02, 21), got(3, 20.03, 20.04, 20))
		}, check.Fail, "transaction 2 of client 3 found 20"},
		{"the last write is lost", func(all []done) []done {
			all[len(all)-1] = got(history.Auditor, 40, 40.1, 29)
			return all
		}, check.Fail, "the final reader found 29"},
		{"the register is gone", func(all []done) []done {
			all[len(all)-1] = got(history.Auditor, 40, 40.1)
			return all
		}, check.Fail, "the final reader found nothing"},
		{"a value of nobody", func(all []done) []done { return append(all, got(3, 20.2, 20.3, 99)) }, check.Fail,
			"found 99"},
		{"a failed write is read", func(all []done) []done {
			return append(all, wrote(3, 20.2, 20.3, history.StageFailed, 77), got(3, 20.35, 20.4, 77))
		}, check.Fail, "found 77"},
		{"a write of unknown outcome is read late", func(all []done) []done {
			all[len(all)-1] = got(history.Auditor, 40, 40.1, 77)
			return append(all, wrote(3, 15, 15.1, history.StageUnknown, 77))
		}, check.Pass, ""},
		{"one without an answer is not read", func(all []done) []done { return append(all, wrote(3, 15, 0, "", 77)) },
			check.Pass, ""},
		{"one without an answer comes and goes", func(all []done) []done {
			return append(all, wrote(3, 15, 0, "", 77), got(3, 20.2, 20.25, 77), got(3, 20.3, 20.35, 21))
		}, check.Fail, "found 21"},
		{"many without an answer", func(all []done) []done {
			for i := range int64(50) {
				all = append(all, wrote(3, 15, 0, "", 100+i))
			}
			return append(all, got(3, 20.2, 20.25, 120))
		}, check.Pass, ""},
		{"no last read", func(all []done) []done { return all[:len(all)-1] }, check.Unknown,
			"the registers of mysql-0 were not read in the end"},
		{"hardly a read", func(all []done) []done { return append(all[:20:20], got(history.Auditor, 40, 40.1, 10)) },
			check.Unknown, "10 reads of registers of mysql-0, want 20"},
	} {
		t.Run(m.name, func(t *testing.T) {
			expect(t, result(t, history.History{Events: worked(history.OnRegisters, m.change(register()))},
				"registers"), m.want, m.says)
		})
	}
}

// TestRegistersHold: of a register that does each operation at one moment, no history is blamed, whatever was answered;
// with one read that finds nothing after a write had ended, each is.
func TestRegistersHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type moment struct {
			at    float64
			index int
		}
		var all []done
		var order []moment
		for i := range rapid.IntRange(25, 60).Draw(t, "operations") {
			from := 10 + float64(i)/2 + float64(rapid.IntRange(0, 10).Draw(t, "from"))/10
			to := from + float64(rapid.IntRange(1, 15).Draw(t, "takes"))/10
			at := from + (to-from)*rapid.Float64Range(0.1, 0.9).Draw(t, "moment")
			d := got(i+1, from, to)
			if rapid.IntRange(0, 2).Draw(t, "write") == 0 {
				d = wrote(i+1, from, to, ok, int64(i+1))
				switch rapid.IntRange(0, 9).Draw(t, "outcome") {
				case 0:
					d.stage = history.StageUnknown
				case 1:
					d.stage, at = history.StageUnknown, 100 // It never took effect.
				}
			}
			all, order = append(all, d), append(order, moment{at, i})
		}
		slices.SortFunc(order, func(a, b moment) int {
			if a.at < b.at {
				return -1
			}
			return 1
		})
		held, reads := int64(0), 0
		for _, m := range order {
			switch op := &all[m.index].txn.Ops[0]; {
			case op.Write && m.at < 100:
				held = op.Value
			case !op.Write:
				reads++
				if held != 0 {
					op.Read = []int64{held}
				}
			}
		}
		last := got(history.Auditor, 60, 61, held)
		if held == 0 {
			last = got(history.Auditor, 60, 61)
		}
		if reads < 20 {
			t.Skip("too few reads")
		}
		judge := func() check.Result {
			h := history.History{Events: worked(history.OnRegisters, append(slices.Clone(all), last))}
			return check.Run(h, []check.Check{check.Registers()}).Results[0]
		}
		if got := judge(); got.Verdict != check.Pass {
			t.Fatalf("%s: %v %v", got.Verdict, got.Findings, got.Reasons)
		}
		late := func(d done) bool {
			return !d.txn.Ops[0].Write && slices.ContainsFunc(all, func(w done) bool {
				return w.stage == ok && w.txn.Ops[0].Write && w.to < d.from-0.001
			})
		}
		if i := slices.IndexFunc(all, late); i >= 0 {
			all[i].txn.Ops[0].Read = nil // What was held before the first write.
			if got := judge(); got.Verdict != check.Fail {
				t.Fatalf("operation %d found nothing: %s", i, got.Verdict)
			}
		}
	})
}

func paid(client int, at float64, stage history.Stage, from, to, amount int64) done {
	return done{client, at, at + 0.1, stage, history.Txn{Level: "READ UNCOMMITTED",
		Ops: []history.Access{{Key: from, Write: true, Value: -amount}, {Key: to, Write: true, Value: amount}}}}
}

func balances(client int, at float64, auto bool, level string, held ...int64) done {
	d := done{client, at, at + 0.1, ok, history.Txn{Level: level, Auto: auto}}
	for k, v := range held {
		d.txn.Ops = append(d.txn.Ops, history.Access{Key: int64(k), Read: []int64{v}})
	}
	return d
}

// bank is a sound history: 20 times 1 goes from account 0 to 1, all accounts are read each time, and in the end.
func bank() []done {
	var all []done
	for i := range int64(20) {
		at := 10 + float64(i)
		all = append(all, paid(1, at, ok, 0, 1, 1),
			balances(2, at+0.2, true, "READ COMMITTED", 99-i, 101+i, 100, 100, 100))
	}
	return append(all, balances(history.Auditor, 40, true, "REPEATABLE READ", 80, 120, 100, 100, 100))
}

// TestBalances changes one thing of a sound history at a time.
func TestBalances(t *testing.T) {
	finally := func(held ...int64) func([]done) []done {
		return func(all []done) []done {
			all[len(all)-1] = balances(history.Auditor, 40, true, "REPEATABLE READ", held...)
			return all
		}
	}
	more := func(add ...done) func([]done) []done {
		return func(all []done) []done { return append(all, add...) }
	}
	both := func(a, b func([]done) []done) func([]done) []done {
		return func(all []done) []done { return b(a(all)) }
	}
	half := func(auto bool, level string) func([]done) []done {
		return more(balances(3, 20.05, auto, level, 89, 110, 100, 100, 100))
	}
	unknown := history.StageUnknown
	many := make([]done, 21)
	for i := range many {
		many[i] = paid(3, 20, unknown, 2, 3, 1)
	}
	for _, m := range []struct {
		name   string
		change func([]done) []done
		want   check.Verdict
		says   string
	}{
		{"sound", more(), check.Pass, ""},
		{"half a transfer is seen", half(true, "READ COMMITTED"), check.Fail, "transaction 1 of client 3, at READ " +
			"COMMITTED, found 499 in all accounts together, and there are 500 (mysql-0)."},
		{"a snapshot of a transaction is half", half(false, "REPEATABLE READ"), check.Fail,
			"at REPEATABLE READ, found 499"},
		{"which READ COMMITTED allows", half(false, "READ COMMITTED"), check.Pass, ""},
		{"an account is not read", finally(80, 120, 100, 100), check.Fail, "found 400 in all accounts together"},
		{"an account is not found", func(all []done) []done {
			all[len(all)-1].txn.Ops[4].Read = nil
			return all
		}, check.Fail, "did not find account 4"},
		{"an account of nobody", finally(80, 120, 100, 100, 100, 0), check.Fail,
			"found account 5, which nobody opened"},
		{"an acknowledged transfer is lost", finally(81, 119, 100, 100, 100), check.Fail,
			"In the end the accounts of mysql-0 hold [81 119 100 100 100], and the acknowledged transfers make " +
				"[80 120 100 100 100]."},
		{"one of unknown outcome was made", both(more(paid(3, 20, unknown, 2, 3, 7)), func(all []done) []done {
			all[len(all)-2] = balances(history.Auditor, 40, true, "REPEATABLE READ", 80, 120, 93, 107, 100)
			return all
		}), check.Pass, ""},
		{"one of unknown outcome was not made", more(paid(3, 20, unknown, 2, 3, 7)), check.Pass, ""},
		{"one without an answer", more(paid(3, 20, "", 2, 3, 7)), check.Pass, ""},
		{"one of unknown outcome does not explain it", both(more(paid(3, 20, unknown, 2, 3, 7)),
			func(all []done) []done {
				all[len(all)-2] = balances(history.Auditor, 40, true, "REPEATABLE READ", 80, 120, 94, 106, 100)
				return all
			}), check.Fail, "no choice of the 1 transfer"},
		{"a failed one was made", both(more(paid(3, 20, history.StageFailed, 2, 3, 7)), func(all []done) []done {
			all[len(all)-2] = balances(history.Auditor, 40, true, "REPEATABLE READ", 80, 120, 93, 107, 100)
			return all
		}), check.Fail, "In the end"},
		{"many of unknown outcome", both(more(many...), func(all []done) []done {
			all[40] = balances(history.Auditor, 40, true, "REPEATABLE READ", 80, 120, 95, 105, 100)
			return all
		}), check.Unknown, "21 transfers of unknown outcome"},
		{"no last read", func(all []done) []done { return all[:len(all)-1] }, check.Unknown,
			"the accounts of mysql-0 were not read in the end"},
		{"hardly a read", func(all []done) []done {
			return append(all[:20:20], balances(history.Auditor, 40, true, "REPEATABLE READ", 90, 110, 100, 100, 100))
		}, check.Unknown, "10 readings of all accounts of mysql-0, want 20"},
	} {
		t.Run(m.name, func(t *testing.T) {
			expect(t, result(t, history.History{Events: worked(history.OnAccounts, m.change(bank()))}, "balances"),
				m.want, m.says)
		})
	}
}

// TestGroupBalances is about a group of databases, whose readers ask each of them.
func TestGroupBalances(t *testing.T) {
	const none = -1
	same := map[string]string{"mysql-0": "a:1-9", "mysql-1": "a:1-9", "mysql-2": "a:1-9"}
	late := map[string]string{"mysql-0": "a:1-9", "mysql-1": "a:1-8", "mysql-2": "a:1-9"}
	for _, m := range []struct {
		name, topology string
		reader         string
		held           int64 // Of account 0, as the reader found it, or none.
		lost           int64 // Of account 0 in the end.
		semiSync       bool
		executed       map[string]string // By instance, in the end.
		want           check.Verdict
		says           string
		replaced       bool // After a step that may have changed how long a commit waits.
	}{
		{"sound", plan.TopologySemiSync, "mysql-1", 100, 0, true, same, check.Pass, "", false},
		{"a copy that has nothing yet", plan.TopologySemiSync, "mysql-1", none, 0, true, same, check.Pass, "", false},
		{"half a transfer on a copy", plan.TopologyAsync, "mysql-2", 93, 0, true, same, check.Fail,
			"found 493 in all accounts together, and there are 500 (mysql-2)", false},
		{"an acknowledged transfer is lost", plan.TopologySemiSync, "mysql-1", 100, 1, true, same, check.Fail,
			"In the end the accounts of mysql-1 hold", false},
		{"one is late, and a transfer is lost", plan.TopologySemiSync, "mysql-1", 100, 1, true, late, check.Fail,
			"In the end the accounts of mysql-0 hold", false},
		{"one is late", plan.TopologySemiSync, "mysql-1", 100, 0, true, late, check.Unknown,
			"what the final reader of mysql-1 found does not count: it lacked transactions a:9", false},
		{"one is lost after a fall back", plan.TopologySemiSync, "mysql-1", 100, 1, false, same, check.Unknown,
			"had fallen back", false},
		{"one is lost by an asynchronous group", plan.TopologyAsync, "mysql-1", 100, 1, true, same,
			check.Pass, "", false},
		{"one is lost by a group of writers", plan.TopologyMulti, "mysql-1", 100, 1, true, same, check.Fail,
			"In the end", false},
		{"one is lost by a primary that is gone, after a step that may have changed its wait", plan.TopologySemiSync,
			"mysql-1", 100, 1, true, same, check.Unknown, "had waited for replicas was not seen", true},
	} {
		t.Run(m.name, func(t *testing.T) {
			all := bank()
			seen := balances(3, 9, true, "READ COMMITTED", m.held, 100, 100, 100, 100)
			if m.held == none {
				for i := range seen.txn.Ops {
					seen.txn.Ops[i].Read = nil
				}
			}
			last := &all[len(all)-1].txn
			last.Ops[0].Read, last.Ops[1].Read = []int64{80 + m.lost}, []int64{120 - m.lost}
			final := all[len(all)-1]
			events := worked(history.OnAccounts, append(append([]done{seen}, all...), final, final))
			pods := []string{"mysql-0", "mysql-1", "mysql-2"}
			for i := range events {
				e := &events[i]
				switch {
				case e.Kind == history.KindPlan:
					p := historytest.SmokePlan()
					p.Workload.Transfers, p.Steps, p.Workload.Topology = 2, p.Steps[:1], m.topology
					e.Plan, _ = json.Marshal(p)
				case e.Op == nil:
				default:
					e.Op.Instance, e.Op.By = "mysql", pods[e.Op.Number%3]
					if e.Op.Client == 3 {
						e.Op.By = m.reader
					}
				}
			}
			for _, pod := range pods {
				events = append(events, history.Event{ID: int64(len(events)) + 1, Kind: history.KindMember,
					Source: "workload/ledger", Span: history.At(historytest.At(39)), Member: &history.Member{
						Instance: pod, Label: history.FinalRead, Executed: m.executed[pod]}})
			}
			events = append(events, history.Event{ID: int64(len(events)) + 1, Kind: history.KindMember,
				Source: "workload/ledger", Span: history.At(historytest.At(20)),
				Member: &history.Member{Instance: "mysql-0", Writable: true, SemiSync: m.semiSync}})
			if m.replaced {
				events = executed("mysql", "-e", "SET GLOBAL rpl_semi_sync_source_timeout = 100")(events)
				for i, at := range []float64{5, 25} {
					events = append(events, history.Event{ID: int64(len(events)) + 1, Kind: history.KindPromotion,
						Source: "workload/ledger", Span: history.At(historytest.At(at)),
						Promotion: &history.Promotion{Act: history.ActPromote, Instance: pods[i]}})
				}
			}
			expect(t, result(t, history.History{Events: events}, "balances"), m.want, m.says)
		})
	}
}
