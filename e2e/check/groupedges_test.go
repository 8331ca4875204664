package check_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// acked is one acknowledged insert into a group.
type acked struct {
	client   int
	from, to float64
	by       string
}

// acknowledgedBy is a history of a group of that topology: these inserts, and these facts.
func acknowledgedBy(topology string, all []acked, facts ...history.Event) history.History {
	p := historytest.SmokePlan()
	p.Workload.Topology, p.Steps = topology, p.Steps[:1]
	t := historytest.New(p)
	numbers := map[int]int64{}
	for _, a := range all {
		numbers[a.client]++
		op := history.Op{F: history.OpInsert, Client: a.client, Number: numbers[a.client], Instance: "mysql",
			Seq: numbers[a.client], CRC: 7, Stage: history.StageInvoke}
		done := op
		done.Stage, done.By = history.StageOK, a.by
		t.Add(history.Event{Kind: history.KindOp, Op: &op, Span: history.At(historytest.At(a.from))})
		t.Add(history.Event{Kind: history.KindOp, Op: &done,
			Span: history.Between(historytest.At(a.from), historytest.At(a.to))})
	}
	for _, e := range facts {
		t.Add(e)
	}
	return t.History()
}

func saidBy(at float64, m history.Member) history.Event {
	return history.Event{Kind: history.KindMember, Member: &m,
		Span: history.Between(historytest.At(at), historytest.At(at+0.1))}
}

func acts(at float64, act, instance string) history.Event {
	return history.Event{Kind: history.KindPromotion, Span: history.At(historytest.At(at)),
		Promotion: &history.Promotion{Act: act, Instance: instance, Term: 2}}
}

// Split brain for 10 s: each of two clients writes without a pause, one on each instance.
func TestSplitBrainOfBusyClients(t *testing.T) {
	var all []acked
	for i := range 30 {
		at := 10 + 0.3*float64(i)
		all = append(all, acked{1, at, at + 0.29, "mysql-0"}, acked{2, at + 0.15, at + 0.44, "mysql-1"})
	}
	var facts []history.Event // Both say so each second.
	for i := range 12 {
		for _, pod := range []string{"mysql-0", "mysql-1"} {
			facts = append(facts, saidBy(9+float64(i), history.Member{Instance: pod, Writable: true, SemiSync: true}))
		}
	}
	h := acknowledgedBy(plan.TopologySemiSync, all, facts...)
	expect(t, result(t, h, "one-writer"), check.Fail, "Two instances acknowledged at once")
}

// Only a transfer was acknowledged beside the primary.
func TestSplitBrainByATransfer(t *testing.T) {
	h := acknowledgedBy(plan.TopologyAsync, []acked{
		{1, 15, 15.1, "mysql-0"}, {2, 16, 16.1, "mysql-1"}, {1, 17, 17.1, "mysql-0"},
	})
	h.Events = editAll(func(e *history.Event) bool { return e.Op != nil && e.Op.Client == 2 },
		func(e *history.Event) {
			e.Op.F, e.Op.Txn = history.OpTxn, &history.Txn{Level: "READ COMMITTED", On: history.OnAccounts,
				Ops: []history.Access{{Write: true, Value: -1}, {Key: 1, Write: true, Value: 1}}}
		})(h.Events)
	expect(t, result(t, h, "one-writer"), check.Fail, "mysql-0 at +15.100 s, mysql-1 at +16.100 s, and mysql-0 again")
}

// mysql-0 is made the primary again while an insert is under way, which then finds it.
func TestReopenedWhileAnInsertIsUnderWay(t *testing.T) {
	h := acknowledgedBy(plan.TopologySemiSync, []acked{
		{1, 15, 15.1, "mysql-0"}, {1, 19, 19.1, "mysql-1"}, {1, 19.6, 23.2, "mysql-0"},
	},
		acts(10, history.ActOpen, "mysql-0"),
		saidBy(15, history.Member{Instance: "mysql-0", Writable: true, SemiSync: true}),
		saidBy(16, history.Member{Instance: "mysql-0", Error: "connection refused"}), // It crashed.
		saidBy(17, history.Member{Instance: "mysql-0", Error: "connection refused"}),
		acts(18, history.ActPromote, "mysql-1"), acts(18.5, history.ActOpen, "mysql-1"),
		saidBy(18, history.Member{Instance: "mysql-0", Error: "connection refused"}),
		saidBy(19, history.Member{Instance: "mysql-0", Error: "connection refused"}),
		saidBy(20, history.Member{Instance: "mysql-0"}), // It is back, read-only; mysql-1 has just crashed.
		saidBy(21, history.Member{Instance: "mysql-0"}),
		acts(22, history.ActPromote, "mysql-0"), acts(22.5, history.ActOpen, "mysql-0"),
	)
	expect(t, result(t, h, "one-writer"), check.Pass, "")
}

