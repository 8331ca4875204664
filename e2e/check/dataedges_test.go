package check_test

import (
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// A copy lost its volume and was not made again: nothing is damaged. The instance that it copies must have its tables.
func TestACopyWithoutTables(t *testing.T) {
	for instance, want := range map[string]check.Verdict{"mysql-0": check.Fail, "mysql-1": check.Unknown} {
		p := historytest.SmokePlan()
		p.Workload.Replicas, p.Workload.Replicated, p.Steps = 2, true, p.Steps[:1]
		tr := historytest.New(p)
		tr.Inspections("mysql-0", "local-0", 60)
		tr.Inspections("mysql-1", "local-1", 61)
		events := edit(func(e *history.Event) bool {
			return e.Kind == history.KindInspection && e.Inspection.Instance == instance
		}, func(e *history.Event) {
			e.Inspection.Clean, e.Inspection.Messages = false, []string{
				"Error: Table 'seatrial." + e.Inspection.Table + "' doesn't exist", "status: Operation failed"}
		})(tr.History().Events)
		expect(t, result(t, history.History{Events: events}, "integrity"), want, "table quiet of "+instance)
	}
}

// The clients use more tables than the two that are always there: these are looked over too.
func TestTablesOfTheClients(t *testing.T) {
	for _, tc := range []struct {
		clients int
		table   string
		want    check.Verdict
		why     string
	}{
		{0, "", check.Pass, ""},
		{2, "", check.Unknown, "never looked over for damage, of mysql-0: table registers"},
		{2, "lists", check.Unknown, "never looked over for damage, of mysql-0: table registers"},
		{2, "registers", check.Pass, ""},
	} {
		p := historytest.SmokePlan()
		p.Workload.Replicas, p.Workload.Registers, p.Steps = 1, tc.clients, p.Steps[:1]
		tr := historytest.New(p)
		tr.Inspections("mysql-0", "local-0", 60)
		if tc.table != "" {
			tr.Add(history.Event{Kind: history.KindInspection, Span: history.At(historytest.At(61)),
				Inspection: &history.Inspection{Tool: "CHECK TABLE", Instance: "mysql-0", Table: tc.table,
					Clean: true}})
		}
		expect(t, result(t, tr.History(), "integrity"), tc.want, tc.why)
	}
}

// The claim of a replica was deleted, and a step takes checksums while the new one still gets what the writer has had.
func TestAChecksumOfACopyMadeAnew(t *testing.T) {
	sums := func(whole bool) history.History {
		p := historytest.SmokePlan()
		p.Workload.Topology, p.Steps = plan.TopologySemiSync, []plan.Step{
			{N: 1, Do: plan.ActionChecksum, Label: "after", Bound: plan.Duration(time.Minute)}}
		tr := historytest.New(p)
		for _, pod := range []string{"mysql-0", "mysql-1", "mysql-2"} {
			tr.Checksum(pod, "quiet", true, "filled", 0, 5)
			tr.Checksum(pod, "quiet", true, "after", 1, 20)
			tr.Checksum(pod, "quiet", true, "settled", 0, 40)
			tr.Add(saidBy(39, history.Member{Instance: pod, Label: history.FinalRead, Executed: "a:1-9"}))
		}
		return history.History{Events: editAll(func(e *history.Event) bool {
			return e.Kind == history.KindChecksum && e.Checksum.Instance == "mysql-1" && e.Checksum.Label != "filled"
		}, func(e *history.Event) {
			e.Checksum.Server = "new"
			if e.Checksum.Label == "after" || !whole {
				e.Checksum.Rows, e.Checksum.RowHash = 500, "half"
			}
		})(tr.History().Events)}
	}
	expect(t, result(t, sums(true), "checksums"), check.Pass, "")
	expect(t, result(t, sums(false), "checksums"), check.Fail, "mysql-1 table quiet changed")
}
