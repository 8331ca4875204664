package check

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
)

// claimState is a PersistentVolumeClaim at one resourceVersion.
type claimState struct {
	*world.Claim
	class  string
	size   int64 // Bytes asked for; 0 if not known.
	owners []string
}

func (c *claimState) bound() bool { return c.Status.Phase == corev1.ClaimBound }

// volumeState is a PersistentVolume at one resourceVersion.
type volumeState struct {
	*world.Volume
	claim, claimUID string // Whose it is: namespace/name and uid of a claim.
	size            int64
	reclaimDelete   bool
	mode            corev1.PersistentVolumeMode
	nodes           *nodeaffinity.LazyErrorNodeSelector // Those that can have it; nil for all.
	fits            map[string]bool                     // Which nodes can, as far as was asked.
}

func (w *setWatch) addClaim(o *world.Claim) {
	c := &claimState{Claim: o, size: storage(o.Spec.Resources.Requests)}
	if o.Spec.StorageClassName != nil {
		c.class = *o.Spec.StorageClassName
	}
	for _, ref := range o.Meta.OwnerReferences {
		c.owners = append(c.owners, string(ref.UID))
	}
	w.claims[o.Key()] = append(w.claims[o.Key()], c)
}

// storage returns the bytes in a list of resources; 0 where there are none.
func storage(list corev1.ResourceList) int64 {
	size := list[corev1.ResourceStorage]
	return size.Value()
}

func (w *setWatch) addVolume(o *world.Volume) {
	v := &volumeState{Volume: o, fits: map[string]bool{}, size: storage(o.Spec.Capacity),
		reclaimDelete: o.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete}
	if a := o.Spec.NodeAffinity; a != nil && a.Required != nil {
		v.nodes = nodeaffinity.NewLazyErrorNodeSelector(a.Required)
	}
	if o.Spec.VolumeMode != nil {
		v.mode = *o.Spec.VolumeMode
	}
	if c := o.Spec.ClaimRef; c != nil {
		v.claim, v.claimUID = c.Namespace+"/"+c.Name, string(c.UID)
	}
	w.volumes[o.Name()] = append(w.volumes[o.Name()], v)
}

// allows reports whether a node of that name and with these labels can have the volume. Terms that cannot be read are
// taken to be met.
func (v *volumeState) allows(node string, labels map[string]string) bool {
	if v.nodes == nil {
		return true
	}
	fits, known := v.fits[node]
	if !known {
		match, err := v.nodes.Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: labels}})
		fits = err != nil || match
		v.fits[node] = fits
	}
	return fits
}

// hasModes reports whether the volume has each of the access modes.
func (v *volumeState) hasModes(modes []corev1.PersistentVolumeAccessMode) bool {
	return !slices.ContainsFunc(modes, func(m corev1.PersistentVolumeAccessMode) bool {
		return !slices.Contains(v.Spec.AccessModes, m)
	})
}

// labelsOf returns the labels of a node, as they were last seen, false when none were.
func (w *setWatch) labelsOf(node string) (map[string]string, bool) {
	for _, n := range slices.Backward(w.nodes[node]) {
		if n.Meta.Labels != nil {
			return n.Meta.Labels, true
		}
	}
	return nil, false
}

// nodeGone returns when a node was deleted and did not come back, nil when that is not so.
func (w *setWatch) nodeGone(node string) *history.Event {
	all := w.nodes[node]
	if len(all) == 0 || !all[len(all)-1].Deleted() {
		return nil
	}
	return all[len(all)-1].Event
}
