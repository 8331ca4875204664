package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetBinding judges how claims are bound to static volumes, such as local ones. With WaitForFirstConsumer the scheduler
// chooses volume and node together and binds the claim before the pod, so a bound claim has a pod that wants it, and
// that pod goes to a node that the volume allows. With Immediate the PersistentVolume controller binds it, and knows of
// no pod.
//
// Both take the smallest of the volumes that are free and fit, the scheduler of those that are allowed on that node
// (k8s.io/component-helpers/storage/volume, FindMatchingVolume). The binding mode is that of the StorageClass or, if
// none was watched, that of the plan.
func SetBinding() Check {
	return ofSets(Check{
		Name: "set-binding",
		When: Continuous,
		Promise: "A claim is bound to the smallest free volume that fits: with WaitForFirstConsumer only once a pod " +
			"wants it, on that pod's node, and with Immediate on any node; no pod gets a node before.",
		Source: "Kubernetes documentation, Storage Classes, Volume Binding Mode, and Local Volumes (KEP-490); " +
			"Persistent Volumes, Binding",
		Unit:    "claims bound",
		Applies: local,
		Lacks:   ofOwn(noLocal),
	}, []string{world.PodsObserver, world.SetsObserver, world.ClaimsObserver, world.VolumesObserver}, judgeSetBinding)
}

func judgeSetBinding(j *setJudge) {
	for _, key := range keys(j.objects.Claims.ByKey) {
		if _, ok := j.set.ClaimOrdinal(key); ok {
			j.bound(key)
		}
	}
	for _, l := range j.set.Pods {
		j.placed(l)
	}
}

// placed demands that the claims of a pod were bound before it was given a node.
func (j *setJudge) placed(l *world.PodLife) {
	i := slices.IndexFunc(l.States, func(p *world.PodState) bool { return p.Spec.NodeName != "" })
	if i < 1 || j.late(l.States[i].Event) || l.States[i].Guessed() {
		return // It was on a node when it was first seen, or never.
	}
	p := l.States[i]
	for _, use := range l.Claims {
		c := j.claimAt(world.Key(l.Namespace, use.Claim), p.Version)
		if c == nil || c.Guessed() || c.Spec.VolumeName != "" ||
			j.watch.Blind(c.Event.Span.NotAfter, p.Event.Span.NotAfter, world.ClaimsObserver) {
			continue
		}
		j.breaks("pod "+l.Name, p.Event.Span, []int64{p.Event.ID, c.Event.ID}, "Pod %s was given node %s at %s "+
			"although its claim %s was bound to no volume.", l.Name, p.Spec.NodeName, j.when(p.Event), use.Claim)
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
			i := slices.IndexFunc(j.set.Pods, func(l *world.PodLife) bool { // The first pod that used the claim then.
				return l.Node != "" && l.Uses(c.Name()) && (l.End == nil || l.End.Version >= c.Version)
			})
			if i >= 0 {
				j.smallest(c, j.set.Pods[i].Node)
			}
		case old.Spec.VolumeName == "":
			j.evidence++
			j.smallest(c, "")
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
	return j.trial.Plan.Workload.BindingMode() == plan.BindingLate
}

// wanted demands that a pod that uses the claim existed when the claim was bound, or before: the scheduler chooses the
// volume, and another controller binds the claim later.
func (j *setJudge) wanted(c *world.Claim) {
	all := j.objects.Claims.ByKey[c.Key()]
	made := all[slices.IndexFunc(all, func(o *world.Claim) bool { return o.UID() == c.UID() })]
	for _, l := range j.world.Pods().All {
		if !l.Uses(c.Name()) || l.Namespace != c.Event.Object.Namespace {
			continue
		}
		there := l.First.Version <= c.Version && (l.End == nil || l.End.Version >= made.Version || l.End.Guessed())
		if l.Set == nil || l.Set == j.set && there {
			return // A pod of another owner need only have existed at some time.
		}
	}
	if !j.watch.Blind(j.trial.Start, c.Event.Span.NotAfter, world.PodsObserver) {
		j.breaks("claim "+c.Name(), c.Event.Span, []int64{c.Event.ID}, "Claim %s was bound to volume %s at %s "+
			"although no pod wanted it.", c.Name(), c.Spec.VolumeName, j.when(c.Event))
	}
}

// smallest demands that the claim's volume fits, and that no smaller one did that was free on a node, or on any if node
// is "".
func (j *setJudge) smallest(c *world.Claim, node string) {
	chosen := j.volumeAt(c.Spec.VolumeName, c.Version)
	wanted := c.Spec.Resources.Requests.Storage().Value()
	if chosen == nil || c.Spec.Selector != nil || wanted == 0 || chosen.Spec.Capacity.Storage().IsZero() {
		return
	}
	size := chosen.Spec.Capacity.Storage().Value()
	if size < wanted {
		j.breaks("claim "+c.Name(), c.Event.Span, []int64{c.Event.ID, chosen.Event.ID}, "Claim %s, which wants %d "+
			"bytes, was bound at %s to volume %s, which has %d.", c.Name(), wanted, j.when(c.Event), c.Spec.VolumeName,
			size)
		return
	}
	if j.watch.Blind(j.trial.Start, c.Event.Span.NotAfter, world.VolumesObserver) {
		return
	}
	since, on := j.viewSince(c.Event.Span), plan.Given(" on node %s", node)
	for _, name := range keys(j.objects.Volumes.ByKey) {
		v := j.objects.Volumes.AtVersion(name, c.Version)
		if v == nil || v.Event.Span.NotAfter > since || v.Deleted() || v.Status.Phase != corev1.VolumeAvailable ||
			v.Spec.ClaimRef != nil || !alike(v.Spec, chosen.Spec) || j.taken(v, c.Event.Span) {
			continue
		}
		if own := v.Spec.Capacity.Storage().Value(); own >= wanted && own < size && (node == "" || j.allows(v, node)) {
			j.breaks("claim "+c.Name(), c.Event.Span, []int64{c.Event.ID, chosen.Event.ID, v.Event.ID}, "Claim %s, "+
				"which wants %d bytes, was bound at %s to volume %s with %d, although %s with %d was free%s.", c.Name(),
				wanted, j.when(c.Event), c.Spec.VolumeName, size, name, own, on)
			return
		}
	}
}

// taken reports whether a free volume was given to a claim a moment after a time: it may have been chosen before.
func (j *setJudge) taken(v *world.Volume, at history.Span) bool {
	return slices.ContainsFunc(j.objects.Volumes.ByKey[v.Key()], func(o *world.Volume) bool {
		return o.Version > v.Version && o.Spec.ClaimRef != nil &&
			o.Event.Span.NotBefore <= at.NotAfter.Add(world.CacheLag)
	})
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
