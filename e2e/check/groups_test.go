package check_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// failover is a history of a group: mysql-0 acknowledges rows 1 to 5, is killed, and mysql-1 acknowledges 6 to 9.
func failover(topology string, scaled ...plan.Step) []history.Event {
	p := historytest.SmokePlan()
	p.Workload.Topology = topology
	p.Workload.Replicas += len(scaled) // They are taken away again.
	p.Steps = slices.DeleteFunc(p.Steps, func(s plan.Step) bool { return s.Do == plan.ActionScale })
	p.Steps = append(p.Steps, scaled...)
	plan.Number(p.Steps)
	t := historytest.New(p)
	fact := func(from, to float64, e history.Event) {
		e.Source, e.Span = "workload/ledger", history.Between(historytest.At(from), historytest.At(to))
		t.Add(e)
	}
	member := func(at float64, m history.Member) {
		fact(at, at+0.1, history.Event{Kind: history.KindMember, Member: &m})
	}
	pods := []string{"mysql-0", "mysql-1", "mysql-2"}
	servers := map[string]string{"mysql-0": "a", "mysql-1": "b", "mysql-2": "c"}
	var rows []history.Row
	for seq := int64(1); seq <= 9; seq++ {
		by, at := "mysql-0", 10+float64(seq)
		if seq > 5 {
			by, at = "mysql-1", 20+float64(seq)
		}
		op := history.Op{F: history.OpInsert, Client: 1, Number: seq, Instance: "mysql", Seq: seq, CRC: 7,
			Stage: history.StageInvoke}
		done := op
		done.Stage, done.By, done.Server = history.StageOK, by, servers[by]
		fact(at, at, history.Event{Kind: history.KindOp, Op: &op})
		fact(at, at+0.1, history.Event{Kind: history.KindOp, Op: &done})
		rows = append(rows, history.Row{Client: 1, Seq: seq, CRC: 7, Sum: 7})
	}
	member(12, history.Member{Instance: "mysql-0", Server: "a", Writable: true, SemiSync: true, Executed: "a:1-2"})
	member(22, history.Member{Instance: "mysql-0", Server: "a", Executed: "a:1-5"})
	fact(25, 25, history.Event{Kind: history.KindPromotion,
		Promotion: &history.Promotion{Act: history.ActOpen, Instance: "mysql-1", Term: 2}})
	member(27, history.Member{Instance: "mysql-1", Server: "b", Writable: true, SemiSync: true, Executed: "a:1-5,b:1"})
	for _, pod := range pods {
		member(40, history.Member{Instance: pod, Label: history.FinalRead, Server: servers[pod],
			Writable: pod == "mysql-1", Executed: "a:1-5,b:1-4", Waited: 60})
		fact(41, 42, history.Event{Kind: history.KindRows, Rows: &history.Rows{Instance: pod,
			Read: history.FinalRead, Chunk: 1, Chunks: 1, Rows: rows}})
		fact(43, 44, history.Event{Kind: history.KindChecksum, Checksum: &history.Checksum{Instance: pod,
			Table: "ledger", Label: "settled", Table64: 1, RowHash: "h", Rows: 9}})
	}
	return t.History().Events
}

func member(label, instance string) match {
	return func(e *history.Event) bool {
		return e.Kind == history.KindMember && e.Member.Label == label && e.Member.Instance == instance
	}
}

func sum(instance string) match { return checksum(instance, "settled") }

// TestScaledGroup: of members that left nothing must be read, of those that stayed all.
func TestScaledGroup(t *testing.T) {
	three := 3
	events := failover(plan.TopologySemiSync,
		plan.Step{Do: plan.ActionScale, Replicas: &three, Bound: plan.Duration(time.Minute)})
	read := func(e *history.Event) bool { return e.Kind == history.KindRows && e.Rows.Instance == "mysql-2" }
	unread := func(events []history.Event) (names []string) {
		for _, why := range result(t, history.History{Events: events}, "rows").Reasons {
			if name, _, ok := strings.Cut(why, " was not read back whole"); ok {
				names = append(names, name)
			}
		}
		return names
	}
	if got := unread(events); len(got) > 0 {
		t.Errorf("the check misses reads of %q", got)
	}
	if got := unread(drop(read)(slices.Clone(events))); !slices.Equal(got, []string{"mysql-2"}) {
		t.Errorf("the check misses reads of %q, want mysql-2", got)
	}
}

