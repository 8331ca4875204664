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
	return judgeSets(h, "claims of pods that ended, and claims", SetClaims().Promise,
		[]string{world.PodsObserver, world.SetsObserver, world.ClaimsObserver, world.VolumesObserver}, func(j *setJudge, set *setLife) {
			k := &keeping{setJudge: j, set: set}
			for _, key := range keys(j.watch.claims) {
				if ordinal, ok := set.ordinal(key); ok {
					j.ruling.evidence++
					k.claim(key, ordinal)
				}
			}
			k.survive()
			k.leave()
		})
}

// claim judges the states of one name.
func (k *keeping) claim(key string, ordinal int) {
	var old *claimState
	for _, c := range k.watch.claims[key] {
		if k.late(c.event) {
			break
		}
		same := old != nil && old.uid == c.uid
		if same && old.deleted {
			k.ruling.unknown("claim %s was seen again at %s, after its end", c.name(), k.clock(c.event))
		}
		if old != nil && !same && !old.deleted {
			k.ruling.unknown("claim %s (uid %s) was never seen to end, and at %s another was there", c.name(), old.uid,
				k.clock(c.event))
		}
		if !same && c.event.Object.Verb != history.VerbAdded && c.event.Object.Verb != history.VerbListed {
			k.ruling.unknown("claim %s was there when it was first seen, at %s: its creation was missed", c.name(),
				k.clock(c.event))
		}
		if c.guessed {
			k.ruling.unknown("claim %s ended while the API watch was blind", c.name())
		}
		if c.deleting && !c.guessed && (!same || !old.deleting) {
			k.mayGo(c, ordinal)
		}
		if c.deleted && !c.guessed && (!same || !old.deleted) {
			k.inUse(c, ordinal)
			k.reclaimed(c)
		}
		old = c
	}
}

func (c *claimState) name() string { return c.event.Object.Name }

// mayGo holds that a claim is deleted only where the policy says so.
func (k *keeping) mayGo(c *claimState, ordinal int) {
	if k.during("claim", c.event.Span) || k.during("pvc", c.event.Span) {
		return // Somebody does, as planned.
	}
	since := k.since(c.event.Span)
	states := k.set.around(c.version, since)
	allowed := func(st *setState) bool {
		return st.deleting && st.deleteDeleted || !st.wants(ordinal) && st.deleteScaled
	}
	if len(states) == 0 || k.watch.blindTo(since, c.event.Span.NotAfter) {
		k.ruling.unknown("by which policy claim %s was deleted at %s is not known", c.name(), k.clock(c.event))
		return
	}
	if slices.ContainsFunc(states, allowed) || k.ownerGone(c) {
		return
	}
	st := states[0]
	why := fmt.Sprintf("its pod's ordinal is wanted (%d replicas from %d on)", st.replicas, st.start)
	switch {
	case st.deleting:
		why = "whenDeleted is Retain"
	case !st.wants(ordinal):
		why = "whenScaled is Retain"
	}
	k.breach("claim "+c.name(), c.event.Span, fmt.Sprintf("Claim %s was deleted at %s although %s.", c.name(),
		k.clock(c.event), why), c.event.ID, st.event.ID)
}

// ownerGone reports that what owned the claim had been deleted when the policy said that the claim goes with it: then
// the garbage collector takes the claim, and that may be late.
func (k *keeping) ownerGone(c *claimState) bool {
	for _, st := range k.set.sets {
		if st.deleted && st.deleteDeleted && st.version < c.version && slices.Contains(c.owners, st.uid) {
			return true
		}
	}
	for _, l := range k.set.order {
		if l.end == nil || l.end.version > c.version || !slices.Contains(c.owners, l.uid) {
			continue
		}
		if st := k.set.at(l.end.version); st != nil && st.deleteScaled {
			return true
		}
	}
	return false
}

// inUse holds that no claim ends while a pod that uses it is on a node (pvc-protection).
func (k *keeping) inUse(c *claimState, ordinal int) {
	for _, l := range k.set.order {
		if l.ordinal != ordinal || !slices.ContainsFunc(l.claims,
			func(p podClaim) bool { return p.claim == c.name() }) {
			continue
		}
		var at *podState
		for _, p := range l.states {
			if p.version < c.version {
				at = p
			}
		}
		if at == nil || at.deleted || at.over || at.node == "" || at.event.Span.NotAfter > k.since(c.event.Span) {
			continue
		}
		k.breach("claim "+c.name(), c.event.Span, fmt.Sprintf("Claim %s was gone at %s although pod %s (uid %s) "+
			"used it on node %s.", c.name(), k.clock(c.event), l.name, l.uid, at.node), c.event.ID, at.event.ID)
		return
	}
}

