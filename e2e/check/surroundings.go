package check

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// surroundings are the times around a fault: it and those that overlapped with it lasted from one moment to another,
// and last and next are when another fault was over before, and injected after.
type surroundings struct{ last, from, to, next history.Time }

// outermost returns the faults that are within no other. What is within one shares its before and its after: the time
// between two faults that overlap shows nothing of either.
func (s *scene) outermost() []faultLife {
	return slices.DeleteFunc(slices.Clone(s.faults), func(l faultLife) bool { return l.within })
}

// around returns the times around an outermost fault; false for one that did not live its whole life. Faults that
// overlapped, one with the next, have the same before and the same after.
func (s *scene) around(l faultLife) (surroundings, bool) {
	injected, over := l.facts[history.StageInjected], l.facts[history.StageConfirmedHealed]
	if injected == nil || over == nil {
		return surroundings{}, false
	}
	at := surroundings{from: injected.Span.NotBefore, to: over.Span.NotAfter}
	all := s.outermost()
	for grown := true; grown; {
		grown = false
		for _, o := range all {
			active, ok := o.active()
			if ok && active.PossiblyOverlaps(history.Between(at.from, at.to)) &&
				(active.NotBefore < at.from || active.NotAfter > at.to) {
				at.from, at.to = min(at.from, active.NotBefore), max(at.to, active.NotAfter)
				grown = true
			}
		}
	}
	at.last, at.next = s.start, forever
	for _, o := range all {
		if e := o.facts[history.StageConfirmedHealed]; e != nil && e.Span.NotAfter <= at.from {
			at.last = max(at.last, e.Span.NotAfter)
		}
		if e := o.facts[history.StageInjected]; e != nil && e.Span.NotBefore >= at.to {
			at.next = min(at.next, e.Span.NotBefore)
		}
	}
	return at, true
}

// steady returns how many instances, from the first one on, the plan has there before, during and after the outermost
// step around step n.
func (s *scene) steady(n int) int {
	top := n
	if around := s.plan.Around(n); len(around) > 0 {
		top = around[0].N
	}
	gone := false
	for _, st := range s.plan.AllSteps() {
		switch {
		case st.N >= top:
		case st.Do == plan.ActionDeleteSet:
			gone = st.Cascade != plan.CascadeOrphan
		case st.Do == plan.ActionCreateSet:
			gone = false
		}
	}
	steady := s.replicasAt(top)
	for _, st := range s.plan.Steps {
		if st.N != top {
			continue
		}
		for _, in := range append(st.Within(), st) {
			switch {
			case in.Do == plan.ActionScale && in.Replicas != nil:
				steady = min(steady, *in.Replicas)
			case in.Do == plan.ActionDeleteSet && in.Cascade != plan.CascadeOrphan:
				gone = true
			}
		}
	}
	if gone {
		return 0
	}
	return steady
}
