package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetBinding judges how claims whose class has WaitForFirstConsumer are bound to static volumes, such as local ones.
// The scheduler chooses volume and node together and binds the claim before the pod, so a bound claim has a pod that
// wants it, and that pod goes to a node that the volume allows.
//
// The scheduler takes the smallest of the volumes that are free, fit and are allowed on that node
// (k8s.io/component-helpers/storage/volume, FindMatchingVolume). The binding mode is that of the StorageClass or, if
// none was watched, that of the plan: its local volumes wait.
func SetBinding() Check {
	return ofSets(Check{
		Name: "set-binding",
		When: Continuous,
		Promise: "With WaitForFirstConsumer a claim is bound only once a pod wants it, to the smallest free volume " +
			"that fits, on that pod's node.",
		Source: "Kubernetes documentation, Storage Classes, Volume Binding Mode, and Local Volumes (KEP-490); " +
			"Persistent Volumes, Binding",
		Unit:    "claims bound",
		Applies: planned(local),
		Lacks:   ofOwn(noLocal),
	}, []string{world.PodsObserver, world.SetsObserver, world.ClaimsObserver, world.VolumesObserver}, judgeSetBinding)
}

func judgeSetBinding(j *setJudge) {
	for _, key := range keys(j.objects.Claims.ByKey) {
		if _, ok := j.set.ClaimOrdinal(key); ok {
			j.bound(key)
		}
	}
}

// bound judges each time that a claim of one name got a volume.
func (j *setJudge) bound(key string) {
	var old *world.Claim
	for _, c := range j.objects.Claims.ByKey[key] {
		if j.late(c.Event) {
			return
		}
		fresh := old == nil || old.UID() != c.UID()
		switch {
		case c.Guessed() || c.Deleted() || c.Spec.VolumeName == "":
		case fresh && c.Event.Object.Verb == history.VerbAdded:
			// It was created with its volume: there was nothing to choose.
		case fresh:
			j.unknown("claim %s was bound when it was first seen, at %s: to what it was bound when is not known",
				c.Name(), j.when(c.Event))
		case old.Spec.VolumeName == "" && j.waits(c):
			j.evidence++
			j.wanted(c)
			j.smallest(c)
		}
		old = c
	}
}

// waits reports whether the class of a claim has WaitForFirstConsumer.
func (j *setJudge) waits(c *world.Claim) bool {
	class := ""
	if c.Spec.StorageClassName != nil {
		class = *c.Spec.StorageClassName
	}
	if o := j.objects.StorageClasses.Latest(class); o != nil && o.Spec.VolumeBindingMode != nil {
		return *o.Spec.VolumeBindingMode == storagev1.VolumeBindingWaitForFirstConsumer
	}
	return local(j.trial.Plan)
}

// wanted demands that a pod that uses the claim existed when the claim was bound.
func (j *setJudge) wanted(c *world.Claim) {
	for _, l := range j.world.Pods().All {
		if !l.Uses(c.Name()) || l.Namespace != c.Event.Object.Namespace {
			continue
		}
		there := l.First.Version <= c.Version && (l.End == nil || l.End.Version >= c.Version || l.End.Guessed())
		if l.Set == nil || l.Set == j.set && there {
			return // A pod of another owner need only have existed at some time.
		}
	}
	if !j.watch.Blind(j.trial.Start, c.Event.Span.NotAfter, world.PodsObserver) {
		j.breaks("claim "+c.Name(), c.Event.Span, []int64{c.Event.ID}, "Claim %s was bound to volume %s at %s "+
			"although no pod wanted it.", c.Name(), c.Spec.VolumeName, j.when(c.Event))
	}
}

// smallest demands that no smaller volume would have fit.
func (j *setJudge) smallest(c *world.Claim) {
	chosen := j.volumeAt(c.Spec.VolumeName, c.Version)
	wanted := storage(c.Spec.Resources.Requests)
	if chosen == nil || c.Spec.Selector != nil || wanted == 0 || storage(chosen.Spec.Capacity) == 0 {
		return
	}
	size := storage(chosen.Spec.Capacity)
	if size < wanted {
		j.breaks("claim "+c.Name(), c.Event.Span, []int64{c.Event.ID, chosen.Event.ID}, "Claim %s, which wants %d "+
			"bytes, was bound at %s to volume %s, which has %d.", c.Name(), wanted, j.when(c.Event), c.Spec.VolumeName,
			size)
		return
	}
	i := slices.IndexFunc(j.set.Pods, func(l *world.PodLife) bool { // The first pod that used the claim then.
		return l.Node != "" && l.Uses(c.Name()) && (l.End == nil || l.End.Version >= c.Version)
	})
	if i < 0 || j.watch.Blind(j.trial.Start, c.Event.Span.NotAfter, world.VolumesObserver) {
		return
	}
	node, since := j.set.Pods[i].Node, j.viewSince(c.Event.Span)
	for _, name := range keys(j.objects.Volumes.ByKey) {
		v := j.objects.Volumes.AtVersion(name, c.Version)
		if v == nil || v.Event.Span.NotAfter > since || v.Deleted() || v.Status.Phase != corev1.VolumeAvailable ||
			v.Spec.ClaimRef != nil || !alike(v.Spec, chosen.Spec) {
			continue
		}
		if own := storage(v.Spec.Capacity); own >= wanted && own < size && j.allows(v, node) {
			j.breaks("claim "+c.Name(), c.Event.Span, []int64{c.Event.ID, chosen.Event.ID, v.Event.ID}, "Claim %s, "+
				"which wants %d bytes, was bound at %s to volume %s with %d, although %s with %d was free on node %s.",
				c.Name(), wanted, j.when(c.Event), c.Spec.VolumeName, size, name, own, node)
			return
		}
	}
}

// alike reports whether v has the class and volume mode of chosen, and all of its access modes.
func alike(v, chosen *corev1.PersistentVolumeSpec) bool {
	mode := func(v *corev1.PersistentVolumeSpec) corev1.PersistentVolumeMode {
		if v.VolumeMode == nil {
			return ""
		}
		return *v.VolumeMode
	}
	return v.StorageClassName == chosen.StorageClassName && mode(v) == mode(chosen) &&
		!slices.ContainsFunc(chosen.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
			return !slices.Contains(v.AccessModes, m)
		})
}
