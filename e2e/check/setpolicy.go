package check

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetPolicy judges the ordinals of the pods, that a Parallel StatefulSet waits for no pod, and how many old revisions
// are kept.
//
// A Parallel set has the Ready bound to create a pod that it wants or to end one that it does not: by then all pods
// must be Ready, not only created. Time in which the control plane was hurt is not judged; after it, the settle bound
// counts if it is longer. Nor is it judged whether a pod is missing from when a fault limits the namespace.
func SetPolicy() Check {
	return ofSets(Check{
		Name: "set-policy",
		When: Continuous,
		Promise: "Pods are made for the ordinals that the spec names and no others, at once when the policy is " +
			"Parallel, and old revisions are kept up to revisionHistoryLimit.",
		Source: "Kubernetes documentation, StatefulSets, Ordinal index, Pod Management Policies; k8s.io/api " +
			"apps/v1, StatefulSetSpec; kubernetes/kubernetes issue 140858",
		Unit: "pods made and revisions kept",
	}, []string{world.PodsObserver, world.SetsObserver}, judgeSetPolicy)
}

// withoutRevisions is the promise where revisions were not watched.
const withoutRevisions = "Pods are made for the ordinals that the spec names and no others, at once when the policy " +
	"is Parallel."

func judgeSetPolicy(j *setJudge) {
	j.walk(func(p *world.PodState, _ map[int]*world.PodState) {
		if p.Made() {
			j.inRange(p)
		}
	})
	j.prompt()
	j.revisions()
}

// inRange demands that a new pod has a wanted ordinal.
func (j *setJudge) inRange(p *world.PodState) {
	states := j.acted(p)
	if len(states) == 0 || j.blind(j.viewSince(p.Event.Span), p.Event.Span.NotAfter) {
		return
	}
	j.evidence++
	if every(states, func(st *world.StatefulSet) bool { return !st.Spec.Demand.Wants(p.Life.Ordinal) }) {
		st := states[0]
		j.breaks("pod "+p.Life.Name, p.Event.Span, []int64{p.Event.ID, st.Event.ID}, "Pod %s was made at %s although "+
			"its StatefulSet wants %s from ordinal %d on.", p.Life.Name, j.when(p.Event),
			plan.Count(st.Spec.Demand.Replicas, "pod"), st.Spec.Demand.Start)
	}
}

// prompt demands, for each span in which a Parallel set's spec did not change, that within the bound every wanted pod
// was created and every other was asked to end.
func (j *setJudge) prompt() {
	for i := 0; i < len(j.set.Versions); {
		first := j.set.Versions[i]
		k := i + 1
		for k < len(j.set.Versions) && sameDemand(first, j.set.Versions[k]) {
			k++
		}
		end := min(j.until, j.watch.Alive)
		if k < len(j.set.Versions) {
			end = min(end, j.set.Versions[k].Event.Span.NotBefore)
		}
		if first.Spec.Demand.Parallel && !first.Deleting() && !first.Guessed() {
			j.promptIn(first, history.Span{NotBefore: first.Event.Span.NotAfter, NotAfter: end})
		}
		i = k
	}
}

func sameDemand(a, b *world.StatefulSet) bool {
	return a.UID() == b.UID() && a.Spec.Demand.Replicas == b.Spec.Demand.Replicas &&
		a.Spec.Demand.Start == b.Spec.Demand.Start && a.Spec.Demand.Parallel == b.Spec.Demand.Parallel &&
		a.Deleting() == b.Deleting() && !b.Guessed()
}

func (j *setJudge) promptIn(st *world.StatefulSet, span history.Span) {
	for _, well := range j.well(span) {
		bound := j.trial.Plan.Bounds.Ready.D()
		if well.NotBefore > span.NotBefore {
			bound = max(bound, j.trial.Plan.Bounds.Settle.D())
		}
		if well.Length() >= bound && !j.blind(well.NotBefore, well.NotAfter) {
			j.promptWithin(st, well, bound)
		}
	}
}

func (j *setJudge) promptWithin(st *world.StatefulSet, well history.Span, bound time.Duration) {
	from, wanted := j.clock(well.NotBefore), &st.Spec.Demand
	within := history.Between(well.NotBefore, well.NotBefore.Add(bound))
	lives := map[int][]history.Span{}
	for _, l := range j.set.Pods {
		life := history.Span{NotBefore: l.First.Event.Span.NotBefore, NotAfter: world.Forever}
		if l.End != nil {
			life.NotAfter = l.End.Event.Span.NotAfter
		}
		lives[l.Ordinal] = append(lives[l.Ordinal], life)
		if wanted.Wants(l.Ordinal) || life.NotBefore > within.NotAfter || !l.Owned || l.First.Version > st.Version {
			continue
		}
		j.evidence++
		if l.Asked == nil || l.Asked.Event.Span.NotBefore > within.NotAfter {
			j.breaks("pod "+l.Name, within, []int64{st.Event.ID, l.First.Event.ID}, "Pod %s, which is not wanted "+
				"since %s, was not asked to end within %s although the policy is Parallel.", l.Name, from, bound)
		}
	}
	for k := range wanted.Ordinals() {
		j.evidence++
		for _, hole := range world.Holes(well, lives[k], nil) {
			hole.NotAfter = min(hole.NotAfter, j.limited(hole))
			if hole.Length() < bound {
				continue
			}
			missing, not := "wanted since "+from, "made"
			if hole.NotBefore > well.NotBefore {
				missing, not = "gone since "+j.clock(hole.NotBefore), "made again"
			}
			name := fmt.Sprintf("%s-%d", j.set.Name, k)
			j.breaks("pod "+name, history.Between(hole.NotBefore, hole.NotBefore.Add(bound)), []int64{st.Event.ID},
				"Pod %s, %s, was not %s within %s although the policy is Parallel.", name, missing, not, bound)
		}
	}
}

