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
	return judgeSets(h, "pods made and revisions kept", SetPolicy().Promise, []string{world.PodsObserver, world.SetsObserver},
		func(j *setJudge, set *setLife) {
			j.walk(set, func(p *podState, _ map[int]*podState) {
				if p.made() {
					j.inRange(set, p)
				}
			})
			j.prompt(set)
			j.revisions(set)
		})
}

// inRange holds that a new pod has one of the ordinals that are wanted.
func (j *setJudge) inRange(set *setLife, p *podState) {
	since := j.since(p.event.Span)
	states := set.around(p.version, since)
	if len(states) == 0 || j.watch.blindTo(since, p.event.Span.NotAfter) {
		return
	}
	j.ruling.evidence++
	if every(states, func(st *setState) bool { return !st.wants(p.pod.ordinal) }) {
		st := states[0]
		j.breach("pod "+p.pod.name, p.event.Span, fmt.Sprintf("Pod %s was made at %s although its StatefulSet "+
			"wants %d pods "+
			"from ordinal %d on.", p.pod.name, j.clock(p.event), st.replicas, st.start), p.event.ID, st.event.ID)
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
			end = min(end, set.sets[k].event.Span.NotBefore)
		}
		if first.parallel && !first.deleting && !first.guessed {
			j.promptIn(set, first, history.Span{NotBefore: first.event.Span.NotAfter, NotAfter: end})
		}
		i = k
	}
}

func sameDemand(a, b *setState) bool {
	return a.uid == b.uid && a.replicas == b.replicas && a.start == b.start && a.parallel == b.parallel &&
		a.deleting == b.deleting && !b.guessed
}

func (j *setJudge) promptIn(set *setLife, st *setState, span history.Span) {
	bound := j.scene.Plan.Bounds.Ready.D()
	if span.Length() < bound || j.controlHurt(span) || j.watch.blindTo(span.NotBefore, span.NotAfter) {
		return
	}
	deadline := span.NotBefore.Add(bound)
	there := map[int]bool{}
	for _, l := range set.order {
		begun := l.first.event.Span.NotBefore <= deadline
		if begun && (l.end == nil || l.end.event.Span.NotAfter >= span.NotBefore) {
			there[l.ordinal] = true
		}
		if st.wants(l.ordinal) || !begun || !l.owned || l.first.version > st.version {
			continue
		}
		j.ruling.evidence++
		if l.asked == nil || l.asked.event.Span.NotBefore > deadline {
			j.breach("pod "+l.name, history.Span{NotBefore: span.NotBefore, NotAfter: deadline}, fmt.Sprintf("Pod "+
				"%s, which is not wanted since %s, was not asked to end within %s although the policy is "+
				"Parallel.", l.name,
				j.scene.Clock(span.NotBefore), bound), st.event.ID, l.first.event.ID)
		}
	}
	for k := st.start; k-st.start < min(st.replicas, mostOrdinals); k++ {
		j.ruling.evidence++
		if !there[k] {
			j.breach(fmt.Sprintf("pod %s-%d", set.name, k), history.Span{NotBefore: span.NotBefore, NotAfter: deadline},
				fmt.Sprintf("Pod %s-%d, wanted since %s, was not made within %s although the policy is "+
					"Parallel.", set.name, k,
					j.scene.Clock(span.NotBefore), bound), st.event.ID)
		}
	}
}

// revisions holds, where revisions were watched, that at the end no more old ones are kept than the limit, and that
// none was deleted that a pod still was at.
func (j *setJudge) revisions(set *setLife) {
	all := j.watch.revisions[set.key()]
	if !j.watch.on[world.RevisionsObserver] || len(all) == 0 || j.watch.blind(j.scene.Start, j.until, world.RevisionsObserver) {
		return
	}
	names, kept := []string{}, map[string]*revision{}
	for _, r := range all {
		if j.late(r.event) {
			break
		}
		j.ruling.evidence++
		if r.deleted {
			j.dropped(set, r)
			delete(kept, r.name)
			continue
		}
		kept[r.name] = r
	}
	last := set.sets[len(set.sets)-1]
	bound := j.scene.Plan.Bounds.Settle.D()
	if last.deleting || min(j.until, j.watch.alive).Sub(j.watch.lastFact()) < bound {
		return // It may still be about to delete some.
	}
	for _, name := range keys(kept) {
		inUse := name == last.currentRevision || name == last.updateRevision ||
			slices.ContainsFunc(set.order, func(l *podLife) bool {
				return l.end == nil && l.states[len(l.states)-1].revision == name
			})
		if !inUse {
			names = append(names, name)
		}
	}
	if len(names) > last.historyLimit && last.historyLimit >= 0 {
		j.breach(set.String(), last.event.Span, fmt.Sprintf("%s keeps %d old revisions, and revisionHistoryLimit "+
			"is %d: %v.",
			set, len(names), last.historyLimit, names), last.event.ID)
	}
}

// dropped holds that no revision is deleted that a pod is at.
func (j *setJudge) dropped(set *setLife, r *revision) {
	st := set.at(r.version)
	if st == nil || st.deleting || len(r.event.Object.Raw) == 0 || r.ownerUID != "" && r.ownerUID != st.uid {
		return // It went with its StatefulSet.
	}
	for _, l := range set.order {
		var at *podState
		for _, p := range l.states {
			if p.version < r.version {
				at = p
			}
		}
		if at == nil || at.deleted || at.revision != r.name || l.first.event.Span.NotAfter > j.since(r.event.Span) {
			continue
		}
		j.breach(set.String(), r.event.Span, fmt.Sprintf("Revision %s was deleted at %s although pod %s was at "+
			"it.", r.name,
			j.clock(r.event), l.name), r.event.ID, at.event.ID)
		return
	}
}
