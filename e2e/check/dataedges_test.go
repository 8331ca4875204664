package check_test

import (
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
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
