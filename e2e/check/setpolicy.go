package check

import (
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetPolicy judges what else a StatefulSet's spec says: which ordinals there are, that the policy Parallel waits for
// nothing, and how many old revisions are kept.
//
// A Parallel set is given the bound for Ready to make a pod that it wants, or to end one that it does not: by then all
// pods were to be Ready, let alone made. No time counts in which the control plane was hurt.
func SetPolicy() Check {
	return Check{
		Name: "set-policy",
		Promise: "Pods are made for the ordinals that the spec names and no others, at once when the policy is " +
			"Parallel, and old revisions are kept up to revisionHistoryLimit.",
		Source: "Kubernetes documentation, StatefulSets, Ordinal index, Pod Management Policies; k8s.io/api " +
			"apps/v1, StatefulSetSpec; kubernetes/kubernetes issue 140858",
		Judge: judgeSetPolicy,
	}
}

func judgeSetPolicy(h *world.World) Result {
	return judgeSets(
		h,
		"pods made and revisions kept",
		SetPolicy().Promise,
		[]string{world.PodsObserver, world.SetsObserver},
		func(j *setJudge, set *setLife) {
			j.walk(set, func(p *podState, _ map[int]*podState) {
				if p.made() {
					j.inRange(set, p)
				}
			})
			j.prompt(set)
			j.revisions(set)
		},
	)
}

// inRange holds that a new pod has one of the ordinals that are wanted.
func (j *setJudge) inRange(set *setLife, p *podState) {
	since := j.since(p.Event.Span)
	states := set.around(p.Version, since)
	if len(states) == 0 || j.watch.blindTo(since, p.Event.Span.NotAfter) {
		return
	}
	j.ruling.evidence++
	if every(states, func(st *world.StatefulSet) bool { return !st.Spec.Demand.Wants(p.pod.ordinal) }) {
		st := states[0]
		j.breach("pod "+p.pod.name, p.Event.Span, fmt.Sprintf("Pod %s was made at %s although its StatefulSet "+
			"wants %d pods "+
			"from ordinal %d on.", p.pod.name, j.clock(p.Event), st.Spec.Demand.Replicas, st.Spec.Demand.Start),
			p.Event.ID, st.Event.ID)
	}
}

// prompt holds, for each time in which a Parallel set's spec was the same, that within the bound every pod that is
// wanted was made, and the end of every other was asked for.
func (j *setJudge) prompt(set *setLife) {
	for i := 0; i < len(set.sets); {
		first := set.sets[i]
		k := i + 1
		for k < len(set.sets) && sameDemand(first, set.sets[k]) {
			k++
		}
		end := min(j.until, j.watch.alive)
		if k < len(set.sets) {
			end = min(end, set.sets[k].Event.Span.NotBefore)
		}
		if first.Spec.Demand.Parallel && !first.Deleting() && !first.Guessed() {
			j.promptIn(set, first, history.Span{NotBefore: first.Event.Span.NotAfter, NotAfter: end})
		}
		i = k
	}
}

func sameDemand(a, b *world.StatefulSet) bool {
	return a.UID() == b.UID() && a.Spec.Demand.Replicas == b.Spec.Demand.Replicas &&
		a.Spec.Demand.Start == b.Spec.Demand.Start && a.Spec.Demand.Parallel == b.Spec.Demand.Parallel &&
		a.Deleting() == b.Deleting() &&
		!b.Guessed()
}

func (j *setJudge) promptIn(set *setLife, st *world.StatefulSet, span history.Span) {
	bound := j.scene.Plan.Bounds.Ready.D()
	if span.Length() < bound || j.controlHurt(span) || j.watch.blindTo(span.NotBefore, span.NotAfter) {
		return
	}
	deadline := span.NotBefore.Add(bound)
	there := map[int]bool{}
	for _, l := range set.order {
		begun := l.first.Event.Span.NotBefore <= deadline
		if begun && (l.end == nil || l.end.Event.Span.NotAfter >= span.NotBefore) {
			there[l.ordinal] = true
		}
		if st.Spec.Demand.Wants(l.ordinal) || !begun || !l.owned || l.first.Version > st.Version {
			continue
		}
		j.ruling.evidence++
		if l.asked == nil || l.asked.Event.Span.NotBefore > deadline {
			j.breach("pod "+l.name, history.Span{NotBefore: span.NotBefore, NotAfter: deadline}, fmt.Sprintf("Pod "+
				"%s, which is not wanted since %s, was not asked to end within %s although the policy is "+
				"Parallel.", l.name,
				j.scene.Clock(span.NotBefore), bound), st.Event.ID, l.first.Event.ID)
		}
	}
	for k := st.Spec.Demand.Start; k-st.Spec.Demand.Start < min(st.Spec.Demand.Replicas, mostOrdinals); k++ {
		j.ruling.evidence++
		if !there[k] {
			j.breach(fmt.Sprintf("pod %s-%d", set.name, k), history.Span{NotBefore: span.NotBefore, NotAfter: deadline},
				fmt.Sprintf("Pod %s-%d, wanted since %s, was not made within %s although the policy is "+
					"Parallel.", set.name, k,
					j.scene.Clock(span.NotBefore), bound), st.Event.ID)
		}
	}
}

// revisions holds, where revisions were watched, that at the end no more old ones are kept than the limit, and that
// none was deleted that a pod still was at.
func (j *setJudge) revisions(set *setLife) {
	all := j.watch.revisions[set.key()]
	if !j.watch.on[world.RevisionsObserver] || len(all) == 0 ||
		j.watch.blind(j.scene.Start, j.until, world.RevisionsObserver) {
		return
	}
	names, kept := []string{}, map[string]*revision{}
	for _, r := range all {
		if j.late(r.Event) {
			break
		}
		j.ruling.evidence++
		if r.Deleted() {
			j.dropped(set, r)
			delete(kept, r.Name())
			continue
		}
		kept[r.Name()] = r
	}
	last := set.sets[len(set.sets)-1]
	bound := j.scene.Plan.Bounds.Settle.D()
	if last.Deleting() || min(j.until, j.watch.alive).Sub(j.watch.lastFact()) < bound {
		return // It may still be about to delete some.
	}
	for _, name := range keys(kept) {
		inUse := name == last.Status.CurrentRevision || name == last.Status.UpdateRevision ||
			slices.ContainsFunc(set.order, func(l *podLife) bool {
				return l.end == nil && l.states[len(l.states)-1].revision == name
			})
		if !inUse {
			names = append(names, name)
		}
	}
	if len(names) > last.Spec.Demand.HistoryLimit && last.Spec.Demand.HistoryLimit >= 0 {
		j.breach(set.String(), last.Event.Span, fmt.Sprintf("%s keeps %d old revisions, and revisionHistoryLimit "+
			"is %d: %v.",
			set, len(names), last.Spec.Demand.HistoryLimit, names), last.Event.ID)
	}
}

// dropped holds that no revision is deleted that a pod is at.
func (j *setJudge) dropped(set *setLife, r *revision) {
	st := set.at(r.Version)
	if st == nil || st.Deleting() || len(r.Event.Object.Raw) == 0 || r.ownerUID != "" && r.ownerUID != st.UID() {
		return // It went with its StatefulSet.
	}
	for _, l := range set.order {
		var at *podState
		for _, p := range l.states {
			if p.Version < r.Version {
				at = p
			}
		}
		if at == nil || at.Deleted() || at.revision != r.Name() || l.first.Event.Span.NotAfter > j.since(r.Event.Span) {
			continue
		}
		j.breach(set.String(), r.Event.Span, fmt.Sprintf("Revision %s was deleted at %s although pod %s was at "+
			"it.", r.Name(),
			j.clock(r.Event), l.name), r.Event.ID, at.Event.ID)
		return
	}
}
