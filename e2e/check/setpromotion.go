package check

import (
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
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
	now, ceased := map[int]*world.PodState{}, map[string]history.Time{}
	var old *world.StatefulSet
	revision := "" // At which all pods are, and are Ready; ceased is when they were so no more.
	look := func(e *history.Event) {
		was := revision
		if revision = updated(old, now); was != revision {
			ceased[was] = e.Span.NotAfter
		}
	}
	j.replay(func(st *world.StatefulSet) {
		before := old
		old = st
		look(st.Event)
		if before != nil && before.UID() == st.UID() && before.Status.CurrentRevision != "" && !j.late(st.Event) &&
			before.Status.CurrentRevision != st.Status.CurrentRevision &&
			st.Status.CurrentRevision == st.Status.UpdateRevision {
			j.evidence++
			since := min(j.viewSince(st.Event.Span), st.Event.Span.NotBefore.Add(-statusLag))
			seen := revision == st.Status.UpdateRevision || ceased[st.Status.UpdateRevision] > since ||
				j.blind(since, st.Event.Span.NotAfter)
			j.promoted(st, before, now, seen)
		}
	}, func(p *world.PodState) {
		now[p.Life.Ordinal] = p
		look(p.Event)
	})
}

// updated returns the revision at which all pods that a StatefulSet wants are, and are Ready; "" if there is none.
func updated(st *world.StatefulSet, now map[int]*world.PodState) string {
	revision := ""
	if st == nil {
		return ""
	}
	for k := range st.Spec.Demand.Ordinals() {
		p := now[k]
		if p == nil || !p.Healthy() || p.Deleting() || revision != "" && p.Revision != revision {
			return ""
		}
		revision = p.Revision
	}
	return revision
}

// promoted judges an update that was called complete; seen is whether the controller may have seen all pods Ready at
// its revision.
func (j *setJudge) promoted(st, old *world.StatefulSet, now map[int]*world.PodState, seen bool) {
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
		var why string
		p := now[k]
		switch {
		case !seen && (p == nil || !p.Healthy() || p.Deleting()):
			why = "was " + p.Describe()
		case !seen && p.Revision != "" && p.Revision != st.Status.UpdateRevision:
			why = "was at revision " + p.Revision
		case p != nil && p.Healthy() && p.Waiting(d.MinReady, int64(latest)+1):
			why = fmt.Sprintf("had not been Ready for the %d s of minReadySeconds", d.MinReady)
		default:
			continue
		}
		events := []int64{st.Event.ID, old.Event.ID}
		if p != nil {
			events = append(events, p.Event.ID)
		}
		j.breaks(j.set.String(), st.Event.Span, events, "The update of %s to %s was called complete at %s although "+
			"pod %s-%d %s.", j.set, st.Status.UpdateRevision, j.when(st.Event), j.set.Name, k, why)
		return
	}
}

// emptied reports whether the plan scales a StatefulSet with a partition to 0.
func emptied(p plan.Plan) bool {
	return p.Workload.Partition > 0 && slices.ContainsFunc(p.AllSteps(), func(s plan.Step) bool {
		return s.Replicas != nil && *s.Replicas == 0
	})
}
