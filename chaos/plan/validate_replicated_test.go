package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// TestReplicatedOnPaper holds the rules of copies, and of the step that recovers one.
func TestReplicatedOnPaper(t *testing.T) {
	of := func(do plan.Action, ordinal int) plan.Step {
		return plan.Step{Do: do, Ordinal: &ordinal, Bound: plan.Duration(time.Minute)}
	}
	recoverOf := func(ordinal int) plan.Step { return of(plan.ActionRecover, ordinal) }
	backedUp := func(ordinal int) []plan.Step {
		return []plan.Step{of(plan.ActionBackup, 0), of(plan.ActionRestore, ordinal)}
	}
	for _, tc := range []struct {
		name   string
		change func(p *plan.Plan)
		want   string // Empty for a legal plan.
	}{
		{"a copy is recovered", func(p *plan.Plan) { p.Steps = []plan.Step{recoverOf(1)} }, ""},
		{"the first is", func(p *plan.Plan) { p.Steps = []plan.Step{recoverOf(0)} }, "steps[0].ordinal"},
		{"none is there", func(p *plan.Plan) { p.Steps = []plan.Step{recoverOf(9)} }, "steps[0].ordinal"},
		{"whose is not told", func(p *plan.Plan) {
			p.Steps = []plan.Step{recoverOf(1)}
			p.Steps[0].Ordinal = nil
		}, "steps[0].ordinal"},
		{"no instance has another's data", func(p *plan.Plan) {
			p.Steps, p.Workload.Replicated = []plan.Step{recoverOf(1)}, false
		}, "steps[0].do"},
		{"a copy is restored", func(p *plan.Plan) { p.Steps = backedUp(1) }, ""},
		{"the first is restored", func(p *plan.Plan) { p.Steps = backedUp(0) }, ""},
		{"nobody is restored", func(p *plan.Plan) { p.Steps = backedUp(9) }, "steps[1].ordinal"},
		{"there is no backup", func(p *plan.Plan) { p.Steps = backedUp(1)[1:] }, "steps[0].do"},
		{"the backup comes too late", func(p *plan.Plan) {
			p.Steps = []plan.Step{backedUp(1)[1], backedUp(1)[0]}
		}, "steps[0].do"},
		{"a backup of an instance without a copy", func(p *plan.Plan) {
			p.Steps, p.Workload.Replicated = backedUp(1)[:1], false
		}, "steps[0].do"},
		{"there is no copy", func(p *plan.Plan) { p.Workload.Replicas = 1 }, "workload.replicated"},
		{"there are no data", func(p *plan.Plan) {
			p.Workload.Name, p.Workload.Light = plan.LightName, true
		}, "workload.replicated"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := legal()
			p.Workload.Replicated = true
			p.Steps = []plan.Step{{Do: plan.ActionLoad, Commits: 1, Bound: plan.Duration(time.Minute)}}
			tc.change(&p)
			numbered(p.Steps, 1)
			err := p.Validate(caps())
			switch {
			case tc.want == "" && err != nil:
				t.Error(err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%v, want an error of %s", err, tc.want)
			}
		})
	}
}
