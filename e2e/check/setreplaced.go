package check

import (
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetReplaced judges a StatefulSet with update strategy Recreate. Its pods are compared in the order in which the API
// server stored them, so that it does not matter how stale the controller's view was: a pod that it saw gone was gone.
func SetReplaced() Check {
	return ofSets(Check{
		Name: "set-replaced",
		Promise: "With Recreate no pod of a new revision is made while one of an old revision is there, and every pod " +
			"comes back at the update revision.",
		Source:  "k8s.io/api apps/v1, RecreateStatefulSetStrategyType; pkg/controller/statefulset, recreateDeleteAndWait",
		Unit:    "pods made under Recreate",
		Applies: planned(func(p plan.Plan) bool { return replaces(p) && updates(p) > 0 }),
	}, []string{world.PodsObserver, world.SetsObserver}, judgeSetReplaced)
}

// replaces reports whether the plan's update strategy is Recreate.
func replaces(p plan.Plan) bool { return p.Workload.Strategy() == plan.StrategyRecreate }

func judgeSetReplaced(j *setJudge) {
	revisions := map[string]bool{}
	j.walk(func(p *world.PodState, now map[int]*world.PodState) {
		if p.Made() && j.madeNew(p, now) {
			revisions[p.Revision] = true
		}
	})
	if j.set == j.planned && len(revisions) < 2 {
		j.unknown("pods of %s were not seen to be made at two revisions: nothing was replaced", j.set)
	}
}

// madeNew judges a pod that was made, and reports whether it was made under Recreate.
func (j *setJudge) madeNew(p *world.PodState, now map[int]*world.PodState) bool {
	since := j.viewSince(p.Event.Span)
	names := j.set.UpdateRevisions(p.Version, p.Event.Span, since)
	recreates := func(st *world.StatefulSet) bool { return st.Spec.Demand.Strategy == plan.StrategyRecreate }
	if !every(wanting(j.acted(p), p.Life.Ordinal), recreates) || len(names) == 0 || p.Revision == "" ||
		j.blind(since, p.Event.Span.NotAfter) {
		return false
	}
	j.evidence++
	if !slices.Contains(names, p.Revision) {
		j.blame(p, nil, "Pod %s was made at %s at revision %q, not at the update revision %s.", p.Life.Name,
			j.when(p.Event), p.Revision, strings.Join(names, " or "))
		return true
	}
	for _, k := range slices.Sorted(maps.Keys(now)) {
		old := now[k]
		if k != p.Life.Ordinal && !old.Deleted() && old.Revision != "" && !slices.Contains(names, old.Revision) {
			j.blame(p, old, "Pod %s of revision %s was made at %s although %s of revision %s was still there.",
				p.Life.Name, p.Revision, j.when(p.Event), old.Life.Name, old.Revision)
			break
		}
	}
	return true
}
