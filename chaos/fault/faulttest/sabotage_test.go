package faulttest_test

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// sabotagedStep is the step of the made-up trial whose fault is exchanged for the one to be tried.
const sabotagedStep = 3

// judged puts what the guard has recorded of a fault into the history of a trial in which all else went well, and
// judges it. The step itself is told to have ended well, and the rest of the plan to have been carried out: the facts
// of the fault have to be enough.
func judged(t *testing.T, spec plan.Fault, facts []history.Fault, checks []check.Check) check.Report {
	t.Helper()
	h := historytest.Smoke().History()
	at := map[history.FaultStage]*history.Event{}
	h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool {
		if e.Kind != history.KindFault || e.Fault.Step != sabotagedStep {
			return false
		}
		at[e.Fault.Stage] = &e
		return true
	})
	at[history.StageArmed] = at[history.StageIntent]
	at[history.StageFaultFailed] = at[history.StageConfirmed] // The effect is looked for as long as that.
	for _, f := range facts {
		e := *at[f.Stage]
		f.Step, f.Node, f.Victim = sabotagedStep, e.Fault.Node, e.Fault.Victim
		e.Fault = &f
		i := slices.IndexFunc(h.Events, func(o history.Event) bool { return o.Span.NotAfter > e.Span.NotAfter })
		h.Events = slices.Insert(h.Events, i, e)
	}
	for i := range h.Events {
		e := &h.Events[i]
		e.ID = int64(i + 1)
		if e.Kind != history.KindPlan {
			continue
		}
		p := historytest.SmokePlan()
		spec.Ordinal = p.Steps[sabotagedStep-1].Fault.Ordinal
		p.Steps[sabotagedStep-1].Fault = &spec
		if spec.Params["csi"] != nil {
			p.Workload.Storage, p.Workload.Fencing = "shareddisk", "none"
		}
		raw, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		e.Plan = raw
	}
	return check.Run(h, checks)
}

// TestASabotagedFaultIsNeverGreen has every act of a fault do nothing: it is taken, and answers as if it were done. The
// guard must say so, and the verdict on a trial that is otherwise without a flaw be UNKNOWN. The same trial with the
// fault as it is must be covered, or the first half of this would show nothing.
func TestASabotagedFaultIsNeverGreen(t *testing.T) {
	coverage := []check.Check{check.Coverage()}
	each(t, func(t *testing.T, def fault.Definition, _ *world, b faulttest.Bench) {
		r, err := faulttest.Run(t.Context(), def, b, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := judged(t, b.Spec, r.Facts(), coverage); got.Verdict != check.Pass {
			t.Errorf("as it is: %s: %q", got.Verdict, got.Results[0].Reasons)
		}
	})
	each(t, func(t *testing.T, def fault.Definition, w *world, _ faulttest.Bench) {
		w.inert = true
		b := w.bench(t, def.Name)
		r, err := faulttest.Run(t.Context(), def, b, nil)
		var stage *fault.StageError
		if !errors.As(err, &stage) || stage.Stage != "confirm" {
			t.Fatalf("sabotaged: got %v, want an error of confirm", err)
		}
		if got := judged(t, b.Spec, r.Facts(), check.All()); got.Verdict != check.Unknown {
			t.Errorf("sabotaged: %s", got.Verdict)
		}
		got := judged(t, b.Spec, r.Facts(), coverage)
		if reasons := strings.Join(got.Results[0].Reasons, "\n"); !strings.Contains(reasons, def.Name) ||
			!strings.Contains(reasons, "failed: confirm") {
			t.Errorf("no reason names the fault: %s", reasons)
		}
	})
}
