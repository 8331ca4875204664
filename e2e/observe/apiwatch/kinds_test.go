package apiwatch

import (
	"slices"
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
)

// TestWhatIsWatchedCanBeAwaited holds that a plan can wait for the objects that are watched, and for no others.
func TestWhatIsWatchedCanBeAwaited(t *testing.T) {
	var watched, known []string
	for _, r := range resources("trial") {
		watched = append(watched, r.Resource)
	}
	for _, kind := range plan.Kinds() {
		r, ok := plan.Resource(kind)
		if !ok {
			t.Errorf("%s is no resource", kind)
		}
		known = append(known, r)
	}
	slices.Sort(watched)
	slices.Sort(known)
	if !slices.Equal(watched, known) {
		t.Errorf("watched are %v, and plans know %v", watched, known)
	}
}
