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
	return judgeSets(h, "updates called complete", SetPromotion().Promise, []string{world.PodsObserver, world.SetsObserver},
		func(j *setJudge, set *setLife) {
			now, i := map[int]*podState{}, 0
			var old *setState
			for _, st := range set.sets {
				for ; i < len(set.pods) && set.pods[i].version < st.version; i++ {
					now[set.pods[i].pod.ordinal] = set.pods[i]
				}
				complete := old != nil && old.uid == st.uid && old.currentRevision != "" &&
					old.currentRevision != st.currentRevision && st.currentRevision == st.updateRevision
				if complete && !j.late(st.event) {
					j.ruling.evidence++
					j.promoted(set, st, old, now)
				}
				old = st
			}
		})
}

func (j *setJudge) promoted(set *setLife, st, old *setState, now map[int]*podState) {
	_, latest, ok := j.watch.wall.between(st.event.Span)
	if !ok {
		j.ruling.unknown("how long pods of %s had been Ready at %s is not known: the stamps of the API server "+
			"disagree", set,
			j.clock(st.event))
		return
	}
	for k := st.start; st.wants(k) && k-st.start < mostOrdinals; k++ {
		p := now[k]
		if p != nil && p.ok() && p.waiting(st.minReady, int64(latest)+1) {
			j.breach(set.String(), st.event.Span, fmt.Sprintf("The update of %s to %s was called complete at %s "+
				"although pod %s had not been Ready for the %d s of "+
				"minReadySeconds.", set, st.updateRevision, j.clock(st.event), p.pod.name,
				st.minReady), st.event.ID, old.event.ID, p.event.ID)
			return
		}
	}
}
