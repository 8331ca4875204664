package mesh

import (
	"slices"
	"strings"
	"testing"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/seatrial/seatrial/chaos/mark"
)

// TestHealsKnowTheKindsThatAreLeft holds the kinds that a heal and the residue audit look for against those that are
// left to Chaos Mesh.
func TestHealsKnowTheKindsThatAreLeft(t *testing.T) {
	var kinds []string
	for name, kind := range v1alpha1.AllKinds() {
		obj, ok := kind.SpawnObject().(client.Object)
		if !ok {
			t.Errorf("%s is no object", name)
			continue
		}
		if _, _, can := left(obj); can {
			kinds = append(kinds, strings.ToLower(name))
		}
	}
	slices.Sort(kinds)
	if !slices.Equal(kinds, mark.MeshKinds()) {
		t.Errorf("left to Chaos Mesh are %q, looked for %q", kinds, mark.MeshKinds())
	}
}
