package trial

import (
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
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
