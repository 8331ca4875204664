package check

import (
	"fmt"

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
	return Check{
		Name: "set-binding",
		Promise: "With WaitForFirstConsumer a claim is bound only once a pod wants it, to the smallest free volume " +
			"that fits, on that pod's node.",
		Source: "Kubernetes documentation, Storage Classes, Volume Binding Mode, and Local Volumes (KEP-490); " +
			"Persistent Volumes, Binding",
		Applies: bindsLocal,
		Judge:   judgeSetBinding,
	}
}

func judgeSetBinding(h *world.World) Result {
	return judgeSets(
		h,
		"claims bound",
		SetBinding().Promise,
		[]string{
			world.PodsObserver,
			world.SetsObserver,
			world.ClaimsObserver,
			world.VolumesObserver,
		},
		func(j *setJudge, set *setLife) {
			for _, key := range keys(j.watch.claims) {
				if set.has(key) {
					j.bound(set, key)
				}
			}
		},
	)
}

// bound judges each time that a claim of one name got a volume.
func (j *setJudge) bound(set *setLife, key string) {
	var old *claimState
	for _, c := range j.watch.claims[key] {
		if j.late(c.Event) {
			return
		}
		fresh := old == nil || old.UID() != c.UID()
		switch {
		case c.Guessed() || c.Deleted() || c.Spec.VolumeName == "":
		case fresh && c.Event.Object.Verb == history.VerbAdded:
			// Somebody made it with its volume: there was nothing to choose.
		case fresh:
			j.ruling.unknown("claim %s was bound when it was first seen, at %s: to what it was bound when is not known",
				c.Name(), j.clock(c.Event))
		case old.Spec.VolumeName == "" && j.waits(c):
			j.ruling.evidence++
			j.wanted(set, c)
			j.smallest(set, c)
		}
		old = c
	}
}

// waits reports that the class of a claim waits for the first consumer.
func (j *setJudge) waits(c *claimState) bool {
	waits, seen := j.watch.classes[c.class]
	return waits || !seen && setPlanOf(j.world).local
}

// wanted holds that a pod that uses the claim was there when the claim was bound.
func (j *setJudge) wanted(set *setLife, c *claimState) {
	if j.watch.users[c.Event.Object.Namespace+"/"+c.Name()] {
		return // Another pod than one of the StatefulSet's uses it too.
	}
	for _, l := range set.order {
		if l.first.Version > c.Version || l.end != nil && l.end.Version < c.Version && !l.end.Guessed() {
			continue
		}
		for _, use := range l.claims {
			if use.Claim == c.Name() {
				return
			}
		}
	}
	if j.watch.blind(j.scene.Start, c.Event.Span.NotAfter, world.PodsObserver) {
		return
	}
	j.breach("claim "+c.Name(), c.Event.Span, fmt.Sprintf("Claim %s was bound to volume %s at %s although no pod "+
		"wanted it.",
		c.Name(), c.Spec.VolumeName, j.clock(c.Event)), c.Event.ID)
}

// smallest holds that no smaller volume would have done.
func (j *setJudge) smallest(set *setLife, c *claimState) {
	chosen := j.watch.volumeAt(c.Spec.VolumeName, c.Version)
	if chosen == nil || c.Spec.Selector != nil || chosen.size == 0 || c.size == 0 {
		return
	}
	if chosen.size < c.size {
		j.breach("claim "+c.Name(), c.Event.Span, fmt.Sprintf("Claim %s, which wants %d bytes, was bound at %s to "+
			"volume %s, "+
			"which has %d.", c.Name(), c.size, j.clock(c.Event), c.Spec.VolumeName, chosen.size), c.Event.ID,
			chosen.Event.ID)
		return
	}
	node := j.nodeFor(set, c)
	labels, ok := j.watch.labelsOf(node)
	if !ok {
		labels = map[string]string{"kubernetes.io/hostname": node}
	}
	since := j.since(c.Event.Span)
	if node == "" || j.watch.blind(j.scene.Start, c.Event.Span.NotAfter, world.VolumesObserver) {
		return
	}
	for _, name := range keys(j.watch.volumes) {
		v := j.watch.volumeAt(name, c.Version)
		if v.Version > c.Version || v.Event.Span.NotAfter > since || v.Deleted() || v.Status.Phase != "Available" ||
			v.claim != "" ||
			v.Spec.StorageClassName != chosen.Spec.StorageClassName || v.mode != chosen.mode || v.size < c.size ||
			v.size >= chosen.size ||
			!v.hasModes(chosen.Spec.AccessModes) || !v.allows(node, labels) {
			continue
		}
		j.breach("claim "+c.Name(), c.Event.Span, fmt.Sprintf("Claim %s, which wants %d bytes, was bound at %s to "+
			"volume %s with %d, although %s with %d was free on node "+
			"%s.", c.Name(), c.size, j.clock(c.Event), c.Spec.VolumeName, chosen.size,
			name, v.size, node), c.Event.ID, chosen.Event.ID, v.Event.ID)
		return
	}
}

// nodeFor returns the node of the first pod that used the claim after it was bound, empty when none was put anywhere.
func (j *setJudge) nodeFor(set *setLife, c *claimState) string {
	for _, l := range set.order {
		for _, use := range l.claims {
			if use.Claim != c.Name() || l.end != nil && l.end.Version < c.Version {
				continue
			}
			for _, p := range l.states {
				if p.Spec.NodeName != "" {
					return p.Spec.NodeName
				}
			}
		}
	}
	return ""
}