// lose takes a row out of what was read from some instances.
func lose(seq int64, pods ...string) func([]history.Event) []history.Event {
	return editAll(func(e *history.Event) bool {
		return e.Kind == history.KindRows && strings.Contains(strings.Join(pods, " "), e.Rows.Instance)
	}, func(e *history.Event) {
		var kept []history.Row
		for _, row := range e.Rows.Rows {
			if row.Seq != seq {
				kept = append(kept, row)
			}
		}
		e.Rows.Rows = kept
	})
}

// executed has the plan begin with a program that was run in a pod.
func executed(command ...string) func([]history.Event) []history.Event {
	return edit(kind(history.KindPlan), func(e *history.Event) {
		var p plan.Plan
		if err := json.Unmarshal(e.Plan, &p); err != nil {
			panic(err)
		}
		p.Steps = slices.Insert(p.Steps, 0, plan.Step{Do: plan.ActionExec, Bound: plan.Duration(time.Minute),
			Exec: &plan.Exec{Command: command}})
		plan.Number(p.Steps)
		e.Plan, _ = json.Marshal(p)
	})
}

// late has mysql-2 lack a transaction in the end. The plan runs two programs in it, of which the given steps began.
func late(begun ...int) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		events = edit(member(history.FinalRead, "mysql-2"), func(e *history.Event) {
			e.Member.Executed = "a:1-5,b:1-3"
		})(executed("mysql", "-e", "SET GLOBAL binlog_group_commit_sync_delay = 500000")(events))
		events = executed("mysql", "-e", "SET GLOBAL binlog_group_commit_sync_delay = 0")(events)
		edit(kind(history.KindPlan), func(e *history.Event) {
			e.Plan = bytes.ReplaceAll(e.Plan, []byte(`"exec":{"ordinal":0,`), []byte(`"exec":{"ordinal":2,`))
		})(events)
		events = drop(func(e *history.Event) bool {
			return e.Kind == history.KindPhase && e.Phase.Name == history.PhaseStep
		})(events)
		for _, n := range begun {
			events = append(events, history.Event{Kind: history.KindPhase, Span: history.At(historytest.At(30)),
				Phase: &history.Phase{Name: history.PhaseStep, Step: n}})
		}
		return events
	}
}

// reads has client 1 not find a row on mysql-1, which says what its reads wait for.
func reads(consistency string, seq int64, at float64) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		missing := false
		sent := history.Op{F: history.OpRead, Client: 1, Number: 100, Instance: "mysql", Seq: seq,
			Stage: history.StageInvoke}
		got := sent
		got.Stage, got.By, got.Server, got.Found = history.StageOK, "mysql-1", "b", &missing
		from, id := historytest.At(at), events[len(events)-1].ID
		return append(editAll(member("", "mysql-1"), func(e *history.Event) {
			e.Member.Consistency = consistency
		})(events), history.Event{ID: id + 1, Kind: history.KindOp, Source: "workload/ledger", Span: history.At(from),
			Op: &sent}, history.Event{ID: id + 2, Kind: history.KindOp, Source: "workload/ledger",
			Span: history.Between(from, from.Add(50*time.Millisecond)), Op: &got})
	}
}

// running has the server of mysql-0 run until a time.
func running(until float64) func([]history.Event) []history.Event {
	return func(events []history.Event) []history.Event {
		more := historytest.New(historytest.SmokePlan())
		more.Pod(history.VerbAdded, "mysql-0", "Running", true, false, 1)
		more.Process("worker", "mysqld", more.PodUID("mysql-0"), 4000, 2, until)
		return append(events, more.History().Events[1:]...)
	}
}

// apart has mysql-0 alone have row 5, and not what the others took later; all take writes in the end.
func apart(waited float64) func([]history.Event) []history.Event {
	return then(lose(5, "mysql-1", "mysql-2"), editAll(func(e *history.Event) bool {
		return e.Kind == history.KindMember && e.Member.Label == history.FinalRead
	}, func(e *history.Event) {
		e.Member.Writable, e.Member.Waited, e.Member.Executed = true, waited, "a:1-4,b:1-4"
		if e.Member.Instance == "mysql-0" {
			e.Member.Executed = "a:1-5"
		}
	}))
}

