package chaosmesh

import (
	"slices"
	"strings"
	"testing"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/undo/apileaks"
)

// TestHealsKnowTheKindsThatAreLeft checks that heal and leak audit list every kind that Chaos Mesh carries out, and
// that every kind of the table exists in Chaos Mesh.
func TestHealsKnowTheKindsThatAreLeft(t *testing.T) {
	for name, kind := range v1alpha1.AllKinds() {
		_, err := newProbe(kind.SpawnObject(), fault.Env{})
		if err == nil && !slices.Contains(apileaks.MeshKinds(), strings.ToLower(name)) {
			t.Errorf("%s is left to Chaos Mesh, and not among %q", name, apileaks.MeshKinds())
		}
	}
	for _, kind := range kinds() {
		if v1alpha1.AllKindsIncludeScheduleAndWorkflow()[kind] == nil {
			t.Errorf("%s is no kind of Chaos Mesh", kind)
		}
	}
}
