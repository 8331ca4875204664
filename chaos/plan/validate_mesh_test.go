package plan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

func TestFieldsThatOnlySomeFaultsTake(t *testing.T) {
	grace := func(d time.Duration) *plan.Duration { return new(plan.Duration(d)) }
	takes := plan.FaultCaps{
		Name: "kubelet-kill", Container: true, Grace: true, Manifest: true,
		Check: func(f plan.Fault, w plan.Workload) plan.FieldErrors {
			if f.Container == w.StatefulSet {
				return nil
			}
			return plan.FieldErrors{{Field: "container", Detail: "is not the workload's", Fix: "use another"}}
		},
	}
	for _, tc := range []struct {
		name  string
		caps  plan.FaultCaps
		fault plan.Fault
		want  string // Empty when it is legal.
	}{
		{"all of them", takes, plan.Fault{Container: "mysql", Grace: grace(time.Second), Manifest: []byte("{}")}, ""},
		{"no container", plan.FaultCaps{Name: "kubelet-kill"}, plan.Fault{Container: "mysql"},
			"steps[0].fault.container: fault \"kubelet-kill\" does not take it; leave it out"},
		{"no grace", plan.FaultCaps{Name: "kubelet-kill"}, plan.Fault{Grace: grace(0)}, "steps[0].fault.grace: fault"},
		{"no manifest", plan.FaultCaps{Name: "kubelet-kill"}, plan.Fault{Manifest: []byte("{}")},
			"steps[0].fault.manifest: fault"},
		{"a manifest is missing", takes, plan.Fault{Container: "mysql"}, "steps[0].fault.manifest: is missing"},
		{"a container with a path", takes, plan.Fault{Container: "../mysql", Manifest: []byte("{}")},
			`steps[0].fault.container: "../mysql" is not a name`},
		{"a rule of its own", takes, plan.Fault{Container: "sidecar", Manifest: []byte("{}")},
			"steps[0].fault.container: is not the workload's; use another"},
		{"less than a second", takes, plan.Fault{Container: "mysql", Manifest: []byte("{}"), Grace: grace(1)},
			"steps[0].fault.grace: 1ns is out of range"},
		{"negative", takes, plan.Fault{Container: "mysql", Manifest: []byte("{}"), Grace: grace(-time.Second)},
			"steps[0].fault.grace: -1s is out of range"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := legal()
			tc.fault.Name, tc.fault.Hold = "kubelet-kill", plan.Duration(time.Second)
			p.Steps = []plan.Step{{N: 1, Do: plan.ActionFault, Fault: &tc.fault, Bound: plan.Duration(time.Minute)}}
			c := caps()
			c.Faults = []plan.FaultCaps{tc.caps}
			checkErr(t, p.Validate(c), tc.want)
		})
	}
}

func TestPausesNotesAndManifests(t *testing.T) {
	minute := plan.Duration(time.Minute)
	for _, tc := range []struct {
		name string
		step plan.Step
		want string
	}{
		{"a pause", plan.Step{Do: plan.ActionPause, Lasting: plan.Duration(time.Second), Note: "from Workflow/w"}, ""},
		{"no pause", plan.Step{Do: plan.ActionPause}, "steps[0].lasting: 0s is out of range"},
		{"a long pause", plan.Step{Do: plan.ActionPause, Lasting: minute}, "does not fit into the step's bound"},
		{"a pause that loads", plan.Step{Do: plan.ActionPause, Lasting: 1, Commits: 3}, "steps[0].commits: is set"},
		{"a load that pauses", plan.Step{Do: plan.ActionLoad, Commits: 1, Lasting: 1}, "steps[0].lasting: is set"},
		{"a note of many lines", plan.Step{Do: plan.ActionLoad, Commits: 1, Note: "a\nb"},
			`steps[0].note: "a\nb" cannot be printed`},
		{"a note that moves the cursor", plan.Step{Do: plan.ActionLoad, Commits: 1, Note: "\x1b[2J"},
			`steps[0].note: "\x1b[2J" cannot be printed`},
		{"a long note", plan.Step{Do: plan.ActionLoad, Commits: 1, Note: strings.Repeat("x", 500)},
			"steps[0].note: has 500 bytes"},
		{"a manifest", plan.Step{Do: plan.ActionMesh, Mesh: &plan.Mesh{Manifest: json.RawMessage("{}")}},
			"steps[0].do: the manifest has not been turned into steps"},
		{"no manifest", plan.Step{Do: plan.ActionMesh}, "steps[0].mesh: is missing"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := legal()
			tc.step.N, tc.step.Bound = 1, minute
			p.Steps = []plan.Step{tc.step}
			checkErr(t, p.Validate(caps()), tc.want)
		})
	}
}

func checkErr(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("got %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want %q", err, want)
	}
}