// TestGroups changes one thing of a failover at a time: the check of what is broken must notice and name it.
func TestGroups(t *testing.T) {
	pass, fail, unknown := check.Pass, check.Fail, check.Unknown
	ack := func(seq int64) match { return op(history.OpInsert, history.StageOK, "mysql", seq) }
	final := history.FinalRead
	const semi, few = plan.TopologySemiSync, "acknowledged 9 inserts, the plan demands 20"
	configured := executed("mysql", "-e", "SET GLOBAL rpl_semi_sync_source_timeout = 500")
	for _, m := range []struct {
		name, topology, check string
		change                func([]history.Event) []history.Event
		want                  check.Verdict
		says                  string
	}{
		{"sound", semi, "acknowledged", nil, pass, ""},
		{"a row is on the old primary alone", semi, "acknowledged", lose(5, "mysql-1", "mysql-2"), fail,
			"A row that mysql-0 had acknowledged at +15.100 s is lost: client 1, seq 5 is not on mysql-1, the " +
				"writer; it is on mysql-0; of the transactions of mysql-0 (a) mysql-0 has 1-5, mysql-1 has 1-5, " +
				"mysql-2 has 1-5."},
		{"a row is nowhere", plan.TopologyGroup, "acknowledged", lose(5, "mysql-0", "mysql-1", "mysql-2"), fail,
			"no instance has it"},
		{"a replica alone lacks a row", semi, "acknowledged", lose(5, "mysql-2"), pass, ""},
		{"async loses a row", plan.TopologyAsync, "acknowledged", lose(5, "mysql-1", "mysql-2"), pass, ""},
		{"a member without a majority acknowledges", plan.TopologyMulti, "acknowledged", apart(60), fail,
			"A row that mysql-0 had acknowledged at +15.100 s is lost: client 1, seq 5 is not on mysql-1"},
		{"a member without a majority acknowledges", plan.TopologyMulti, "errant-gtid", apart(60), fail,
			"mysql-0 has transactions that mysql-1, the writer, does not have: a:5"},
		{"a member without a majority acknowledges", plan.TopologyMulti, "in-sync", apart(60), fail,
			"mysql-0 lacks transactions of mysql-1, the writer, 60 s after"},
		{"members were not waited for", plan.TopologyMulti, "acknowledged", apart(10), unknown, "3 writers"},
		{"members were not waited for", plan.TopologyMulti, "errant-gtid", apart(10), unknown, "3 writers"},
		{"nobody takes writes in the end", plan.TopologyMulti, "acknowledged", then(apart(60), editAll(
			kind(history.KindMember), func(e *history.Event) { e.Member.Writable = false })), unknown, "0 writers"},
		{"two groups of one", plan.TopologyGroup, "errant-gtid", apart(60), fail,
			"mysql-0 has transactions that mysql-1, the writer, does not have: a:5"},
		{"two writers, who have the same", plan.TopologyGroup, "errant-gtid", editAll(member(final, "mysql-0"),
			func(e *history.Event) { e.Member.Writable = true }), unknown, "2 writers"},
		{"async loses a row of the writer that stayed", plan.TopologyAsync, "acknowledged",
			lose(9, "mysql-0", "mysql-1", "mysql-2"), fail,
			"A row that mysql-1 had acknowledged at +29.100 s is lost: client 1, seq 9 is not on mysql-1"},
		{"async loses a row of a server that began again without data", plan.TopologyAsync, "acknowledged",
			then(lose(9, "mysql-0", "mysql-1", "mysql-2"), edit(member(final, "mysql-1"),
				func(e *history.Event) { e.Member.Server = "d" })), pass, ""},
		{"async loses a row, and its primary is the primary again", plan.TopologyAsync, "acknowledged",
			then(lose(6, "mysql-0", "mysql-1", "mysql-2"), edit(kind(history.KindPromotion),
				func(e *history.Event) {
					e.Promotion.Act, e.Span = history.ActPromote, history.At(historytest.At(26.05))
				})), pass, ""},
		{"semi-sync had fallen back on the writer that stayed", semi, "acknowledged", then(
			lose(9, "mysql-0", "mysql-1", "mysql-2"), editAll(member("", "mysql-1"), func(e *history.Event) {
				e.Member.SemiSync = false
			})), fail, "seq 9 is not on mysql-1"},
		{"semi-sync had fallen back", semi, "acknowledged", then(lose(5, "mysql-1"),
			editAll(member("", "mysql-0"), func(e *history.Event) {
				e.Member.Writable, e.Member.SemiSync = true, false
			})), pass, ""},
		{"semi-sync had fallen back long before", semi, "acknowledged", then(lose(5, "mysql-1"),
			editAll(member("", "mysql-0"), func(e *history.Event) {
				e.Member.Writable, e.Member.SemiSync = true, false
			}), edit(member("", "mysql-0"), func(e *history.Event) {
				e.Span = history.At(historytest.At(9))
			})), unknown, "whether it waited for replicas then was not seen"},
		{"commits went without a replica before", semi, "acknowledged", then(lose(5, "mysql-1"),
			editAll(member("", "mysql-0"), func(e *history.Event) { e.Member.Unacked = 1 })), fail, "is lost"},
		{"a commit went without a replica before it was fenced", semi, "acknowledged", then(lose(5, "mysql-1"),
			editAll(member("", "mysql-0"), func(e *history.Event) {
				if !e.Member.Writable {
					e.Member.Unacked = 1
				}
			})), unknown, "fell back around then"},
		{"it is what waited when it was fenced", semi, "acknowledged", then(lose(5, "mysql-1"),
			edit(ack(4), func(e *history.Event) { e.Op.Stage = history.StageUnknown }),
			editAll(member("", "mysql-0"), func(e *history.Event) {
				if !e.Member.Writable {
					e.Member.Unacked = 1
				}
			})), fail, "seq 5 is not on mysql-1"},
		{"the server was not asked again", semi, "acknowledged", then(lose(5, "mysql-1"),
			drop(func(e *history.Event) bool { return member("", "mysql-0")(e) && !e.Member.Writable })), fail,
			"is lost"},
		{"nor was it, and a step may have changed how long it waits", semi, "acknowledged", then(lose(5, "mysql-1"),
			drop(func(e *history.Event) bool { return member("", "mysql-0")(e) && !e.Member.Writable }), configured),
			unknown, "whether it waited for replicas then was not seen"},
		{"it was, but may have begun again before", semi, "acknowledged", then(lose(5, "mysql-1"), configured),
			unknown, "whether it waited for replicas then was not seen"},
		{"it was, after a backup", semi, "acknowledged", then(lose(5, "mysql-1"), executed("backup.sh", "/data")), fail,
			"is lost"},
		{"it was, and ran on", semi, "acknowledged", then(lose(5, "mysql-1"), configured, running(30)), fail,
			"is lost"},
		{"a commit went without a replica around then", semi, "acknowledged", then(lose(5, "mysql-1"),
			editAll(member("", "mysql-0"), func(e *history.Event) {
				if !e.Member.Writable {
					e.Member.Writable, e.Member.SemiSync, e.Member.Unacked = true, true, 1
				}
			})), unknown, "fell back around then"},
		{"it was seen to fall back", semi, "acknowledged", then(lose(5, "mysql-1"),
			editAll(member("", "mysql-0"), func(e *history.Event) { e.Member.Writable = true })), unknown,
			"fell back around then"},
		{"one commit of many before the first sample", semi, "acknowledged", then(lose(1, "mysql-1"),
			edit(ack(1), func(e *history.Event) { e.Op.Server = "" }), // Nothing says what came later.
			edit(member("", "mysql-0"), func(e *history.Event) { e.Member.Unacked = 1 })), unknown,
			"fell back around then"},
		{"async loses a row and has a later one", plan.TopologyAsync, "acknowledged",
			lose(4, "mysql-0", "mysql-1", "mysql-2"), fail, "seq 4 is not on mysql-1"},
		{"async loses a row and has one that was under way with it", plan.TopologyAsync, "acknowledged", then(
			lose(4, "mysql-0", "mysql-1", "mysql-2"), edit(ack(4), func(e *history.Event) {
				e.Span.NotAfter = historytest.At(15)
			})), pass, ""},
		{"async loses a row of an earlier time as the primary", plan.TopologyAsync, "acknowledged", then(
			lose(4, "mysql-0", "mysql-1", "mysql-2"), edit(kind(history.KindPromotion), func(e *history.Event) {
				e.Promotion.Act, e.Span = history.ActPromote, history.At(historytest.At(14.5))
			})), pass, ""},
		{"its source was never looked at", semi, "acknowledged", then(lose(5, "mysql-1"),
			drop(member("", "mysql-0"))), unknown, "whether it waited for replicas was never seen"},
		{"an insert of unknown outcome is gone", semi, "acknowledged", then(lose(5, "mysql-1"),
			edit(ack(5), func(e *history.Event) { e.Op.Stage = history.StageUnknown })), pass, ""},
		{"nobody knows who acknowledged", semi, "acknowledged", edit(ack(5), func(e *history.Event) { e.Op.By = "" }),
			unknown, "who acknowledged"},
		{"the writer was not read", semi, "acknowledged", drop(rowsOf("mysql-1", 1)), unknown, "not read back whole"},
		{"no writer in the end", semi, "acknowledged",
			edit(member(final, "mysql-1"), func(e *history.Event) { e.Member.Writable = false }), unknown, "0 writers"},

		{"a primary does not show what the one before it acknowledged", plan.TopologyGroup, "rows",
			reads("BEFORE_ON_PRIMARY_FAILOVER", 5, 26.5), fail, "mysql-1, a primary, did not show client 1, seq 5"},
		{"it was asked before it took a write", plan.TopologyGroup, "rows",
			reads("BEFORE_ON_PRIMARY_FAILOVER", 5, 25.5), unknown, few},
		{"it shows what was acknowledged without waiting", plan.TopologyGroup, "rows",
			reads("EVENTUAL", 5, 26.5), unknown, few},
		{"what it waits for is not known", plan.TopologyGroup, "rows", reads("", 5, 26.5), unknown, few},
		{"a promoter opened it", semi, "rows", reads("BEFORE_ON_PRIMARY_FAILOVER", 5, 26.5), unknown, few},

		{"sound", semi, "one-writer", nil, pass, ""},
		{"the old primary acknowledges again", semi, "one-writer", editAll(ack(9),
			func(e *history.Event) { e.Op.By = "mysql-0" }), fail, // Though it was seen read-only in between.
			"Two instances acknowledged at once: mysql-0 at +15.100 s, mysql-1 at +26.100 s, and mysql-0 again"},
		{"the old primary was promoted again", semi, "one-writer", then(
			edit(ack(9), func(e *history.Event) { e.Op.By = "mysql-0" }),
			edit(kind(history.KindPromotion), func(e *history.Event) {
				e.Promotion.Instance, e.Span = "mysql-0", history.At(historytest.At(30)) // It is told afterwards.
			})), pass, ""},
		{"nobody acknowledged", semi, "one-writer", drop(kind(history.KindOp)), unknown, "nothing to judge"},

		{"sound", semi, "errant-gtid", nil, pass, ""},
		{"a transaction of its own", semi, "errant-gtid", edit(member(final, "mysql-0"),
			func(e *history.Event) { e.Member.Executed += ",a:6" }), fail,
			"mysql-0 has transactions that mysql-1, the writer, does not have: a:6."},
		{"an instance lacks some", semi, "errant-gtid", edit(member(final, "mysql-0"),
			func(e *history.Event) { e.Member.Executed = "a:1-5" }), pass, ""},
		{"an instance said nothing", semi, "errant-gtid", drop(member(final, "mysql-2")), unknown,
			"mysql-2 never said"},
		{"an instance said nonsense", semi, "errant-gtid", edit(member(final, "mysql-2"),
			func(e *history.Event) { e.Member.Executed = "?" }), unknown, "mysql-2 did not say"},

		{"sound", semi, "in-sync", nil, pass, ""},
		{"a replica lacks a transaction", semi, "in-sync", edit(member(final, "mysql-2"),
			func(e *history.Event) { e.Member.Executed = "a:1-5,b:1-3" }), fail,
			"mysql-2 lacks transactions of mysql-1, the writer, 60 s after the clients had stopped: b:4."},
		{"a replica is late, and is set back", semi, "in-sync", late(1, 2), fail, "mysql-2 lacks transactions of"},
		{"a replica is late, and not set back", semi, "in-sync", late(1), unknown, "may be slow"},
		{"a replica is late, and was never slowed", semi, "in-sync", late(), fail, "mysql-2 lacks transactions of"},
		{"a replica was not waited for", semi, "in-sync", edit(member(final, "mysql-2"), func(e *history.Event) {
			e.Member.Executed, e.Member.Waited = "a:1-5,b:1-3", 1
		}), unknown, "waited for no longer than 1 s"},
		{"a replica skipped a transaction", semi, "in-sync", edit(sum("mysql-2"), func(e *history.Event) {
			e.Checksum.RowHash, e.Checksum.Rows = "other", 8
		}), fail, "mysql-2 has other rows in table ledger than mysql-1"},
		{"a table without a checksum", semi, "in-sync", drop(sum("mysql-2")), unknown, "no checksum was taken"},
		{"the writer's tables without any", semi, "in-sync", drop(sum("mysql-1")), unknown, "mysql-1, the writer"},
		{"quiet tables alone", semi, "in-sync", editAll(func(e *history.Event) bool {
			return e.Kind == history.KindChecksum
		}, func(e *history.Event) { e.Checksum.Quiet = true }), unknown, "a table that clients write to"},
	} {
		t.Run(m.check+"/"+strings.ReplaceAll(m.name, " ", "-"), func(t *testing.T) {
			events := failover(m.topology)
			if m.change != nil {
				events = m.change(events)
			}
			expect(t, result(t, history.History{Events: events}, m.check), m.want, m.says)
		})
	}
}

