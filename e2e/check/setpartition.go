package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetPartition judges the revision at which each pod is created, and that the pod keeps it. The StatefulSet must not
// end a pod below the partition; a partition above the last ordinal protects all pods.
//
// The status names the current and the update revision. The controller acts before it writes the status, and from a
// cache, so every name that it may have known is allowed.
func SetPartition() Check {
	return ofSets(Check{
		Name: "set-partition",
		When: Continuous,
		Promise: "Every pod is made at, and keeps, the revision that the partition gives its ordinal: below it the " +
			"current one, from it on the update revision.",
		Source: "Kubernetes documentation, StatefulSets, Partitioned rolling updates; " +
			"k8s.io/api apps/v1, RollingUpdateStatefulSetStrategy; kubernetes/kubernetes issue 119685",
		Unit:    "revisions of pods",
		Applies: func(p plan.Plan) bool { return p.Workload.Strategy() == plan.StrategyRolling },
	}, []string{world.PodsObserver, world.SetsObserver}, judgeSetPartition)
}

func judgeSetPartition(j *setJudge) {
	below := 0
	j.walk(func(p *world.PodState, now map[int]*world.PodState) {
		if old := now[p.Life.Ordinal]; old != nil && old.Life == p.Life {
			j.keepsRevision(p, old)
		}
		switch {
		case p.Made():
			if j.madeAtRevision(p) {
				below++
			}
		case p.AskedToEnd():
			j.endedBelow(p)
		}
	})
	j.note("%s: %s made below a partition", j.set, plan.Count(below, "pod"))
}

// madeAtRevision demands that a new pod has the revision of its side of the partition, and reports whether the pod is
// certainly below the partition.
func (j *setJudge) madeAtRevision(p *world.PodState) (below bool) {
	since := j.viewSince(p.Event.Span)
	states := j.wanting(p)
	if !every(states, rolling) {
		return false // SetPolicy judges which ordinals are wanted.
	}
	held := func(st *world.StatefulSet) bool { return st.Spec.Demand.Held(p.Life.Ordinal) }
	current, update := j.set.RevisionsFor(p.Version, p.Event.Span, since)
	var allowed []string
	side := "from the partition on"
	if slices.ContainsFunc(states, held) {
		allowed = current
		side = "below the partition"
	}
	if below = every(states, held); !below {
		allowed = append(allowed, update...)
	}
	switch {
	case len(allowed) == 0:
		j.unknown("at which revision pod %s was to be made at %s is not known: the status names none", p.Life.Name,
			j.when(p.Event))
		return below
	case j.blind(since, p.Event.Span.NotAfter.Add(world.CacheLag)):
		return below // sawObjects reports the gap.
	}
	j.evidence++
	if !slices.Contains(allowed, p.Revision) {
		j.blame(p, nil, "Pod %s, %s of %d, was made at %s at revision %q, not %s.", p.Life.Name, side,
			states[0].Spec.Demand.Partition, j.when(p.Event), p.Revision, strings.Join(allowed, " or "))
	}
	return below
}

// keepsRevision demands that a pod keeps its revision and, below the partition, never runs the images of the update
// revision.
func (j *setJudge) keepsRevision(p, old *world.PodState) {
	if p.Guessed() || old.Guessed() {
		return
	}
	if old.Revision != p.Revision {
		side := "its StatefulSet was not known then"
		if st := j.set.At(p.Version); st != nil {
			side = fmt.Sprintf("the partition was %d", st.Spec.Demand.Partition)
			if st.Spec.Demand.Held(p.Life.Ordinal) {
				side = fmt.Sprintf("it is below the partition of %d", st.Spec.Demand.Partition)
			}
		}
		j.blame(p, old, "Pod %s was made at revision %q and was at %q at %s: %s.", p.Life.Name, old.Revision,
			p.Revision, j.when(p.Event), side)
		return
	}
	if old.Images() == p.Images() || old.Images() == "" || p.Images() == "" || !j.held(p) {
		return
	}
	_, update := j.set.RevisionsFor(p.Version, p.Event.Span, j.viewSince(p.Event.Span))
	for _, name := range update {
		if name != p.Revision && j.set.ImagesOf(name) == p.Images() {
			j.blame(p, old, "Pod %s, below the partition and made at revision %q, ran the images of the update "+
				"revision %q from %s on: %s.", p.Life.Name, p.Revision, name, j.when(p.Event), p.Images())
		}
	}
}

// held reports whether a pod is certainly below the partition.
func (j *setJudge) held(p *world.PodState) bool {
	return every(j.acted(p), func(st *world.StatefulSet) bool { return st.Spec.Demand.Held(p.Life.Ordinal) })
}

// endedBelow demands that the StatefulSet does not end a pod below the partition, except to recreate a failed one.
func (j *setJudge) endedBelow(p *world.PodState) {
	states := j.acted(p)
	wanted := every(states, func(st *world.StatefulSet) bool { return keeps(st, p.Life.Ordinal) })
	if !wanted || !j.held(p) || p.Status.Over || p.Status.Disrupted {
		return
	}
	j.evidence++
	if j.byController(p) {
		j.blame(p, nil, "Pod %s, below the partition of %d, was ended by its StatefulSet at %s.", p.Life.Name,
			states[0].Spec.Demand.Partition, j.when(p.Event))
	}
}
