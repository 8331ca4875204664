package check

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetPromotion judges when an update is declared complete, that is when the status has the update revision as
// currentRevision. Until then a recreated pod may come back at the old revision, so a revision whose pods do not last
// must not become current.
//
// Kubernetes up to 1.37 declares an update complete when all pods are Ready, whatever minReadySeconds says, so every
// update with minReadySeconds breaks this promise there. It also declares one complete that has no pod left, whatever
// the partition keeps at the old revision: those pods come back at the new one.
func SetPromotion() Check {
	return ofSets(Check{
		Name:    "set-promotion",
		When:    Continuous,
		Promise: "An update is complete, and its revision the current one, only when all pods are available.",
		Source:  "KEP-2599 (minReadySeconds); kubernetes/kubernetes issue 136831",
		Unit:    "updates called complete",
		Applies: func(p plan.Plan) bool {
			return (p.Workload.MinReadySeconds > 0 || emptied(p)) && updates(p) > 0 && !onDelete(p)
		},
	}, []string{world.PodsObserver, world.SetsObserver}, judgeSetPromotion)
}

func judgeSetPromotion(j *setJudge) {
	now := map[int]*world.PodState{}
	var old *world.StatefulSet
	j.replay(func(st *world.StatefulSet) {
		if old != nil && old.UID() == st.UID() && old.Status.CurrentRevision != "" && !j.late(st.Event) &&
			old.Status.CurrentRevision != st.Status.CurrentRevision &&
			st.Status.CurrentRevision == st.Status.UpdateRevision {
			j.evidence++
			j.promoted(st, old, now)
		}
		old = st
	}, func(p *world.PodState) { now[p.Life.Ordinal] = p })
}

func (j *setJudge) promoted(st, old *world.StatefulSet, now map[int]*world.PodState) {
	_, latest, ok := j.sets.Wall.Between(st.Event.Span)
	if !ok {
		j.unknown("how long pods of %s had been Ready at %s is not known: the stamps of the API server disagree", j.set,
			j.when(st.Event))
		return
	}
	d := st.Spec.Demand
	if d.Replicas == 0 && d.Held(d.Start) {
		j.breaks(j.set.String(), st.Event.Span, []int64{st.Event.ID, old.Event.ID}, "The update of %s to %s was "+
			"called complete at %s although it had no pod then, and its partition of %d keeps pods at %s.", j.set,
			st.Status.UpdateRevision, j.when(st.Event), d.Partition, old.Status.CurrentRevision)
		return
	}
	for k := range d.Ordinals() {
		p := now[k]
		if p != nil && p.Healthy() && p.Waiting(d.MinReady, int64(latest)+1) {
			j.breaks(j.set.String(), st.Event.Span, []int64{st.Event.ID, old.Event.ID, p.Event.ID}, "The update of %s "+
				"to %s was called complete at %s although pod %s had not been Ready for the %d s of minReadySeconds.",
				j.set, st.Status.UpdateRevision, j.when(st.Event), p.Life.Name, d.MinReady)
			return
		}
	}
}

// emptied reports whether the plan scales a StatefulSet with a partition to 0.
func emptied(p plan.Plan) bool {
	return p.Workload.Partition > 0 && slices.ContainsFunc(p.AllSteps(), func(s plan.Step) bool {
		return s.Replicas != nil && *s.Replicas == 0
	})
}
