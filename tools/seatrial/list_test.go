package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

// TestEveryFaultIsDescribedWithAnExample holds that all there is to know of a fault is printed, and that the step that
// is printed with it is legal.
func TestEveryFaultIsDescribedWithAnExample(t *testing.T) {
	for _, d := range trial.AllParts().Faults {
		got := ask(t, "describe", "fault", d.Name)
		if got.code != exitPass {
			t.Errorf("%s: %+v", d.Name, got)
			continue
		}
		for _, want := range []string{d.Summary, d.Shown, d.Healed, d.Upstream} {
			if want == "" || !strings.Contains(got.stdout, want) {
				t.Errorf("%s: %q is not in its description:\n%s", d.Name, want, got.stdout)
			}
		}
		for _, need := range d.Needs {
			if !strings.Contains(got.stdout, need) {
				t.Errorf("%s: its description does not say that it needs %s", d.Name, need)
			}
		}
		p := examplePlan(d)
		p.Steps[0] = readExample(t, got.stdout)
		if err := trial.Validate(trial.AllParts(), p); err != nil {
			t.Errorf("%s: the example is not legal: %v", d.Name, err)
		}
		if p.Steps[0].Fault == nil || p.Steps[0].Fault.Name != d.Name {
			t.Errorf("%s: the example is of another fault: %+v", d.Name, p.Steps[0])
		}
	}
}

// readExample reads the step at the end of a description.
func readExample(t *testing.T, description string) plan.Step {
	t.Helper()
	_, text, ok := strings.Cut(description, "\nexample")
	var step plan.Step
	dec := json.NewDecoder(strings.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&step); !ok || err != nil {
		t.Errorf("there is no example that can be read: %v\n%s", err, description)
	}
	return step
}

// TestEveryFaultSaysWhatItTakes holds that no fault leaves it open what it has in its hands, but those that are over in
// a moment and leave everything to others.
func TestEveryFaultSaysWhatItTakes(t *testing.T) {
	momentary := []string{"csi-point", "pod-delete", "pod-force-delete"}
	for _, d := range trial.AllParts().Faults {
		if len(d.Takes) == 0 && !slices.Contains(momentary, d.Name) {
			t.Errorf("%s does not say what it takes (Definition.Takes)", d.Name)
		}
		for _, p := range d.Takes {
			if !slices.Contains(plan.Parts(), p) {
				t.Errorf("%s takes %q, which is no part", d.Name, p)
			}
		}
	}
}