// TestGroupOfOthers: of a group that is not Seatrial's, nobody tells who was made the primary, and a data client may
// not say which transactions an instance has.
func TestGroupOfOthers(t *testing.T) {
	external := edit(kind(history.KindPlan), func(e *history.Event) {
		p := historytest.SmokePlan()
		w := p.Workload
		p.Workload = plan.Workload{Name: plan.ExternalName, StatefulSet: w.StatefulSet, Replicas: w.Replicas,
			Clients: w.Clients, Interval: w.Interval, QuietRows: w.QuietRows, Storage: plan.StorageCluster,
			Topology: plan.TopologySemiSync,
			External: &plan.External{Manifests: "x", Port: 1, Command: []string{"true"}}}
		p.Steps = slices.DeleteFunc(p.Steps, func(s plan.Step) bool { return s.Do == plan.ActionScale })
		plan.Number(p.Steps)
		e.Plan, _ = json.Marshal(p)
	})
	unseen := then(drop(kind(history.KindPromotion)), drop(kind(history.KindMember)))
	again := edit(op(history.OpInsert, history.StageOK, "mysql", 9), func(e *history.Event) { e.Op.By = "mysql-0" })
	uncounted := editAll(kind(history.KindMember), func(e *history.Event) { e.Member.Executed = "" })
	differs := edit(sum("mysql-2"), func(e *history.Event) { e.Checksum.RowHash = "other" })
	final := history.FinalRead
	errant := edit(member(final, "mysql-0"), func(e *history.Event) { e.Member.Executed += ",a:6" })
	after := edit(member("", "mysql-1"), func(e *history.Event) {
		e.Span, e.Member.Executed = history.At(historytest.At(45)), "a:1-6,b:1-4"
	})
	never := editAll(kind(history.KindMember), func(e *history.Event) { e.Member.SemiSync = false })
	everyone := editAll(func(e *history.Event) bool { return e.Kind == history.KindMember && e.Member.Label == final },
		func(e *history.Event) { e.Member.Writable = true })
	multi := edit(kind(history.KindPlan), func(e *history.Event) {
		e.Plan = []byte(strings.ReplaceAll(string(e.Plan), `"topology":"semisync"`, `"topology":"group-multi"`))
	})
	for _, c := range []struct {
		name, check string
		change      func([]history.Event) []history.Event
		want        check.Verdict
		says        string
	}{
		{"sound", "one-writer", external, check.Pass, ""},
		{"there and back unseen", "one-writer", then(external, unseen, again), check.Unknown,
			"mysql-0 acknowledged, then mysql-1, then mysql-0 again"},
		{"there and back at once", "one-writer", then(external, unseen, again,
			editAll(func(e *history.Event) bool { return e.Kind == history.KindOp && e.Op.Seq > 5 },
				func(e *history.Event) { // Within 0.5 s after the last one of mysql-0.
					at := 15.1 + 0.1*float64(e.Op.Seq-5)
					if e.Op.Stage != history.StageInvoke {
						at += 0.05
					}
					e.Span = history.At(historytest.At(at))
				})), check.Fail, "Two instances acknowledged at once"},
		{"sound", "in-sync", external, check.Pass, ""},
		{"uncounted", "in-sync", then(external, uncounted), check.Pass, ""},
		{"other rows", "in-sync", then(external, differs), check.Fail, "though it has all its transactions"},
		{"other rows, uncounted", "in-sync", then(external, uncounted, differs), check.Fail,
			"the writer, 60 s after the clients had stopped"},
		{"other rows, uncounted, not waited for", "in-sync", then(external, uncounted, differs,
			edit(member(final, "mysql-2"), func(e *history.Event) { e.Member.Waited = 2 })), check.Unknown,
			"mysql-2 had other rows in table ledger when it was waited for no longer than 2 s"},
		{"sound", "errant-gtid", external, check.Pass, ""},
		{"a writer that is asked once more has the same", "errant-gtid", then(external, errant, after), check.Pass, ""},
		{"a writer that is asked once more has it not", "errant-gtid", then(external, errant), check.Fail,
			"mysql-0 has transactions that mysql-1, the writer, does not have: a:6."},
		{"the writer's table was not summed up", "in-sync", then(external, drop(sum("mysql-1"))), check.Unknown,
			"no checksum was taken in the end, there or on mysql-1"},
		{"uncounted", "acknowledged", then(external, uncounted), check.Pass, ""},
		{"lost", "acknowledged", then(external, lose(5, "mysql-1"), running(30)), check.Fail, "is lost"},
		{"lost, and it may have begun again before it was asked", "acknowledged", then(external, lose(5, "mysql-1"),
			running(20)), check.Unknown, "whether it waited for replicas then was not seen"},
		{"lost, and nobody ever waited for replicas", "acknowledged", then(external, lose(5, "mysql-1"), never),
			check.Unknown, "whether it waited for replicas was never seen"},
		{"of many writers, uncounted, one lacks a row", "acknowledged", then(external, multi, uncounted, everyone,
			lose(5, "mysql-0")), check.Unknown, "is not on mysql-0, which may be late; it is on mysql-1, mysql-2"},
		{"of many writers, uncounted, nobody has a row", "acknowledged", then(external, multi, uncounted, everyone,
			lose(5, "mysql-0", "mysql-1", "mysql-2")), check.Fail, "no instance has it"},
	} {
		t.Run(c.check+"/"+strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			events := c.change(failover(plan.TopologySemiSync))
			expect(t, result(t, history.History{Events: events}, c.check), c.want, c.says)
		})
	}
	all := check.Run(history.History{Events: then(external, uncounted)(failover(plan.TopologySemiSync))}, check.All())
	if !slices.ContainsFunc(all.NotJudged, func(u check.Unjudged) bool { return u.Check == "errant-gtid" }) {
		t.Error("errant-gtid is judged without one transaction that is told")
	}
}

