package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetUpdate judges each pod that an update ended: a pod of a wanted ordinal that was not at the update revision and
// that nothing else is known to have ended. With strategy Recreate it judges each pod that was made at a new revision.
//
// The state of another pod counts against the controller only if it lasted longer than the controller's cache may lag.
// A forbidden end is a violation only if an Event shows that the controller did it; what a person or an eviction ends
// during an update is none.
func SetUpdate() Check {
	return ofSets(Check{
		Name: "set-update",
		When: Continuous,
		Promise: "A rolling update replaces pods from the highest ordinal down, each once those above it are " +
			"updated and available, and takes away no more than maxUnavailable; Recreate makes no pod before every " +
			"one of an old revision is gone.",
		Source: "Kubernetes documentation, StatefulSets, Rolling Updates and Maximum unavailable Pods (KEP-961); " +
			"pkg/controller/statefulset, updateStatefulSet and recreateDeleteAndWait",
		Unit:    "pods ended by a rolling update",
		Applies: func(p plan.Plan) bool { return rollouts(p) > 0 && !onDelete(p) },
	}, []string{world.PodsObserver, world.SetsObserver, world.EventsObserver}, judgeSetUpdate)
}

func judgeSetUpdate(j *setJudge) {
	judged, spared, made := 0, 0, 0
	j.walk(func(p *world.PodState, now map[int]*world.PodState) {
		if p.Made() && j.madeByRecreate(p, now) {
			made++
		}
		switch counts, other := j.endedByUpdate(p, now); {
		case counts:
			judged++
		case other:
			spared++
		}
	})
	j.evidence += judged + made
	if j.set == j.planned && judged == 0 && rollouts(j.trial.Plan) > 0 {
		j.unknown("the plan updates the StatefulSet, and no pod was seen to be ended by it")
	}
	if recreates := j.trial.Plan.Workload.Strategy() == plan.StrategyRecreate; recreates && made == 0 {
		j.unknown("the strategy is Recreate, and no pod was seen to be made at a new revision")
	}
	j.note("%s: %s ended by an update, %d ended by something else", j.set, plan.Count(judged, "pod"), spared)
}

// madeByRecreate judges a pod that was made at another revision than the last one of its ordinal. The order of
// resourceVersions tells which pods were still there. A pod that is so new that the controller may not have seen it
// does not count. It reports whether strategy Recreate made it.
func (j *setJudge) madeByRecreate(p *world.PodState, now map[int]*world.PodState) bool {
	before, since := now[p.Life.Ordinal], j.viewSince(p.Event.Span)
	if !every(j.wanting(p), recreating) || p.Revision == "" || before == nil || before.Revision == p.Revision {
		return false
	}
	for _, other := range now {
		there := other != before && !other.Deleted() && other.Revision != "" && other.Revision != p.Revision
		if !there || other.Life.First.Event.Span.NotAfter > since ||
			j.blind(other.Event.Span.NotAfter, p.Event.Span.NotAfter) {
			continue
		}
		j.blame(p, other, "Pod %s was made at revision %s at %s while pod %s, at revision %s, was not gone, and the "+
			"update strategy is Recreate.", p.Life.Name, p.Revision, j.when(p.Event), other.Life.Name, other.Revision)
	}
	return true
}

