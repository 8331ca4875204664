package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetOnDelete judges a StatefulSet with update strategy OnDelete, whose pods are updated only when something else
// deletes them. The controller's replacement of a failed pod is not an update.
func SetOnDelete() Check {
	return ofSets(Check{
		Name: "set-on-delete",
		When: Continuous,
		Promise: "With OnDelete the StatefulSet replaces no pod by itself, and a pod that was deleted comes back " +
			"at the update revision.",
		Source: "Kubernetes documentation, StatefulSets, Update strategies; k8s.io/api apps/v1, " +
			"OnDeleteStatefulSetStrategyType",
		Unit:    "pods made or ended under OnDelete",
		Applies: func(p plan.Plan) bool { return onDelete(p) && updates(p) > 0 },
	}, []string{world.PodsObserver, world.SetsObserver, world.EventsObserver}, judgeSetOnDelete)
}

func judgeSetOnDelete(j *setJudge) {
	j.walk(func(p *world.PodState, _ map[int]*world.PodState) {
		switch {
		case p.Made():
			j.madeOnDelete(p)
		case p.AskedToEnd():
			j.endedOnDelete(p)
		}
	})
	names := map[string]bool{}
	for _, st := range j.set.Versions {
		names[st.Status.UpdateRevision] = true
	}
	delete(names, "")
	if j.set == j.planned && len(names) < 2 && updates(j.trial.Plan) > 0 {
		j.unknown("%s was never seen to have another update revision than its first: there was nothing to hold back",
			j.set)
	}
}

func (j *setJudge) madeOnDelete(p *world.PodState) {
	since := j.viewSince(p.Event.Span)
	_, names := j.set.RevisionsFor(p.Version, p.Event.Span, since)
	states := j.wanting(p)
	if !every(states, waitsForDelete) || len(names) == 0 ||
		j.blind(since, p.Event.Span.NotAfter.Add(world.CacheLag)) {
		return
	}
	j.evidence++
	if !slices.Contains(names, p.Revision) {
		j.blame(p, nil, "Pod %s came back at %s at revision %q, not at the update revision %s.", p.Life.Name,
			j.when(p.Event), p.Revision, strings.Join(names, " or "))
	}
}

func (j *setJudge) endedOnDelete(p *world.PodState) {
	wanted := every(j.acted(p), func(st *world.StatefulSet) bool {
		return waitsForDelete(st) && keeps(st, p.Life.Ordinal)
	})
	if !wanted || p.Status.Over || p.Status.Disrupted {
		return
	}
	j.evidence++
	switch {
	case j.byController(p):
		j.blame(p, nil, "Pod %s, at revision %q, was ended by its StatefulSet at %s although its update strategy is "+
			"OnDelete.", p.Life.Name, p.Revision, j.when(p.Event))
	case !j.explained(p):
		j.unknown("pod %s was ended at %s, and who ended it is not known", p.Life.Name, j.when(p.Event))
	}
}

func waitsForDelete(st *world.StatefulSet) bool { return st.Spec.Demand.Strategy == world.OnDelete }
