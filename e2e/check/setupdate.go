package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/world"
)

// SetUpdate judges each pod that a rolling update ended: one that is to stay, that was not at the update revision, and
// that nothing else is known to have ended.
//
// What a pod is, is held against the controller only if it was so for longer than its cache may have been old. A pod
// that was ended although the rules forbade it is a finding only if the controller said that it did it; what a
// person or an eviction ended during an update is nobody's breach.
func SetUpdate() Check {
	return Check{
		Name: "set-update",
		Promise: "A rolling update replaces pods from the highest ordinal down, each once those above it are " +
			"updated and available, and takes away no more than maxUnavailable.",
		Source: "Kubernetes documentation, StatefulSets, Rolling Updates and Maximum unavailable Pods (KEP-961); " +
			"pkg/controller/statefulset, updateStatefulSet",
		Applies: rolls,
		Judge:   judgeSetUpdate,
	}
}

type updating struct {
	*setJudge
	set    *setLife
	spared int
	judged int
}

func judgeSetUpdate(h *world.World) Result {
	seen := 0
	res := judgeSets(h, "pods ended by a rolling update", SetUpdate().Promise,
		[]string{world.PodsObserver, world.SetsObserver, world.EventsObserver}, func(j *setJudge, set *setLife) {
			u := &updating{setJudge: j, set: set}
			j.walk(set, u.step)
			j.ruling.evidence += u.judged
			if set == j.planned {
				seen = u.judged
				if want := setPlanOf(h).rollouts; want > 0 && seen == 0 {
					j.ruling.unknown("the plan updates the StatefulSet, and no pod was seen to be ended by it")
				}
			}
			j.ruling.note("%s: %d pods ended by a rolling update, %d ended by something else", set, u.judged, u.spared)
		})
	return res
}

func (u *updating) step(p *podState, now map[int]*podState) {
	if !p.asked() || p.revision == "" {
		return
	}
	since := u.since(p.Event.Span)
	states := u.set.around(p.Version, since)
	rolling := every(states, func(st *world.StatefulSet) bool {
		return st.Spec.Demand.Strategy == world.RollingUpdate && st.Spec.Demand.Wants(p.pod.ordinal) && !st.Deleting()
	})
	names := u.set.updateRevisions(u.watch, p.Version, p.Event.Span, since)
	switch {
	case !rolling || len(names) == 0:
		return // Scaled away, or at a time when that cannot be told.
	case p.Status.Over || p.Status.Disrupted:
		u.spared++ // A pod that has failed is made anew; an evicted one was another's.
		return
	}
	// A controller ends a pod for an update only if it is not at the update revision, as that controller knows it.
	if names = slices.DeleteFunc(names, func(name string) bool { return name == p.revision }); len(names) == 0 {
		u.again(p)
		return
	}
	breach, other := u.breaks(p, states, names, now)
	switch {
	case breach == "":
		u.judged++
	case u.byController(p):
		u.judged++
		u.blame(p, fmt.Sprintf("Pod %s was ended by the rolling update to %s at %s although %s.", p.pod.name,
			strings.Join(names, " or "), u.clock(p.Event), breach), other)
	case u.explained(p):
		u.spared++
	default:
		u.ruling.unknown("pod %s was ended at %s although %s, and nobody said who ended "+
			"it", p.pod.name, u.clock(p.Event),
			breach)
	}
}

// again judges a pod that was ended although it was at the update revision.
func (u *updating) again(p *podState) {
	if u.watch.on[world.RevisionsObserver] && u.byController(p) {
		u.judged++
		u.blame(p, fmt.Sprintf("Pod %s was ended by its StatefulSet at %s although it was at the update revision "+
			"%s and had not failed.", p.pod.name, u.clock(p.Event), p.revision))
		return
	}
	u.spared++
}

// breaks says in words which rule the end of a pod broke, and through which other pod; "" if none.
func (u *updating) breaks(
	p *podState,
	states []*world.StatefulSet,
	names []string,
	now map[int]*podState,
) (string, *podState) {
	parallel := slices.ContainsFunc(states, func(st *world.StatefulSet) bool { return st.Spec.Demand.Parallel })
	if own := now[p.pod.ordinal]; parallel && (own == nil || !own.ok()) {
		return "", nil // A Parallel set replaces what is not available first (KEP-961).
	}
	high, low, most, limited := 0, 0, 0, false
	for i, st := range states {
		high, low = max(high, st.Spec.Demand.Start+st.Spec.Demand.Replicas), max(low, st.Spec.Demand.Start)
		if i == 0 {
			high, low = st.Spec.Demand.Start+st.Spec.Demand.Replicas, st.Spec.Demand.Start
		}
		most, limited = max(most, st.Spec.Demand.Unavailable), limited || st.Spec.Demand.Limited
	}
	if parallel && !limited {
		low = p.pod.ordinal + 1 // Before maxUnavailable there was one after the other, and no heed to those below.
	}
	var away []string
	var proof *podState
	for h := min(high, low+mostOrdinals) - 1; h >= max(low, 0); h-- {
		other := now[h]
		if h == p.pod.ordinal || !every(states, func(st *world.StatefulSet) bool { return st.Spec.Demand.Wants(h) }) {
			continue
		}
		if other != nil && u.watch.blindTo(other.Event.Span.NotAfter, p.Event.Span.NotAfter) {
			continue
		}
		if h > p.pod.ordinal && other != nil && !other.Deleting() && other.revision != "" &&
			!slices.Contains(names, other.revision) {
			return fmt.Sprintf("%s was still at revision %s", other.pod.name, other.revision), other
		}
		if why := u.away(other, p, states); why != "" {
			away = append(away, fmt.Sprintf("%s-%d was %s", u.set.name, h, why))
			proof = other
		}
	}
	if len(away) < most {
		return "", nil
	}
	return fmt.Sprintf("%s, and maxUnavailable is %d", strings.Join(away, ", "), most), proof
}

// away says why a pod was certainly not available when p was ended, "" if it may have been.
func (u *updating) away(other, p *podState, states []*world.StatefulSet) string {
	if other.fell(u.since(p.Event.Span)) {
		return other.describe()
	}
	if other.ok() &&
		every(
			states,
			func(st *world.StatefulSet) bool { return other.waiting(st.Spec.Demand.MinReady, p.endAsked()) },
		) {
		return fmt.Sprintf("Ready for less than the %d s of minReadySeconds", states[0].Spec.Demand.MinReady)
	}
	return ""
}
