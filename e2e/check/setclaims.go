package check

import (
	"fmt"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetClaims judges the life of the claims created from a StatefulSet's templates, and of their volumes.
//
// A claim may be deleted if a retention policy that a controller may have seen says so, or if a step of the plan
// deletes it. A claim that must be deleted has to go within the settle bound; time in which the control plane was hurt
// is not judged.
func SetClaims() Check {
	return ofSets(Check{
		Name: "set-claims",
		When: Continuous,
		Promise: "A claim outlives its pod, and is deleted exactly where persistentVolumeClaimRetentionPolicy " +
			"says, never under a pod; its volume then does as its reclaim policy says.",
		Source: "Kubernetes documentation, StatefulSets, PersistentVolumeClaim retention (KEP-1847); Persistent " +
			"Volumes, Storage Object in Use Protection, Reclaiming",
		Unit: "claims of pods that ended, and claims",
	}, []string{world.PodsObserver, world.SetsObserver, world.ClaimsObserver, world.VolumesObserver}, judgeSetClaims)
}

func judgeSetClaims(j *setJudge) {
	for _, key := range keys(j.objects.Claims.ByKey) {
		if ordinal, ok := j.set.ClaimOrdinal(key); ok {
			j.evidence++
			j.claim(key, ordinal)
		}
	}
	j.survive()
	j.leave()
}

// claim judges all claims of one name; key is their Key.
func (j *setJudge) claim(key string, ordinal int) {
	var old *world.Claim
	for _, c := range j.objects.Claims.ByKey[key] {
		if j.late(c.Event) {
			break
		}
		same := old != nil && old.UID() == c.UID()
		follows(j, "claim", old, c, "")
		if c.Guessed() {
			j.unknown("claim %s ended while the API watch was blind", c.Name())
		}
		if c.Deleting() && !c.Guessed() && (!same || !old.Deleting()) {
			j.deletedByPolicy(c, ordinal)
		}
		if c.Deleted() && !c.Guessed() && (!same || !old.Deleted()) {
			j.inUse(c, ordinal)
			j.reclaimed(c)
		}
		old = c
	}
}

// deletedByPolicy demands that a claim is deleted only if the retention policy says so.
func (j *setJudge) deletedByPolicy(c *world.Claim, ordinal int) {
	pod := fmt.Sprintf("%s-%d", j.set.Name, ordinal)
	if slices.ContainsFunc(j.trial.Plan.AllSteps(), func(st plan.Step) bool {
		hit := slices.ContainsFunc(j.trial.Faults, func(l world.Fault) bool {
			return l.Step == st.N && l.Victim == pod && slices.Contains(l.Takes, plan.PartClaim)
		})
		return (hit || st.Do == plan.ActionDeleteClaim && st.Ordinal != nil && *st.Ordinal == ordinal) &&
			j.trial.Ran(st.N, c.Event.Span)
	}) {
		return // The plan deletes it.
	}
	since := j.viewSince(c.Event.Span)
	states := j.set.Around(c.Version, since)
	if len(states) == 0 || j.blind(since, c.Event.Span.NotAfter) {
		j.unknown("by which policy claim %s was deleted at %s is not known", c.Name(), j.when(c.Event))
		return
	}
	allowed := func(st *world.StatefulSet) bool {
		return st.Deleting() && st.Spec.Demand.DeleteDeleted ||
			!st.Spec.Demand.Wants(ordinal) && st.Spec.Demand.DeleteScaled
	}
	if slices.ContainsFunc(states, allowed) || j.ownerGone(c) {
		return
	}
	st := states[0]
	why := fmt.Sprintf("its pod's ordinal is wanted (%d replicas from %d on)", st.Spec.Demand.Replicas,
		st.Spec.Demand.Start)
	switch {
	case st.Deleting():
		why = "whenDeleted is Retain"
	case !st.Spec.Demand.Wants(ordinal):
		why = "whenScaled is Retain"
	}
	j.breaks("claim "+c.Name(), c.Event.Span, []int64{c.Event.ID, st.Event.ID}, "Claim %s was deleted at %s although "+
		"%s.", c.Name(), j.when(c.Event), why)
}

// ownerGone reports whether the claim's owner had been deleted while the policy said that the claim goes with it; of a
// pod it does only once its ordinal is not wanted. The garbage collector may delete such a claim late.
func (j *setJudge) ownerGone(c *world.Claim) bool {
	for _, st := range j.set.Versions {
		if st.Deleted() && st.Spec.Demand.DeleteDeleted && st.Version < c.Version && owns(st.UID(), c.Meta) {
			return true
		}
	}
	for _, l := range j.set.Pods {
		if l.End == nil || l.End.Version > c.Version || !owns(l.UID, c.Meta) {
			continue
		}
		during := j.set.Around(l.End.Version, l.First.Event.Span.NotBefore)
		if slices.ContainsFunc(during, func(st *world.StatefulSet) bool {
			return st.Spec.Demand.DeleteScaled && !st.Spec.Demand.Wants(l.Ordinal)
		}) {
			return true
		}
		if slices.ContainsFunc(during, func(st *world.StatefulSet) bool { return st.Spec.Demand.DeleteScaled }) &&
			j.blind(l.First.Event.Span.NotBefore, l.End.Event.Span.NotAfter) {
			j.unknown("whether ordinal %d was wanted all the time until claim %s was deleted is not known", l.Ordinal,
				c.Name())
			return true
		}
	}
	return false
}

// inUse demands that no claim ends while a pod that uses it is on a node (pvc-protection).
func (j *setJudge) inUse(c *world.Claim, ordinal int) {
	for _, l := range j.set.ByOrdinal[ordinal] {
		at := l.Before(c.Version)
		if !l.Uses(c.Name()) || at == nil || at.Deleted() || at.Status.Over || at.Spec.NodeName == "" ||
			at.Event.Span.NotAfter > j.viewSince(c.Event.Span) ||
			j.watch.Blind(at.Event.Span.NotAfter, c.Event.Span.NotAfter, world.PodsObserver) {
			continue
		}
		j.breaks("claim "+c.Name(), c.Event.Span, []int64{c.Event.ID, at.Event.ID}, "Claim %s was gone at %s although "+
			"pod %s (uid %s) used it on node %s.", c.Name(), j.when(c.Event), l.Name, l.UID, at.Spec.NodeName)
		return
	}
}

// reclaimed demands that the volume of a claim that is gone follows its reclaim policy: Retain keeps it and gives it to
// no other claim; Delete deletes it within the settle bound.
func (j *setJudge) reclaimed(c *world.Claim) {
	name, bound := c.Spec.VolumeName, j.trial.Plan.Bounds.Settle.D()
	all := j.objects.Volumes.ByKey[name]
	if name == "" || len(all) == 0 {
		return
	}
	policy := j.volumeAt(name, c.Version)
	another := func(v *world.Volume) bool {
		return v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID != "" && string(v.Spec.ClaimRef.UID) != c.UID()
	}
	if policy.Deleted() || another(policy) {
		return
	}
	deletes := policy.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
	touched := func(e *history.Event) bool {
		return slices.ContainsFunc(j.trial.Plan.AllSteps(), func(st plan.Step) bool {
			return st.Do == plan.ActionRecycle &&
				j.trial.Ran(st.N, history.Between(c.Event.Span.NotBefore, e.Span.NotAfter))
		})
	}
	j.evidence++
	var end *world.Volume
	for _, v := range all {
		if v.Version <= c.Version || j.late(v.Event) || v.UID() != policy.UID() {
			continue
		}
		if !deletes && another(v) && !v.Deleted() && !touched(v.Event) &&
			v.Event.Span.NotBefore.Sub(c.Event.Span.NotAfter) < bound {
			j.unknown("volume %s, to be retained, was given to another claim at %s; it may have been cleaned", name,
				j.when(v.Event))
		}
		if v.Deleted() && end == nil {
			end = v
		}
	}
	if !deletes {
		if end != nil && !end.Guessed() && !touched(end.Event) {
			j.unknown("volume %s, to be retained, was deleted at %s after its claim %s was: by whom is not known", name,
				j.when(end.Event), c.Name())
		}
		return
	}
	span := history.Span{NotBefore: c.Event.Span.NotAfter, NotAfter: min(j.until, j.watch.Alive)}
	if end != nil {
		span.NotAfter = min(span.NotAfter, end.Event.Span.NotBefore)
	}
	for _, calm := range j.calm(span) {
		// A provisioner that failed for so long retries at intervals of that length.
		failed := calm.NotBefore.Sub(span.NotBefore)
		if calm.Length() > bound+failed && !j.watch.Blind(calm.NotBefore, calm.NotAfter, world.VolumesObserver) {
			j.breaks("volume "+name, calm, []int64{c.Event.ID, policy.Event.ID}, "Volume %s was still there %s after "+
				"its claim %s was gone, at %s, although its reclaim policy is Delete.", name,
				(bound + failed).Round(time.Second), c.Name(), j.when(c.Event))
			return
		}
	}
}

// calm returns the parts of span in which no fault was active: a volume that is attached to a node that is down, or
// whose driver is, cannot be deleted.
func (j *setJudge) calm(span history.Span) []history.Span {
	hurts := slices.Clone(j.hurts)
	for _, l := range j.trial.Faults {
		if active, ok := l.Active(); ok {
			hurts = append(hurts, active)
		}
	}
	return world.Holes(span, hurts, nil)
}

// survive counts the claims that outlived a pod as evidence.
func (j *setJudge) survive() {
	for _, l := range j.set.Pods {
		for _, c := range l.Claims {
			key := world.Key(l.Namespace, c.Claim)
			if len(j.objects.Claims.ByKey[key]) == 0 {
				j.unknown("claim %s of pod %s was never seen", c.Claim, l.Name)
			}
			if l.End != nil && !l.End.Guessed() && !j.late(l.End.Event) && j.claimAt(key, l.End.Version) != nil {
				j.evidence++
			}
		}
	}
}

// leave demands that the claims of scaled-down ordinals and of a deleted StatefulSet are deleted if the policy says so,
// also when the StatefulSet wants them again later.
func (j *setJudge) leave() {
	bound := j.trial.Plan.Bounds.Settle.D()
	for _, key := range keys(j.objects.Claims.ByKey) {
		ordinal, ok := j.set.ClaimOrdinal(key)
		if !ok {
			continue
		}
		for _, u := range j.unwanted(ordinal) {
			claim := j.claimAt(key, u.version)
			if claim == nil || claim.Deleting() || claim.Guessed() || j.late(claim.Event) {
				continue
			}
			since := min(max(u.from, claim.Event.Span.NotAfter), u.until)
			for _, well := range j.well(history.Between(since, u.until)) {
				if well.Length() < bound || j.watch.Blind(well.NotBefore, well.NotAfter, world.PodsObserver,
					world.SetsObserver, world.ClaimsObserver) {
					continue
				}
				j.breaks("claim "+claim.Name(), well, []int64{claim.Event.ID, u.event}, "Claim %s was still there at "+
					"%s, %s after its ordinal was unwanted and its pod gone, although the policy is to delete it.",
					claim.Name(), j.clock(well.NotAfter), well.Length().Round(100*time.Millisecond))
				break
			}
		}
	}
}

// unwanted is a time in which the policy demands that an ordinal has no claim, and its last pod is gone.
type unwanted struct {
	from, until history.Time
	version     uint64 // The last resourceVersion before the ordinal is wanted again.
	event       int64  // Of the last state of the StatefulSet in it.
}

// unwanted returns these times. One that no pod's end falls into is not among them: no controller deletes such a claim.
func (j *setJudge) unwanted(ordinal int) []unwanted {
	goes := func(st *world.StatefulSet) bool {
		demand := st.Spec.Demand
		return !st.Guessed() && (st.Deleting() && demand.DeleteDeleted && !j.orphans(st) ||
			!st.Deleting() && !demand.Wants(ordinal) && demand.DeleteScaled)
	}
	var all []unwanted
	for i, st := range j.set.Versions {
		if !goes(st) {
			continue
		}
		if i == 0 || !goes(j.set.Versions[i-1]) {
			all = append(all, unwanted{from: st.Event.Span.NotAfter})
		}
		last := &all[len(all)-1]
		last.event, last.version, last.until = st.Event.ID, math.MaxUint64, min(j.until, j.watch.Alive)
		if i+1 < len(j.set.Versions) {
			next := j.set.Versions[i+1]
			last.version, last.until = next.Version-1, next.Event.Span.NotBefore
		}
	}
	var emptied []unwanted
	for _, u := range all {
		if j.emptied(ordinal, &u) {
			emptied = append(emptied, u)
		}
	}
	return emptied
}

// orphans reports whether a StatefulSet is deleted without what belongs to it: then its claims are nobody's.
func (j *setJudge) orphans(st *world.StatefulSet) bool {
	return slices.ContainsFunc(j.set.Versions, func(o *world.StatefulSet) bool {
		return o.UID() == st.UID() && slices.Contains(o.Meta.Finalizers, metav1.FinalizerOrphanDependents)
	})
}

// emptied moves the begin of a time to where the ordinal's last pod is gone, and reports whether one went in it.
func (j *setJudge) emptied(ordinal int, u *unwanted) bool {
	went := false
	for _, l := range j.set.ByOrdinal[ordinal] {
		if l.First != nil && l.First.Version > u.version {
			continue // Of a later time.
		}
		if l.End == nil || l.End.Version > u.version {
			return false
		}
		if l.End.Event.Span.NotAfter >= u.from {
			u.from, went = l.End.Event.Span.NotAfter, true
		}
	}
	return went
}
