package world

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Surroundings are the times around a fault: it and those that overlapped with it lasted from one moment to another,
// and last and next are when another fault was over before, and injected after.
type Surroundings struct{ Last, From, To, Next history.Time }

// Outermost returns the faults that are within no other. What is within one shares its before and its after: the time
// between two faults that overlap shows nothing of either.
func (s *Trial) Outermost() []Fault {
	return slices.DeleteFunc(slices.Clone(s.Faults), func(l Fault) bool { return l.Within })
}

// Around returns the times around an outermost fault; false for one that did not live its whole life. Faults that
// overlapped, one with the next, have the same before and the same after.
func (s *Trial) Around(l Fault) (Surroundings, bool) {
	injected, over := l.Facts[history.StageInjected], l.Facts[history.StageConfirmedHealed]
	if injected == nil || over == nil {
		return Surroundings{}, false
	}
	at := Surroundings{From: injected.Span.NotBefore, To: over.Span.NotAfter}
	all := s.Outermost()
	for grown := true; grown; {
		grown = false
		for _, o := range all {
			active, ok := o.Active()
			if ok && active.PossiblyOverlaps(history.Between(at.From, at.To)) &&
				(active.NotBefore < at.From || active.NotAfter > at.To) {
				at.From, at.To = min(at.From, active.NotBefore), max(at.To, active.NotAfter)
				grown = true
			}
		}
	}
	at.Last, at.Next = s.Start, Forever
	for _, o := range all {
		if e := o.Facts[history.StageConfirmedHealed]; e != nil && e.Span.NotAfter <= at.From {
			at.Last = max(at.Last, e.Span.NotAfter)
		}
		if e := o.Facts[history.StageInjected]; e != nil && e.Span.NotBefore >= at.To {
			at.Next = min(at.Next, e.Span.NotBefore)
		}
	}
	return at, true
}

// Steady returns how many instances, from the first one on, the plan has there before, during and after the outermost
// step around step n.
func (s *Trial) Steady(n int) int {
	top := n
	if around := s.Plan.Around(n); len(around) > 0 {
		top = around[0].N
	}
	steady, gone := s.ReplicasAt(top), false
	for _, st := range s.Plan.AllSteps() {
		switch {
		case st.N >= top:
		case st.Do == plan.ActionDeleteSet:
			gone = st.Cascade != plan.CascadeOrphan
		case st.Do == plan.ActionCreateSet:
			gone = false
		}
	}
	for _, st := range s.Plan.Steps {
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
