package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/nightly"
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

// TestLabelFilter selects scenarios and cases in Ginkgo's language, the same for list and nightly.
func TestLabelFilter(t *testing.T) {
	for filter, want := range map[string]struct{ in, out string }{
		"smoke":                        {"smoke", "smoke-disk"},
		"/^smoke/ && !light":           {"smoke-disk", "set-scale-light"},
		"light && !kubelet-kill":       {"set-scale-light", "set-scale-light-kubelet-kill"},
		"light && (kubelet-kill || 0)": {"set-scale-light-kubelet-kill", "set-scale-light"},
		"LIGHT, mysql":                 {"set-scale-light", ""},
		"!mysql":                       {"set-scale-light", "smoke"},
		"kind=mysql,fault=node":        {"smoke", "set-scale-light-node-reboot"},
		"fault=node-reboot":            {"smoke", "node-trouble"},
		"kind=light, fault=kubelet":    {"set-scale-light-kubelet-kill", "set-scale-light"},
	} {
		got := ask(t, "list", "scenarios", "-o", "name", "--label-filter", filter)
		names := strings.Fields(got.stdout)
		if got.code != exitPass || !slices.Contains(names, want.in) || slices.Contains(names, want.out) {
			t.Errorf("%q: %+v, want %s and not %s", filter, got, want.in, want.out)
		}
		for _, name := range strings.Fields(ask(t, "list", "-o", "name", "--label-filter", filter).stdout) {
			if _, isCase := trial.AllParts().Case(name); !isCase && !slices.Contains(names, name) {
				t.Errorf("%q: list without a word has %s", filter, name)
			}
		}
		for _, u := range nightList(t, filter).Units {
			if _, isCase := trial.AllParts().Case(u.Name); !isCase && !slices.Contains(names, u.Name) {
				t.Errorf("%q: nightly selects %s, list does not", filter, u.Name)
			}
		}
	}
}

// TestNothingIsSelected: an empty list says why it is empty.
func TestNothingIsSelected(t *testing.T) {
	for _, args := range [][]string{{"list"}, {"list", "scenarios"}, {"list", "cases"}} {
		got := ask(t, append(args, "--label-filter", "nosuch")...)
		if got.code != exitPass || got.stdout != "" || !strings.Contains(got.stderr, `"nosuch" selects none of the `) {
			t.Errorf("%v: %+v", args, got)
		}
	}
}

// TestLabels holds that labels are lower case, as a filter's words are, and the same for every seed.
func TestLabels(t *testing.T) {
	word := regexp.MustCompile(`^[a-z0-9][a-z0-9.-]*$`)
	for _, c := range trial.AllParts().All() {
		for _, l := range labelsOf(c) {
			if !word.MatchString(l) {
				t.Errorf("label %q of %s", l, c.Name)
			}
		}
		for seed := range uint64(20) {
			if got := nightly.Labels(c, plan.Make(c, seed+1)); !slices.Equal(got, labelsOf(c)) {
				t.Errorf("labels of %s: %v with seed %d, %v with seed 1", c.Name, got, seed+1, labelsOf(c))
			}
		}
	}
}
