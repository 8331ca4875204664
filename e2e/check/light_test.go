package check_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
	"github.com/seatrial/seatrial/e2e/world"
)

// lightTrial is the smoke trial as one of containers that do nothing: no clients, no tables, and no step that needs
// them.
func lightTrial() history.History {
	data := func(e *history.Event) bool {
		return slices.Contains([]history.Kind{history.KindOp, history.KindRows, history.KindChecksum}, e.Kind) ||
			e.Kind == history.KindInspection && e.Inspection.Table != "" ||
			e.Kind == history.KindProcess && e.Process.Name == "mysqld"
	}
	return trialOf(then(drop(data), edit(kind(history.KindPlan), func(e *history.Event) {
		p := historytest.SmokePlan()
		p.Workload.Name, p.Workload.Light = plan.LightName, true
		p.Workload.Clients, p.Workload.Interval, p.Workload.QuietRows = 0, 0, 0
		p.Bounds.MinOps, p.Bounds.MinAround = 0, 0
		p.Steps = slices.DeleteFunc(p.Steps, func(st plan.Step) bool {
			return st.Do == plan.ActionLoad || st.Do == plan.ActionChecksum
		})
		for i := range p.Steps {
			p.Steps[i].N = i + 1
		}
		e.Plan, _ = json.Marshal(p)
	})))
}

// TestWithoutDataNoDataIsAsked holds that a workload without data is judged, but not on data.
func TestWithoutDataNoDataIsAsked(t *testing.T) {
	h := lightTrial()
	trial, err := world.New(h).Trial()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range check.All() {
		applies := c.Applies == nil || c.Applies(trial.Plan)
		switch c.Name {
		case "checksums", "pod-identity", "right-volume", "rows", "witness":
			if applies {
				t.Errorf("%s applies to a workload without data", c.Name)
			}
		case "integrity", "settle":
			r := check.Run(h, []check.Check{c})
			if !applies || r.Verdict != check.Pass {
				t.Errorf("%s: %s, %+v", c.Name, r.Verdict, r.Results)
			}
		}
	}
	unready := drop(func(e *history.Event) bool { return e.Kind == history.KindInspection })(h.Events)
	for _, c := range check.All() {
		if c.Name == "integrity" {
			if r := check.Run(history.History{Events: unready}, []check.Check{c}); r.Verdict != check.Unknown {
				t.Errorf("nobody looked the volumes over: %s", r.Verdict)
			}
		}
	}
}
