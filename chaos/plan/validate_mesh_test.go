package plan_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

func TestPausesNotesAndManifests(t *testing.T) {
	minute := plan.Duration(time.Minute)
	for _, tc := range []struct {
		name string
		step plan.Step
		want string
	}{
		{"a pause", plan.Step{Do: plan.ActionPause, Lasting: plan.Duration(time.Second), Note: "from Workflow/w"}, ""},
		{"no pause", plan.Step{Do: plan.ActionPause}, `steps[0].lasting: is missing in a "pause" step`},
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