// endedByUpdate judges a pod whose deletion was requested. It reports whether an update (judged) or something else
// (spared) ended it; both are false if the pod does not concern this check or the cause is not known.
func (j *setJudge) endedByUpdate(p *world.PodState, now map[int]*world.PodState) (judged, spared bool) {
	if !p.AskedToEnd() || p.Revision == "" {
		return false, false
	}
	states := j.acted(p)
	rolls := every(states, func(st *world.StatefulSet) bool {
		return (rolling(st) || recreating(st)) && keeps(st, p.Life.Ordinal)
	})
	_, names := j.set.RevisionsFor(p.Version, p.Event.Span, j.viewSince(p.Event.Span))
	switch {
	case !rolls || len(names) == 0:
		return false, false // Scaled down, or the strategy, the ordinals or the revision are not known.
	case p.Status.Over || p.Status.Disrupted:
		return false, true // It was replaced after a failure, or evicted.
	}
	// A controller ends a pod for an update only if the pod is not at the update revision that the controller knows.
	if names = slices.DeleteFunc(names, func(name string) bool { return name == p.Revision }); len(names) == 0 {
		if !j.watch.On(world.RevisionsObserver) || !j.byController(p) {
			return false, true
		}
		j.blame(p, nil, "Pod %s was ended by its StatefulSet at %s although it was at the update revision %s and had "+
			"not failed.", p.Life.Name, j.when(p.Event), p.Revision)
		return true, false
	}
	if slices.ContainsFunc(states, recreating) {
		return true, false // All at once, and in no order.
	}
	rule, other := j.broken(p, states, names, now)
	switch {
	case rule == "":
		return true, false
	case j.byController(p):
		j.blame(p, other, "Pod %s was ended by the rolling update to %s at %s although %s.", p.Life.Name,
			strings.Join(names, " or "), j.when(p.Event), rule)
		return true, false
	case j.explained(p):
		return false, true
	}
	j.unknown("pod %s was ended at %s although %s, and who ended it is not known", p.Life.Name, j.when(p.Event), rule)
	return false, false
}

// broken says which rule the end of a pod broke, and which other pod proves it; "" if none.
func (j *setJudge) broken(
	p *world.PodState, states []*world.StatefulSet, names []string, now map[int]*world.PodState,
) (string, *world.PodState) {
	parallel := slices.ContainsFunc(states, func(st *world.StatefulSet) bool { return st.Spec.Demand.Parallel })
	if own := now[p.Life.Ordinal]; parallel && (own == nil || !own.Healthy()) {
		return "", nil // A Parallel set replaces unavailable pods first (KEP-961).
	}
	high, low, most, limited := 0, states[0].Spec.Demand.Start, 0, false
	for _, st := range states {
		d := &st.Spec.Demand
		high, low = max(high, d.Start+d.Replicas), max(low, d.Start)
		most, limited = max(most, d.Unavailable), limited || d.Limited
	}
	if parallel && !limited {
		low = p.Life.Ordinal + 1 // Without maxUnavailable, an update ignores the pods of lower ordinals.
	}
	var away []string
	var proof *world.PodState
	for h := min(high, low+world.MostOrdinals) - 1; h >= max(low, 0); h-- {
		other := now[h]
		if h == p.Life.Ordinal || !every(states, func(st *world.StatefulSet) bool { return st.Spec.Demand.Wants(h) }) ||
			other != nil && j.blind(other.Event.Span.NotAfter, p.Event.Span.NotAfter) {
			continue
		}
		if h > p.Life.Ordinal && other != nil && !other.Deleting() && other.Revision != "" &&
			!slices.Contains(names, other.Revision) {
			return fmt.Sprintf("%s was still at revision %s", other.Life.Name, other.Revision), other
		}
		if why := j.away(other, p, states); why != "" {
			away = append(away, fmt.Sprintf("%s-%d was %s", j.set.Name, h, why))
			proof = other
		}
	}
	if len(away) < most {
		return "", nil
	}
	return fmt.Sprintf("%s, and maxUnavailable is %d", strings.Join(away, ", "), most), proof
}

// away says why a pod was certainly not available when p was ended, "" if it may have been available.
func (j *setJudge) away(other, p *world.PodState, states []*world.StatefulSet) string {
	if other != nil && !other.Guessed() && j.trial.Plan.Breaks(other.Meta.Annotations[plan.RevisionAnnotation]) {
		return "at a revision that is never Ready"
	}
	if other.Down(j.viewSince(p.Event.Span)) {
		return other.Describe()
	}
	waits := func(st *world.StatefulSet) bool { return other.Waiting(st.Spec.Demand.MinReady, p.EndAsked()) }
	if other.Healthy() && every(states, waits) {
		return fmt.Sprintf("Ready for less than the %d s of minReadySeconds", states[0].Spec.Demand.MinReady)
	}
	return ""
}