// TestLostRowsOfAsyncAreCounted holds that what is allowed is told.
func TestLostRowsOfAsyncAreCounted(t *testing.T) {
	events := editAll(rowsOf("mysql-1", 1), func(e *history.Event) {
		e.Rows.Rows = slices.Delete(e.Rows.Rows, 3, 5)
	})(failover(plan.TopologyAsync))
	res := result(t, history.History{Events: events}, "acknowledged")
	if want := "2 acknowledged rows are lost, which topology async allows"; !strings.Contains(
		strings.Join(res.Notes, "\n"), want) {
		t.Errorf("notes %q do not say %q", res.Notes, want)
	}
}

// TestNobodyInTheWritersPlace: while a fault keeps the writer of an asynchronous group from acknowledging, it is enough
// that it was asked. Where another is the writer, or may become it, it is not.
func TestNobodyInTheWritersPlace(t *testing.T) {
	acked := func(e *history.Event) bool { return e.Kind == history.KindOp && e.Op.Stage == history.StageOK }
	by := func(pod string) func(*history.Event) { return func(e *history.Event) { e.Op.By = pod } }
	topology := func(name string) func([]history.Event) []history.Event {
		return then(edit(kind(history.KindPlan), func(e *history.Event) {
			p := historytest.SmokePlan()
			p.Workload.Topology = name
			p.Steps = slices.DeleteFunc(p.Steps, func(s plan.Step) bool { return s.Do == plan.ActionScale })
			plan.Number(p.Steps)
			raw, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			e.Plan = raw
		}), editAll(acked, by("mysql-0")))
	}
	silent := drop(after(before(acked, 23.1), 17.9))
	idle := drop(func(e *history.Event) bool {
		return e.Kind == history.KindOp && e.Span.NotBefore > historytest.At(15) &&
			e.Span.NotBefore < historytest.At(25)
	})
	hang := func(sent, answered float64) func([]history.Event) []history.Event { // An insert of three clients each.
		return func(events []history.Event) []history.Event {
			for client := 7; client < 10; client++ {
				op := history.Op{F: history.OpInsert, Client: client, Number: 1, Instance: "mysql", Seq: 1,
					Stage: history.StageInvoke}
				done := op
				done.Stage = history.StageUnknown
				events = append(events, history.Event{Kind: history.KindOp, Op: &op,
					Span: history.At(historytest.At(sent))})
				if answered > 0 {
					events = append(events, history.Event{Kind: history.KindOp, Op: &done,
						Span: history.Between(historytest.At(sent), historytest.At(answered))})
				}
			}
			return events
		}
	}
	for _, c := range []struct {
		name   string
		change func([]history.Event) []history.Event
		says   string // Of step 3; "" for nothing.
	}{
		{"asked", then(topology(plan.TopologyAsync), silent), ""},
		{"replicated otherwise", then(topology(plan.TopologySemiSync), silent), "acknowledged during step 3"},
		{"another wrote before", then(topology(plan.TopologyAsync), silent,
			edit(func(e *history.Event) bool { return acked(e) && e.Op.F == history.OpInsert }, by("mysql-2"))),
			"acknowledged during step 3"},
		{"asked, and it hangs", then(topology(plan.TopologyAsync), idle, hang(16, 26)), ""},
		{"not asked", then(topology(plan.TopologyAsync), idle), "0 operations were asked of mysql-0 during step 3"},
		{"asked by clients that died long before", then(topology(plan.TopologyAsync), idle, hang(1, 0)),
			"0 operations were asked of mysql-0 during step 3"},
	} {
		said := strings.Join(result(t, trialOf(c.change), "coverage").Reasons, "\n")
		if c.says == "" && strings.Contains(said, "during step 3") || !strings.Contains(said, c.says) {
			t.Errorf("%s: the check says %q, want %q", c.name, said, c.says)
		}
	}
}

