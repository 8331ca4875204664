package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/seatrial/seatrial/e2e/world"
)

// claimAt returns a claim as it was at a resourceVersion, nil where none was seen, or it was gone.
func (j *setJudge) claimAt(key string, version uint64) *world.Claim {
	if c := j.objects.Claims.AtVersion(key, version); c != nil && !c.Deleted() {
		return c
	}
	return nil
}

// volumeAt returns a volume as it was at a resourceVersion; where it was seen only later, as it was first.
func (j *setJudge) volumeAt(name string, version uint64) *world.Volume {
	if v := j.objects.Volumes.AtVersion(name, version); v != nil {
		return v
	}
	if all := j.objects.Volumes.ByKey[name]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// bound reports that a claim is bound to a volume.
func bound(c *world.Claim) bool { return c.Status.Phase == corev1.ClaimBound }

// storage returns the bytes in a list of resources; 0 where there are none.
func storage(list corev1.ResourceList) int64 {
	size := list[corev1.ResourceStorage]
	return size.Value()
}

// owns reports whether a uid is that of an owner of an object.
func owns(uid string, m *metav1.ObjectMeta) bool {
	return slices.ContainsFunc(m.OwnerReferences,
		func(ref metav1.OwnerReference) bool { return string(ref.UID) == uid })
}

// placement is a node that a volume may allow.
type placement struct {
	affinity *corev1.NodeSelector
	node     string
}

// allows reports whether a node can have a volume, by the labels that were last seen of it, or the name that a kubelet
// gives its node. Terms that cannot be read are taken to be met.
func (j *setJudge) allows(v *world.Volume, node string) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	at := placement{v.Spec.NodeAffinity.Required, node}
	fits, known := j.placements[at]
	if !known {
		labels := map[string]string{corev1.LabelHostname: node}
		for _, n := range j.objects.Nodes.ByKey[node] {
			if n.Meta.Labels != nil {
				labels = n.Meta.Labels
			}
		}
		match, err := nodeaffinity.NewLazyErrorNodeSelector(at.affinity).
			Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: labels}})
		fits = err != nil || match
		j.placements[at] = fits
	}
	return fits
}
