package scenarios

import (
	"slices"
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
)

// TestProfiles: each scenario is there, once, is expected to PASS on a sound cluster, and upgrades nothing; a longer
// profile has what a shorter one has.
func TestProfiles(t *testing.T) {
	known := map[string]plan.Scenario{}
	for _, s := range All() {
		known[s.Name] = s
	}
	var before []string
	for _, p := range Profiles() {
		seen := map[string]bool{}
		for _, name := range p.Scenarios {
			s, ok := known[name]
			if !ok || s.Expect != "PASS" || seen[name] {
				t.Fatalf("profile %s: %s: found %t, expected to %s, twice %t", p.Name, name, ok, s.Expect, seen[name])
			}
			seen[name] = true
			if made := plan.Make(s, 1); len(made.Upgrades()) > 0 {
				t.Errorf("profile %s: %s upgrades the cluster", p.Name, name)
			}
		}
		if !slices.Equal(p.Scenarios[:len(before)], before) {
			t.Errorf("profile %s does not begin with the one before it", p.Name)
		}
		before = p.Scenarios
	}
}