// In group replication members choose the primary; nobody looked at mysql-0 in between, since the API, which the
// promoter asks before it asks the members, was away.
func TestGroupChangesUnseen(t *testing.T) {
	h := acknowledgedBy(plan.TopologyGroup, []acked{
		{1, 15, 15.1, "mysql-0"}, {1, 30, 30.1, "mysql-1"}, {1, 60, 60.1, "mysql-0"},
	},
		saidBy(14, history.Member{Instance: "mysql-0", Writable: true}),
		saidBy(70, history.Member{Instance: "mysql-0", Writable: true}),
	)
	expect(t, result(t, h, "one-writer"), check.Unknown, "")
}

// A step reads all rows while the clients write; the copy is 0.1 s behind, which asynchronous replication may be.
func TestACopyMayBeLate(t *testing.T) {
	p := historytest.SmokePlan()
	p.Workload.Replicas, p.Workload.Replicated, p.Bounds.MinOps = 2, true, 5
	p.Steps = []plan.Step{{N: 1, Do: plan.ActionLoad, Commits: 5, Bound: plan.Duration(time.Minute)},
		{N: 2, Do: plan.ActionRead, Bound: plan.Duration(time.Minute)}}
	tr := historytest.New(p)
	for i := range int64(10) {
		at := 10 + float64(i)
		tr.Insert("mysql-0", 1, i+1, history.StageOK, at, at+0.01)
	}
	read := func(instance, label string, upTo int64, at float64) {
		var rows []history.Row
		for seq := int64(1); seq <= upTo; seq++ {
			crc := historytest.CRC(1, seq)
			rows = append(rows, history.Row{Client: 1, Seq: seq, CRC: crc, Sum: crc})
		}
		tr.Add(history.Event{Kind: history.KindRows, Span: history.Between(historytest.At(at), historytest.At(at+0.1)),
			Rows: &history.Rows{Instance: instance, Read: label, Chunk: 1, Chunks: 1, Rows: rows}})
	}
	tr.Phase(history.PhaseStep, 2, 15.04, 15.2)
	read("mysql-0", history.ReadOfStep(2), 6, 15.05)
	read("mysql-1", history.ReadOfStep(2), 5, 15.05) // Row 6 was acknowledged at 15.01 s, and is not there yet.
	read("mysql-0", "final", 10, 60)
	read("mysql-1", "final", 10, 60)
	expect(t, result(t, tr.History(), "rows"), check.Pass, "")
}

// The promoter refuses to fail over from before the end of the healing on, for one reason, which it records once.
func TestRefusedBeforeTheHealing(t *testing.T) {
	events := failover(plan.TopologySemiSync)
	more := historytest.New(historytest.SmokePlan())
	more.Set(history.VerbAdded, "mysql", 3, 5)
	for _, pod := range []string{"mysql-0", "mysql-1", "mysql-2"} {
		more.Pod(history.VerbAdded, pod, "Running", true, false, 6)
	}
	more.Add(history.Event{Kind: history.KindPromotion, Span: history.At(historytest.At(43)),
		Promotion: &history.Promotion{Act: history.ActRefuse, Why: "mysql-1 is back without data, none of mysql-0, " +
			"mysql-1, mysql-2 has every transaction"}})
	more.Phase(history.PhaseHeal, 0, 44, 45)
	for seq := int64(10); seq < 15; seq++ {
		more.Insert("mysql", 1, seq, history.StageFailed, float64(36+seq), float64(37+seq)-0.5)
	}
	more.Phase(history.PhaseSettle, 0, 45.1, 77)
	events = append(events, more.History().Events[1:]...)
	events = edit(phase(history.PhaseSettle, 0, true), fails("timed out"))(events)
	expect(t, result(t, history.History{Events: events}, "settle"), check.Unknown, "was not seen to take a write")
}