// reclaimed holds that the volume of a claim that is gone does as its policy says: Retain keeps it, and for nobody
// else; Delete deletes it within the bound.
func (k *keeping) reclaimed(c *claimState) {
	all := k.watch.volumes[c.volume]
	if c.volume == "" || len(all) == 0 {
		return
	}
	policy := k.watch.volumeAt(c.volume, c.version)
	if policy.deleted || policy.claimUID != "" && policy.claimUID != c.uid {
		return
	}
	k.ruling.evidence++
	bound := k.scene.Plan.Bounds.Settle.D()
	var end *volumeState
	for _, v := range all {
		if v.version <= c.version || k.late(v.event) {
			continue
		}
		if !policy.reclaimDelete && v.claimUID != "" && v.claimUID != c.uid && v.uid == policy.uid && !v.deleted &&
			!k.during("volume", v.event.Span) && v.event.Span.NotBefore.Sub(c.event.Span.NotAfter) < bound {
			k.ruling.unknown("volume %s, to be retained, was given to another claim at %s; somebody may have "+
				"cleaned it",
				c.volume, k.clock(v.event))
		}
		if v.deleted && v.uid == policy.uid && end == nil {
			end = v
		}
	}
	until := c.event.Span.NotAfter.Add(bound)
	switch {
	case policy.reclaimDelete && end == nil && min(k.until, k.watch.alive) > until &&
		!k.controlHurt(history.Between(c.event.Span.NotBefore, until)):
		k.breach("volume "+c.volume, history.Between(c.event.Span.NotAfter, until), fmt.Sprintf("Volume %s was "+
			"still there "+
			"%s after its claim %s was gone, at %s, although its reclaim policy is Delete.", c.volume, bound, c.name(),
			k.clock(c.event)), c.event.ID, policy.event.ID)
	case !policy.reclaimDelete && end != nil && !end.guessed && !k.during("volume", end.event.Span):
		k.ruling.unknown("volume %s, to be retained, was deleted at %s after its claim %s was: nobody said by whom",
			c.volume, k.clock(end.event), c.name())
	}
}

// survive counts the pods that ended whose claims did not: that is what was shown.
func (k *keeping) survive() {
	for _, l := range k.set.order {
		for _, c := range l.claims {
			if len(k.watch.claims[k.set.namespace+"/"+c.claim]) == 0 {
				k.ruling.unknown("claim %s of pod %s was never seen", c.claim, l.name)
			}
		}
		if l.end == nil || l.end.guessed || k.late(l.end.event) {
			continue
		}
		for _, c := range l.claims {
			if k.watch.claimAt(l.end.event.Object.Namespace+"/"+c.claim, l.end.version) != nil {
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
		if !ok || last.deleting || last.guessed || k.late(last.event) || len(k.set.sets) == 0 {
			continue
		}
		from := max(k.unwanted(ordinal), last.event.Span.NotAfter)
		if from == world.Forever || end.Sub(from) < bound || k.controlHurt(history.Between(from, end)) ||
			k.watch.blind(from, end, world.PodsObserver, world.SetsObserver, world.ClaimsObserver) {
			continue
		}
		st := k.set.sets[len(k.set.sets)-1]
		k.breach("claim "+last.name(), history.Between(from, end), fmt.Sprintf("Claim %s was still there at %s, %s "+
			"after its ordinal was unwanted and its pod gone, although the policy is to delete "+
			"it.", last.name(), k.scene.Clock(end),
			end.Sub(from)), last.event.ID, st.event.ID)
	}
}

// unwanted returns since when an ordinal is to have no claim and its last pod is gone, to the end; forever if that is
// not so. A claim that no controller has yet been told to delete, since its pod was gone before the policy was, is
// none.
func (k *keeping) unwanted(ordinal int) history.Time {
	since := world.Forever
	for _, st := range slices.Backward(k.set.sets) {
		goes := st.deleting && st.deleteDeleted || !st.deleting && !st.wants(ordinal) && st.deleteScaled
		if !goes || st.guessed {
			break
		}
		since = st.event.Span.NotAfter
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
		if l.end.event.Span.NotAfter >= since {
			since, ended = l.end.event.Span.NotAfter, true
		}
	}
	if !ended {
		return world.Forever
	}
	return since
}
