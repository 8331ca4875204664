package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetBinding judges how claims whose class waits for the first consumer came by their volumes: static ones, as local
// volumes are. The scheduler chooses volume and node together and binds the claim before the pod, so a claim that is
// bound has a pod that wants it, and that pod goes to a node that the volume allows.
//
// Of the volumes that were free, fit, and are allowed on that node, the smallest is taken
// (k8s.io/component-helpers/storage/volume, FindMatchingVolume). Which class waits is the class's own word, or, where
// no class was watched, that of the plan: its local volumes wait.
func SetBinding() Check {
	return ofSets(Check{
		Name: "set-binding",
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
			// It was made with its volume: there was nothing to choose.
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

// waits reports that the class of a claim waits for the first consumer.
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

// wanted holds that a pod that uses the claim was there when the claim was bound.
func (j *setJudge) wanted(c *world.Claim) {
	for _, l := range j.world.Pods().All {
		if !l.Uses(c.Name()) || l.Namespace != c.Event.Object.Namespace {
			continue
		}
		there := l.First.Version <= c.Version && (l.End == nil || l.End.Version >= c.Version || l.End.Guessed())
		if l.Set == nil || l.Set == j.set && there {
			return // Of another's pod than the StatefulSet's, it is enough that it was ever there.
		}
	}
	if !j.watch.Blind(j.trial.Start, c.Event.Span.NotAfter, world.PodsObserver) {
		j.breaks("claim "+c.Name(), c.Event.Span, []int64{c.Event.ID}, "Claim %s was bound to volume %s at %s "+
			"although no pod wanted it.", c.Name(), c.Spec.VolumeName, j.when(c.Event))
	}
}

// smallest holds that no smaller volume would have done.
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
	node, since := j.set.Pods[i].Node, j.known(c.Event.Span)
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

// alike reports that a volume is of the same class and mode as another, and has each of its access modes.
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
