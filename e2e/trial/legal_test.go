package trial

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// What a report says to type again must not be refused: every scenario and case is legal for the faults there are, with
// what they really take away.
func TestEveryScenarioIsLegal(t *testing.T) {
	t.Parallel()
	parts := AllParts()
	for _, s := range parts.All() {
		for seed := range uint64(20) {
			if err := Validate(parts, plan.Make(s, seed)); err != nil {
				t.Errorf("scenario %q, seed %d: %v", s.Name, seed, err)
				break
			}
		}
	}
}

// TestEveryPlanIsReadBack: a plan that the judges take for illegal makes every verdict UNKNOWN, whatever was shown.
func TestEveryPlanIsReadBack(t *testing.T) {
	t.Parallel()
	for _, s := range AllParts().All() {
		raw, err := json.Marshal(plan.Make(s, 1))
		if err != nil {
			t.Fatal(err)
		}
		h := history.History{Events: []history.Event{{ID: 1, Kind: history.KindPlan, Source: "trial", Plan: raw}}}
		if _, err := world.New(h).Trial(); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
	}
}

// TestEveryFaultMeetsMySQL: a scenario or case with MySQL has each fault, so that no fault is only ever seen with pods
// that do nothing. Those that are left out need what kind clusters or some kernels lack, see docs/limits.md.
func TestEveryFaultMeetsMySQL(t *testing.T) {
	t.Parallel()
	parts := AllParts()
	used := map[string]bool{"clock-step": true, "mesh": true, "network-bandwidth": true, "network-delay": true,
		"node-reset": true}
	for _, c := range parts.All() {
		p := plan.Make(c, 1)
		if p.Workload.Light {
			continue
		}
		text, err := json.Marshal(p.Steps)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parts.Faults {
			if strings.Contains(string(text), `"fault":{"name":"`+d.Name+`"`) {
				used[d.Name] = true
			}
		}
	}
	for _, d := range parts.Faults {
		if !used[d.Name] {
			t.Errorf("fault %q is in no scenario and no case with MySQL", d.Name)
		}
	}
}