// TestGroupSettles: a group whose instances are all Ready takes a write within the bound.
func TestGroupSettles(t *testing.T) {
	refuses := func(_ *plan.Workload, t *historytest.Trial) {
		t.Add(history.Event{Kind: history.KindPromotion, Source: "workload/ledger",
			Span: history.At(historytest.At(50)), Promotion: &history.Promotion{Act: history.ActRefuse}})
	}
	transfers := func(_ *plan.Workload, t *historytest.Trial) {
		op := history.Op{F: history.OpTxn, Client: 9, Number: 1, Instance: "mysql", Stage: history.StageInvoke,
			Txn: &history.Txn{On: history.OnAccounts, Ops: []history.Access{{Key: 1, Write: true, Value: 2}}}}
		done := op
		done.Stage = history.StageOK
		t.Add(history.Event{Kind: history.KindOp, Span: history.At(historytest.At(50)), Op: &op})
		t.Add(history.Event{Kind: history.KindOp, Span: history.At(historytest.At(50.1)), Op: &done})
	}
	for _, c := range []struct {
		name   string
		stage  history.Stage // Of the writes after the healing.
		ready  bool          // Of mysql-2; the others are.
		before bool          // It took writes before.
		until  float64       // When the harness gave up.
		change func(*plan.Workload, *historytest.Trial)
		want   check.Verdict
		says   string
	}{
		{"it does", history.StageOK, true, true, 48, nil, check.Pass, ""},
		{"no write is taken", history.StageUnknown, true, true, 77, nil, check.Fail,
			"Group mysql took no write within 30s after everything was healed: 5 inserts were tried"},
		{"a transaction is", history.StageUnknown, true, true, 77, transfers, check.Unknown,
			"the harness did not see everything settle"},
		{"an instance is not Ready", history.StageUnknown, false, true, 77, nil, check.Unknown,
			"mysql-2 was not seen Ready"},
		{"it took none before", history.StageUnknown, true, false, 77, nil, check.Unknown,
			"was not seen to take a write"},
		{"given up early", history.StageUnknown, true, true, 60, nil, check.Unknown, "was not seen to take a write"},
		{"the promoter refuses", history.StageUnknown, true, true, 77, refuses, check.Unknown,
			"was not seen to take a write"},
		{"the promoter refuses, as it must", history.StageUnknown, true, true, 77,
			func(w *plan.Workload, t *historytest.Trial) { w.ManualFailover = true; refuses(w, t) }, check.Fail,
			"took no write"},
		{"group replication", history.StageUnknown, true, true, 77,
			func(w *plan.Workload, _ *historytest.Trial) { w.Topology = plan.TopologyGroup }, check.Unknown,
			"was not seen to take a write"},
	} {
		events := failover(plan.TopologySemiSync)
		if !c.before {
			events = drop(kind(history.KindOp))(events)
		}
		more := historytest.New(historytest.SmokePlan())
		more.Set(history.VerbAdded, "mysql", 3, 5)
		for _, pod := range []string{"mysql-0", "mysql-1", "mysql-2"} {
			more.Pod(history.VerbAdded, pod, "Running", c.ready || pod != "mysql-2", false, 6)
		}
		more.Phase(history.PhaseHeal, 0, 44, 45)
		for seq := int64(10); seq < 15; seq++ {
			more.Insert("mysql", 1, seq, c.stage, float64(36+seq), float64(37+seq)-0.5)
		}
		more.Phase(history.PhaseSettle, 0, 45.1, c.until)
		if c.change != nil {
			events = edit(kind(history.KindPlan), func(e *history.Event) {
				var p plan.Plan
				if err := json.Unmarshal(e.Plan, &p); err != nil {
					t.Fatal(err)
				}
				c.change(&p.Workload, more)
				e.Plan, _ = json.Marshal(p)
			})(events)
		}
		events = append(events, more.History().Events[1:]...)
		if c.stage != history.StageOK {
			events = edit(phase(history.PhaseSettle, 0, true), fails("timed out"))(events)
		}
		got := result(t, history.History{Events: events}, "settle")
		said := strings.Join(got.Reasons, "; ")
		for _, f := range got.Findings {
			said += f.Sentence
		}
		if got.Verdict != c.want || !strings.Contains(said, c.says) {
			t.Errorf("%s: %s, %q, want %s, %q", c.name, got.Verdict, said, c.want, c.says)
		}
	}
}
