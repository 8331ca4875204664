package check

import (
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetClaims judges the life of the claims that were made from a StatefulSet's templates, and of their volumes.
//
// A claim may go when the policy that was in force at some time since a controller may last have looked says so, or
// when the plan says that somebody deletes it. One that has to go is given the bound for settling, and no less than
// what is left of it after the last fault of the control plane.
func SetClaims() Check {
	return Check{
		Name: "set-claims",
		Promise: "A claim outlives its pod, and is deleted exactly where persistentVolumeClaimRetentionPolicy " +
			"says, never under a pod; its volume then does as its reclaim policy says.",
		Source: "Kubernetes documentation, StatefulSets, PersistentVolumeClaim retention (KEP-1847); Persistent " +
			"Volumes, Storage Object in Use Protection, Reclaiming",
		Judge: judgeSetClaims,
	}
}

type keeping struct {
	*setJudge
	set *setLife
}

func judgeSetClaims(h *world.World) Result {
	return judgeSets(
		h,
		"claims of pods that ended, and claims",
		SetClaims().Promise,
		[]string{
			world.PodsObserver,
			world.SetsObserver,
			world.ClaimsObserver,
			world.VolumesObserver,
		},
		func(j *setJudge, set *setLife) {
			k := &keeping{setJudge: j, set: set}
			for _, key := range keys(j.watch.claims) {
				if ordinal, ok := set.ordinal(key); ok {
					j.ruling.evidence++
					k.claim(key, ordinal)
				}
			}
			k.survive()
			k.leave()
		},
	)
}

// claim judges the states of one name.
func (k *keeping) claim(key string, ordinal int) {
	var old *claimState
	for _, c := range k.watch.claims[key] {
		if k.late(c.Event) {
			break
		}
		same := old != nil && old.UID() == c.UID()
		if same && old.Deleted() {
			k.ruling.unknown("claim %s was seen again at %s, after its end", c.Name(), k.clock(c.Event))
		}
		if old != nil && !same && !old.Deleted() {
			k.ruling.unknown(
				"claim %s (uid %s) was never seen to end, and at %s another was there",
				c.Name(),
				old.UID(),
				k.clock(c.Event),
			)
		}
		if !same && c.Event.Object.Verb != history.VerbAdded && c.Event.Object.Verb != history.VerbListed {
			k.ruling.unknown("claim %s was there when it was first seen, at %s: its creation was missed", c.Name(),
				k.clock(c.Event))
		}
		if c.Guessed() {
			k.ruling.unknown("claim %s ended while the API watch was blind", c.Name())
		}
		if c.Deleting() && !c.Guessed() && (!same || !old.Deleting()) {
			k.mayGo(c, ordinal)
		}
		if c.Deleted() && !c.Guessed() && (!same || !old.Deleted()) {
			k.inUse(c, ordinal)
			k.reclaimed(c)
		}
		old = c
	}
}

// mayGo holds that a claim is deleted only where the policy says so.
func (k *keeping) mayGo(c *claimState, ordinal int) {
	if k.during("claim", c.Event.Span) || k.during("pvc", c.Event.Span) {
		return // Somebody does, as planned.
	}
	since := k.since(c.Event.Span)
	states := k.set.around(c.Version, since)
	allowed := func(st *world.StatefulSet) bool {
		return st.Deleting() && st.Spec.Demand.DeleteDeleted ||
			!st.Spec.Demand.Wants(ordinal) && st.Spec.Demand.DeleteScaled
	}
	if len(states) == 0 || k.watch.blindTo(since, c.Event.Span.NotAfter) {
		k.ruling.unknown("by which policy claim %s was deleted at %s is not known", c.Name(), k.clock(c.Event))
		return
	}
	if slices.ContainsFunc(states, allowed) || k.ownerGone(c) {
		return
	}
	st := states[0]
	why := fmt.Sprintf(
		"its pod's ordinal is wanted (%d replicas from %d on)",
		st.Spec.Demand.Replicas,
		st.Spec.Demand.Start,
	)
	switch {
	case st.Deleting():
		why = "whenDeleted is Retain"
	case !st.Spec.Demand.Wants(ordinal):
		why = "whenScaled is Retain"
	}
	k.breach("claim "+c.Name(), c.Event.Span, fmt.Sprintf("Claim %s was deleted at %s although %s.", c.Name(),
		k.clock(c.Event), why), c.Event.ID, st.Event.ID)
}

// ownerGone reports that what owned the claim had been deleted when the policy said that the claim goes with it: then
// the garbage collector takes the claim, and that may be late.
func (k *keeping) ownerGone(c *claimState) bool {
	for _, st := range k.set.sets {
		if st.Deleted() && st.Spec.Demand.DeleteDeleted && st.Version < c.Version &&
			slices.Contains(c.owners, st.UID()) {
			return true
		}
	}
	for _, l := range k.set.order {
		if l.end == nil || l.end.Version > c.Version || !slices.Contains(c.owners, l.uid) {
			continue
		}
		if st := k.set.at(l.end.Version); st != nil && st.Spec.Demand.DeleteScaled {
			return true
		}
	}
	return false
}

// inUse holds that no claim ends while a pod that uses it is on a node (pvc-protection).
func (k *keeping) inUse(c *claimState, ordinal int) {
	for _, l := range k.set.order {
		if l.ordinal != ordinal || !slices.ContainsFunc(l.claims,
			func(p world.ClaimUse) bool { return p.Claim == c.Name() }) {
			continue
		}
		var at *podState
		for _, p := range l.states {
			if p.Version < c.Version {
				at = p
			}
		}
		if at == nil || at.Deleted() || at.Status.Over || at.Spec.NodeName == "" ||
			at.Event.Span.NotAfter > k.since(c.Event.Span) {
			continue
		}
		k.breach("claim "+c.Name(), c.Event.Span, fmt.Sprintf("Claim %s was gone at %s although pod %s (uid %s) "+
			"used it on node %s.", c.Name(), k.clock(c.Event), l.name, l.uid, at.Spec.NodeName), c.Event.ID,
			at.Event.ID)
		return
	}
}

// reclaimed holds that the volume of a claim that is gone does as its policy says: Retain keeps it, and for nobody
// else; Delete deletes it within the bound.
func (k *keeping) reclaimed(c *claimState) {
	all := k.watch.volumes[c.Spec.VolumeName]
	if c.Spec.VolumeName == "" || len(all) == 0 {
		return
	}
	policy := k.watch.volumeAt(c.Spec.VolumeName, c.Version)
	if policy.Deleted() || policy.claimUID != "" && policy.claimUID != c.UID() {
		return
	}
	k.ruling.evidence++
	bound := k.scene.Plan.Bounds.Settle.D()
	var end *volumeState
	for _, v := range all {
		if v.Version <= c.Version || k.late(v.Event) {
			continue
		}
		if !policy.reclaimDelete && v.claimUID != "" && v.claimUID != c.UID() && v.UID() == policy.UID() &&
			!v.Deleted() &&
			!k.during("volume", v.Event.Span) &&
			v.Event.Span.NotBefore.Sub(c.Event.Span.NotAfter) < bound {
			k.ruling.unknown("volume %s, to be retained, was given to another claim at %s; somebody may have "+
				"cleaned it",
				c.Spec.VolumeName, k.clock(v.Event))
		}
		if v.Deleted() && v.UID() == policy.UID() && end == nil {
			end = v
		}
	}
	until := c.Event.Span.NotAfter.Add(bound)
	switch {
	case policy.reclaimDelete && end == nil && min(k.until, k.watch.alive) > until &&
		!k.controlHurt(history.Between(c.Event.Span.NotBefore, until)):
		k.breach(
			"volume "+c.Spec.VolumeName,
			history.Between(c.Event.Span.NotAfter, until),
			fmt.Sprintf("Volume %s was "+
				"still there "+
				"%s after its claim %s was gone, at %s, although its reclaim policy is Delete.", c.Spec.VolumeName,
				bound, c.Name(),
				k.clock(c.Event)),
			c.Event.ID,
			policy.Event.ID,
		)
	case !policy.reclaimDelete && end != nil && !end.Guessed() && !k.during("volume", end.Event.Span):
		k.ruling.unknown("volume %s, to be retained, was deleted at %s after its claim %s was: nobody said by whom",
			c.Spec.VolumeName, k.clock(end.Event), c.Name())
	}
}

// survive counts the pods that ended whose claims did not: that is what was shown.
func (k *keeping) survive() {
	for _, l := range k.set.order {
		for _, c := range l.claims {
			if len(k.watch.claims[k.set.namespace+"/"+c.Claim]) == 0 {
				k.ruling.unknown("claim %s of pod %s was never seen", c.Claim, l.name)
			}
		}
		if l.end == nil || l.end.Guessed() || k.late(l.end.Event) {
			continue
		}
		for _, c := range l.claims {
			if k.watch.claimAt(l.end.Event.Object.Namespace+"/"+c.Claim, l.end.Version) != nil {
				k.ruling.evidence++
			}
		}
	}
}

// leave holds that the claims of ordinals that were scaled away, or of a StatefulSet that was deleted, go where the
// policy says so.
func (k *keeping) leave() {
	bound := k.scene.Plan.Bounds.Settle.D()
	end := min(k.until, k.watch.alive)
	for _, key := range keys(k.watch.claims) {
		ordinal, ok := k.set.ordinal(key)
		states := k.watch.claims[key]
		last := states[len(states)-1]
		if !ok || last.Deleting() || last.Guessed() || k.late(last.Event) || len(k.set.sets) == 0 {
			continue
		}
		from := max(k.unwanted(ordinal), last.Event.Span.NotAfter)
		if from == world.Forever || end.Sub(from) < bound || k.controlHurt(history.Between(from, end)) ||
			k.watch.blind(from, end, world.PodsObserver, world.SetsObserver, world.ClaimsObserver) {
			continue
		}
		st := k.set.sets[len(k.set.sets)-1]
		k.breach("claim "+last.Name(), history.Between(from, end), fmt.Sprintf("Claim %s was still there at %s, %s "+
			"after its ordinal was unwanted and its pod gone, although the policy is to delete "+
			"it.", last.Name(), k.scene.Clock(end),
			end.Sub(from)), last.Event.ID, st.Event.ID)
	}
}

// unwanted returns since when an ordinal is to have no claim and its last pod is gone, to the end; forever if that is
// not so. A claim that no controller has yet been told to delete, since its pod was gone before the policy was, is
// none.
func (k *keeping) unwanted(ordinal int) history.Time {
	since := world.Forever
	for _, st := range slices.Backward(k.set.sets) {
		goes := st.Deleting() && st.Spec.Demand.DeleteDeleted ||
			!st.Deleting() && !st.Spec.Demand.Wants(ordinal) && st.Spec.Demand.DeleteScaled
		if !goes || st.Guessed() {
			break
		}
		since = st.Event.Span.NotAfter
	}
	if since == world.Forever {
		return world.Forever
	}
	ended := false
	for _, l := range k.set.order {
		if l.ordinal != ordinal {
			continue
		}
		if l.end == nil {
			return world.Forever
		}
		if l.end.Event.Span.NotAfter >= since {
			since, ended = l.end.Event.Span.NotAfter, true
		}
	}
	if !ended {
		return world.Forever
	}
	return since
}
