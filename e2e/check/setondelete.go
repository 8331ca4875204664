package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/world"
)

// SetOnDelete judges a StatefulSet whose pods are updated only when somebody deletes them. A pod that failed is made
// anew by the controller: that is no update.
func SetOnDelete() Check {
	return Check{
		Name: "set-on-delete",
		Promise: "With OnDelete the StatefulSet replaces no pod by itself, and a pod that was deleted comes back " +
			"at the update revision.",
		Source: "Kubernetes documentation, StatefulSets, Update strategies; k8s.io/api apps/v1, " +
			"OnDeleteStatefulSetStrategyType",
		Applies: updatesOnDelete,
		Judge:   judgeSetOnDelete,
	}
}

func judgeSetOnDelete(h *world.World) Result {
	return judgeSets(h, "pods made or ended under OnDelete", SetOnDelete().Promise,
		[]string{world.PodsObserver, world.SetsObserver, world.EventsObserver}, func(j *setJudge, set *setLife) {
			j.walk(set, func(p *podState, _ map[int]*podState) {
				switch {
				case p.made():
					j.madeOnDelete(set, p)
				case p.asked():
					j.endedOnDelete(set, p)
				}
			})
			var names []string
			for _, st := range set.sets {
				if st.Status.UpdateRevision != "" && !slices.Contains(names, st.Status.UpdateRevision) {
					names = append(names, st.Status.UpdateRevision)
				}
			}
			if set == j.planned && len(names) < 2 && setPlanOf(h).updates > 0 {
				j.ruling.unknown("%s was never seen to have another update revision than its first: there was "+
					"nothing to hold back", set)
			}
		})
}

func (j *setJudge) madeOnDelete(set *setLife, p *podState) {
	since := j.since(p.Event.Span)
	names := set.updateRevisions(j.watch, p.Version, p.Event.Span, since)
	states := wanting(set.around(p.Version, since), p.pod.ordinal)
	if !every(states, waitsForDelete) || len(names) == 0 || j.watch.blindTo(since,
		p.Event.Span.NotAfter.Add(cacheLag)) {
		return
	}
	j.ruling.evidence++
	if !slices.Contains(names, p.revision) {
		j.blame(p, fmt.Sprintf("Pod %s came back at %s at revision %q, not at the update revision %s.", p.pod.name,
			j.clock(p.Event), p.revision, strings.Join(names, " or ")))
	}
}

func (j *setJudge) endedOnDelete(set *setLife, p *podState) {
	states := set.around(p.Version, j.since(p.Event.Span))
	wanted := every(states, func(st *world.StatefulSet) bool {
		return waitsForDelete(st) && st.Spec.Demand.Wants(p.pod.ordinal) && !st.Deleting()
	})
	if !wanted || p.Status.Over || p.Status.Disrupted {
		return
	}
	j.ruling.evidence++
	switch {
	case j.byController(p):
		j.blame(p, fmt.Sprintf("Pod %s, at revision %q, was ended by its StatefulSet at %s although its update "+
			"strategy is OnDelete.", p.pod.name, p.revision, j.clock(p.Event)))
	case !j.explained(p):
		j.ruling.unknown("pod %s was ended at %s, and nobody said who ended it", p.pod.name, j.clock(p.Event))
	}
}

func waitsForDelete(st *world.StatefulSet) bool { return st.Spec.Demand.Strategy == world.OnDelete }