// A sample from before the insert says that semi-synchronous replication is off, none is from after it: the row may
// have been acknowledged when it was on again.
func TestOneSampleBefore(t *testing.T) {
	events := then(lose(5, "mysql-0", "mysql-1", "mysql-2"),
		edit(member("", "mysql-0"), func(e *history.Event) { e.Member.SemiSync = false }))(
		failover(plan.TopologySemiSync))
	expect(t, result(t, history.History{Events: events}, "acknowledged"), check.Unknown, "")
}

// Nobody could ask the primary around the acknowledgement, and it began again before it was asked: its count of commits
// without a replica is a new one. It is a group of others, whose semi-synchronous replication may give up after 10 s.
func TestPrimaryNotAskedAroundThen(t *testing.T) {
	events := then(lose(5, "mysql-0", "mysql-1", "mysql-2"), edit(member("", "mysql-0"), func(e *history.Event) {
		e.Span = history.At(historytest.At(1))
	}), edit(kind(history.KindPlan), func(e *history.Event) {
		p := historytest.SmokePlan()
		w := p.Workload
		p.Workload = plan.Workload{Name: plan.ExternalName, StatefulSet: w.StatefulSet, Replicas: w.Replicas,
			Clients: w.Clients, Interval: w.Interval, QuietRows: w.QuietRows, Storage: plan.StorageCluster,
			Topology: plan.TopologySemiSync,
			External: &plan.External{Manifests: "x", Port: 1, Command: []string{"true"}}}
		p.Steps = slices.DeleteFunc(p.Steps, func(s plan.Step) bool { return s.Do == plan.ActionScale })
		plan.Number(p.Steps)
		e.Plan, _ = json.Marshal(p)
	}))(failover(plan.TopologySemiSync))
	for i := range 20 { // From 2 s to 21 s.
		events = append(events, saidBy(2+float64(i), history.Member{Instance: "mysql-0", Error: "timed out"}))
	}
	expect(t, result(t, history.History{Events: events}, "acknowledged"), check.Unknown, "")
}

// An insert that was sent just before the end of the healing and acknowledged after it, and none after.
func TestSentBeforeHealed(t *testing.T) {
	events := failover(plan.TopologySemiSync)
	more := historytest.New(historytest.SmokePlan())
	more.Set(history.VerbAdded, "mysql", 3, 5)
	for _, pod := range []string{"mysql-0", "mysql-1", "mysql-2"} {
		more.Pod(history.VerbAdded, pod, "Running", true, false, 6)
	}
	more.Phase(history.PhaseHeal, 0, 44, 45)
	more.Insert("mysql", 2, 1, history.StageOK, 44.9, 46)
	for seq := int64(10); seq < 15; seq++ {
		more.Insert("mysql", 1, seq, history.StageFailed, float64(36+seq), float64(37+seq)-0.5)
	}
	more.Phase(history.PhaseSettle, 0, 45.1, 77)
	events = append(events, more.History().Events[1:]...)
	events = edit(phase(history.PhaseSettle, 0, true), fails("timed out"))(events)
	got := result(t, history.History{Events: events}, "settle")
	if got.Verdict == check.Fail {
		t.Errorf("FAIL: %v", got.Findings)
	}
}

// A commit whose client had given up waits for a replica until one is back, while everything is read back: the writer's
// table is summed up before, the replica's after it.
func TestACommitWhileAllIsReadBack(t *testing.T) {
	events := failover(plan.TopologySemiSync)
	late := func(at float64, pod string) history.Event {
		e := saidBy(at, history.Member{Instance: pod, Writable: pod == "mysql-1", SemiSync: true,
			Executed: "a:1-5,b:1-5"})
		e.ID = int64(len(events)) + 1
		return e
	}
	events = append(events, late(50, "mysql-1"))
	events = append(events, late(50, "mysql-2"))
	events = edit(sum("mysql-2"), func(e *history.Event) {
		e.Span = history.Between(historytest.At(55), historytest.At(55.1))
		e.Checksum.Rows, e.Checksum.RowHash, e.Checksum.Table64 = 10, "other", 2
	})(events)
	expect(t, result(t, history.History{Events: events}, "in-sync"), check.Unknown, "")
}
