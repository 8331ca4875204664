package check

import (
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// eventLag is how long after a deletion the event that tells of it is looked for.
const eventLag = 5 * time.Second

// setJudge is what the checks of StatefulSets share.
type setJudge struct {
	world   *world.World
	scene   *world.Trial
	watch   *setWatch
	ruling  *ruling
	promise string
	until   history.Time // What came later is no longer the trial's.
	planned *setLife     // The StatefulSet of the plan.
}

// judgeSets judges each StatefulSet that was seen; each is called for them in the order of their names.
func judgeSets(h *world.World, unit, promise string, observers []string, each func(*setJudge, *setLife)) Result {
	r := newRuling(unit)
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	w := world.Memo(h, readSets)
	j := &setJudge{world: h, scene: s, watch: w, ruling: r, promise: promise, until: s.LastSight(),
		planned: w.planned(s.Plan.Workload.StatefulSet)}
	w.judgeSight(s, r, w.lastFact(), observers...)
	if len(j.planned.sets) == 0 {
		r.unknown("StatefulSet %s was never seen", s.Plan.Workload.StatefulSet)
	}
	for _, set := range w.judged() {
		each(j, set)
	}
	return r.result()
}

// walk goes through the states of a StatefulSet's pods in their order. Now is what was known of each ordinal before.
func (j *setJudge) walk(set *setLife, step func(p *podState, now map[int]*podState)) {
	now := map[int]*podState{}
	for _, p := range set.pods {
		if p.Event.Span.NotBefore > j.until {
			continue
		}
		step(p, now)
		now[p.pod.ordinal] = p
	}
}

// made reports that the state is that of a pod just created, by the StatefulSet.
func (p *podState) made() bool {
	return p == p.pod.first && p.Event.Object.Verb == history.VerbAdded && p.pod.owned
}

// asked reports that the state is the first one of a pod whose end was asked for, and that this was seen.
func (p *podState) asked() bool { return p == p.pod.asked && !p.Guessed() && p != p.pod.first }

// since is how old what a controller knew may have been when it made a change: as old as its cache, and older while
// what it talks to, or itself, was hurt: a request that was sent before may have been carried out after.
func (j *setJudge) since(at history.Span) history.Time {
	since := at.NotBefore.Add(-cacheLag)
	for _, l := range j.scene.Faults {
		active, ok := l.Active()
		if ok && l.ControlPlane() && active.PossiblyOverlaps(history.Between(since, at.NotAfter)) {
			since = min(since, active.NotBefore.Add(-cacheLag))
		}
	}
	return since
}

// controlHurt reports whether such a fault was active at some time in span, or had just been.
func (j *setJudge) controlHurt(span history.Span) bool {
	return slices.ContainsFunc(j.scene.Faults, func(l world.Fault) bool {
		active, ok := l.Active()
		return ok && l.ControlPlane() && active.NotBefore <= span.NotAfter &&
			(active.NotAfter == world.Forever || active.NotAfter.Add(cacheLag) >= span.NotBefore)
	})
}

// explained reports that the plan, or the pod itself, says why the pod was ended by something other than its
// StatefulSet: it had failed or was evicted, its node was lost, or a fault was at work on it or on its node.
func (j *setJudge) explained(p *podState) bool {
	if p.Status.Disrupted || p.Status.Over || p.Version != 0 && j.watch.nodeGone(p.Spec.NodeName) != nil {
		return true
	}
	for _, l := range j.scene.Faults {
		active, ok := l.Active()
		if ok && (l.Victim == p.pod.name || l.Node != "" && l.Node == p.Spec.NodeName) &&
			active.PossiblyOverlaps(p.Event.Span) {
			return true
		}
	}
	return j.during("delete", p.Event.Span)
}

// byController reports that the StatefulSet controller said that it ended the pod. It says so after it did; what may be
// said of a later pod of the name is said of that one. While the plan has somebody else end the pod, it proves nothing.
func (j *setJudge) byController(p *podState) bool {
	asked := p.Event.Span
	for _, l := range j.scene.Faults {
		active, ok := l.Active()
		if ok && l.Victim == p.pod.name && strings.HasPrefix(l.Name, "pod-") && active.PossiblyOverlaps(asked) {
			return false
		}
	}
	later := world.Forever
	for _, l := range p.pod.set.byOrdinal[p.pod.ordinal] {
		if l.asked != nil && l.asked.Version > p.Version {
			later = l.asked.Event.Span.NotBefore
			break
		}
	}
	return slices.ContainsFunc(j.watch.deletes[p.Event.Object.Namespace+"/"+p.pod.name], func(told history.Span) bool {
		return told.NotAfter >= asked.NotBefore && told.NotBefore <= asked.NotAfter.Add(eventLag) &&
			told.NotAfter < later
	})
}

// during reports whether a step of the plan whose action or fault has a word in its name was carried out at some time
// in span.
func (j *setJudge) during(word string, span history.Span) bool {
	for _, st := range j.scene.Plan.AllSteps() {
		name := string(st.Do)
		if st.Fault != nil {
			name += " " + st.Fault.Name
		}
		if !strings.Contains(name, word) {
			continue
		}
		step := j.scene.StepPhase(st.N)
		if step.Begin == nil || step.Begin.Span.NotBefore > span.NotAfter {
			continue
		}
		if step.End == nil || step.End.Span.NotAfter.Add(cacheLag) >= span.NotBefore {
			return true
		}
	}
	return false
}

// fell reports that a pod was certainly known not to be Running and Ready, or to be on its way out, by one who knew all
// that was so at since. It takes nil, for a pod that is not there.
func (p *podState) fell(since history.Time) bool {
	switch {
	case p == nil:
		return true
	case p.ok() && !p.Deleting():
		return false
	}
	from := p.lost
	if asked := p.pod.asked; asked != nil && asked.Version <= p.Version &&
		(from == nil && wasOK(p.pod, asked.Version) || from != nil && asked.Event.Span.NotAfter < from.Span.NotAfter) {
		from = asked.Event
	}
	return from == nil || from.Span.NotAfter < since
}

// wasOK reports that a pod had been Running and Ready by a version.
func wasOK(l *podLife, version uint64) bool {
	return slices.ContainsFunc(l.states, func(p *podState) bool { return p.Version <= version && p.ok() })
}

func (j *setJudge) blame(p *podState, sentence string, others ...*podState) {
	events := []int64{p.Event.ID}
	for _, other := range others {
		if other != nil {
			events = append(events, other.Event.ID)
		}
	}
	j.breach("pod "+p.pod.name, p.Event.Span, sentence, events...)
}

func (j *setJudge) breach(subject string, span history.Span, sentence string, events ...int64) {
	j.ruling.breach(Finding{
		Promise: j.promise, Sentence: sentence, Subject: subject, Span: span, Events: events,
		Faults: j.scene.FaultsIn(span),
	})
}

func (j *setJudge) clock(e *history.Event) string { return j.scene.Clock(e.Span.NotAfter) }
