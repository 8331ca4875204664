package check

import (
	"fmt"

	"github.com/seatrial/seatrial/e2e/world"
)

// SetPromotion judges when an update is called complete: when the status gives the update revision as the current
// one. A pod that was made anew before that comes back at the old revision, so a revision whose pods do not last is
// not to be kept.
//
// Kubernetes up to 1.37 does so when all pods are Ready, whatever minReadySeconds says: there every update with
// minReadySeconds breaks this promise.
func SetPromotion() Check {
	return Check{
		Name:    "set-promotion",
		Promise: "An update is complete, and its revision the current one, only when all pods are available.",
		Source:  "KEP-2599 (minReadySeconds); kubernetes/kubernetes issue 136831",
		Applies: promotes,
		Judge:   judgeSetPromotion,
	}
}

func judgeSetPromotion(h *world.World) Result {
	return judgeSets(
		h,
		"updates called complete",
		SetPromotion().Promise,
		[]string{world.PodsObserver, world.SetsObserver},
		func(j *setJudge, set *setLife) {
			now, i := map[int]*podState{}, 0
			var old *world.StatefulSet
			for _, st := range set.sets {
				for ; i < len(set.pods) && set.pods[i].Version < st.Version; i++ {
					now[set.pods[i].pod.ordinal] = set.pods[i]
				}
				complete := old != nil && old.UID() == st.UID() && old.Status.CurrentRevision != "" &&
					old.Status.CurrentRevision != st.Status.CurrentRevision &&
					st.Status.CurrentRevision == st.Status.UpdateRevision
				if complete && !j.late(st.Event) {
					j.ruling.evidence++
					j.promoted(set, st, old, now)
				}
				old = st
			}
		},
	)
}

func (j *setJudge) promoted(set *setLife, st, old *world.StatefulSet, now map[int]*podState) {
	_, latest, ok := j.watch.wall.between(st.Event.Span)
	if !ok {
		j.ruling.unknown("how long pods of %s had been Ready at %s is not known: the stamps of the API server "+
			"disagree", set,
			j.clock(st.Event))
		return
	}
	for k := st.Spec.Demand.Start; st.Spec.Demand.Wants(k) && k-st.Spec.Demand.Start < mostOrdinals; k++ {
		p := now[k]
		if p != nil && p.ok() && p.waiting(st.Spec.Demand.MinReady, int64(latest)+1) {
			j.breach(set.String(), st.Event.Span, fmt.Sprintf("The update of %s to %s was called complete at %s "+
				"although pod %s had not been Ready for the %d s of "+
				"minReadySeconds.", set, st.Status.UpdateRevision, j.clock(st.Event), p.pod.name,
				st.Spec.Demand.MinReady), st.Event.ID, old.Event.ID, p.Event.ID)
			return
		}
	}
}
