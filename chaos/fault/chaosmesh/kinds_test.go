package chaosmesh

import (
	"slices"
	"strings"
	"testing"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"

	"github.com/seatrial/seatrial/chaos/undo"
)

// TestHealsKnowTheKindsThatAreLeft holds the kinds that a heal and the residue audit look for against those that are
// left to Chaos Mesh.
func TestHealsKnowTheKindsThatAreLeft(t *testing.T) {
	var kinds []string
	for name, kind := range v1alpha1.AllKinds() {
		if _, _, can := left(kind.SpawnObject()); can {
			kinds = append(kinds, strings.ToLower(name))
		}
	}
	slices.Sort(kinds)
	if !slices.Equal(kinds, undo.MeshKinds()) {
		t.Errorf("left to Chaos Mesh are %q, looked for %q", kinds, undo.MeshKinds())
	}
}