// limited returns since when a fault limited the namespace at some time in span, Forever if none did. It counts to the
// end of span: the controller retries what was refused at ever longer intervals.
func (j *setJudge) limited(span history.Span) history.Time {
	since := world.Forever
	for _, l := range j.trial.Faults {
		active, ok := l.Active()
		if ok && active.PossiblyOverlaps(span) && slices.Contains(l.Takes, plan.PartQuota) {
			since = min(since, active.NotBefore)
		}
	}
	return since
}

// revisions demands, if revisions were watched, that no more old ones than the limit are kept for longer than the
// settle bound, and that none was deleted while a pod was at it.
func (j *setJudge) revisions() {
	all := j.set.Revisions
	if !j.watch.On(world.RevisionsObserver) {
		j.Promise = withoutRevisions
		return
	}
	changes := map[uint64]*history.Event{} // Of the StatefulSet and of its revisions, by resourceVersion.
	for _, r := range all {
		if j.late(r.Event) {
			break
		}
		j.evidence++
		changes[r.Version] = r.Event
		if r.Deleted() {
			j.dropped(r)
		}
	}
	for _, st := range j.set.Versions {
		changes[st.Version] = st.Event
	}
	versions, from := slices.Sorted(maps.Keys(changes)), history.Time(0)
	for i, version := range versions {
		var old []string
		st, until := j.set.At(version), min(j.until, j.watch.Alive)
		if st != nil && !st.Deleting() && len(all) > st.Spec.Demand.HistoryLimit {
			old = j.old(version)
		}
		if st == nil || st.Spec.Demand.HistoryLimit < 0 || len(old) <= st.Spec.Demand.HistoryLimit {
			from = 0
			continue
		}
		if from == 0 {
			from = changes[version].Span.NotAfter
		}
		if i+1 < len(versions) {
			until = min(until, changes[versions[i+1]].Span.NotBefore)
		}
		unseen := slices.Concat(j.hurts, j.watch.Gaps[world.RevisionsObserver])
		for _, well := range world.Holes(history.Span{NotBefore: from, NotAfter: until}, unseen, nil) {
			if well.Length() > j.trial.Plan.Bounds.Settle.D() && !j.blind(well.NotBefore, well.NotAfter) {
				j.breaks(j.set.String(), st.Event.Span, []int64{st.Event.ID}, "%s keeps %d old revisions, and "+
					"revisionHistoryLimit is %d: %v.", j.set, len(old), st.Spec.Demand.HistoryLimit, old)
				return
			}
		}
	}
}

// old returns the revisions there are at a resourceVersion that neither the status nor a pod names.
func (j *setJudge) old(version uint64) []string {
	kept := map[string]bool{}
	for _, r := range j.set.Revisions {
		if r.Version <= version {
			kept[r.Name()] = !r.Deleted()
		}
	}
	if st := j.set.At(version); st != nil {
		kept[st.Status.CurrentRevision], kept[st.Status.UpdateRevision] = false, false
	}
	for _, l := range j.set.Pods {
		if at := l.Before(version + 1); at != nil && !at.Deleted() {
			kept[at.Revision] = false
		}
	}
	maps.DeleteFunc(kept, func(_ string, is bool) bool { return !is })
	return keys(kept)
}

// dropped demands that no pod was at a revision when that was deleted.
func (j *setJudge) dropped(r *world.Revision) {
	st := j.set.At(r.Version)
	if st == nil || st.Deleting() || len(r.Event.Object.Raw) == 0 || len(r.Meta.OwnerReferences) > 0 &&
		!owns(st.UID(), r.Meta) {
		return // It went with its StatefulSet.
	}
	for _, l := range j.set.Pods {
		at := l.Before(r.Version)
		if at == nil || at.Deleted() || at.Revision != r.Name() ||
			l.First.Event.Span.NotAfter > j.viewSince(r.Event.Span) ||
			j.blind(at.Event.Span.NotAfter, r.Event.Span.NotAfter) {
			continue
		}
		j.breaks(j.set.String(), r.Event.Span, []int64{r.Event.ID, at.Event.ID}, "Revision %s was deleted at %s "+
			"although pod %s was at it.", r.Name(), j.when(r.Event), l.Name)
		return
	}
}
