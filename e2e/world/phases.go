package world

import (
	"fmt"

	"github.com/seatrial/seatrial/chaos/history"
)

type phaseKey struct {
	name history.PhaseName
	step int
}

// PhaseSpan is the first begin and the last end of a phase or step; either is nil if it was not recorded. The last end
// counts because a phase that ended may be recorded again with an error.
type PhaseSpan struct {
	Begin, End *history.Event
}

type phases struct {
	all   []*PhaseSpan // In the order of their first events.
	byKey map[phaseKey]*PhaseSpan
}

func readPhases(w *World) *phases {
	p := &phases{byKey: map[phaseKey]*PhaseSpan{}}
	for _, e := range w.Of(history.KindPhase) {
		key := phaseKey{e.Phase.Name, e.Phase.Step}
		span := p.byKey[key]
		if span == nil {
			span = &PhaseSpan{}
			p.byKey[key], p.all = span, append(p.all, span)
		}
		switch {
		case e.Phase.End:
			span.End = e
		case span.Begin == nil:
			span.Begin = e
		}
	}
	return p
}

func (p *phases) of(key phaseKey) PhaseSpan {
	if span := p.byKey[key]; span != nil {
		return *span
	}
	return PhaseSpan{}
}

// Phases returns all phases and steps, in the order of their first events.
func (w *World) Phases() []*PhaseSpan { return once(w, readPhases).all }

// Phase returns a phase's begin and end; both are nil if it never began.
func (w *World) Phase(name history.PhaseName) PhaseSpan {
	return once(w, readPhases).of(phaseKey{name: name})
}

// StepPhase returns a step's begin and end; both are nil if it never began.
func (w *World) StepPhase(n int) PhaseSpan {
	return once(w, readPhases).of(phaseKey{history.PhaseStep, n})
}

// Begin returns when the trial began. Reported times are relative to it.
func (w *World) Begin() history.Time {
	if plans := w.Of(history.KindPlan); len(plans) > 0 {
		return plans[0].Span.NotAfter
	}
	if len(w.Events) > 0 {
		return w.Events[0].Span.NotBefore
	}
	return 0
}

// Clock renders a time relative to the begin of the trial.
func (w *World) Clock(t history.Time) string {
	return fmt.Sprintf("%+.3f s", t.Sub(w.Begin()).Seconds())
}

// Last returns the latest time in the history.
func (w *World) Last() history.Time {
	return *once(w, func(w *World) *history.Time {
		last := w.Begin()
		for i := range w.Events {
			last = max(last, w.Events[i].Span.NotAfter)
		}
		return &last
	})
}

// EndOf returns when a phase ended, or Last if it did not end. It returns false for a phase that never began.
func (w *World) EndOf(name history.PhaseName) (history.Time, bool) {
	p := w.Phase(name)
	if p.End == nil {
		return w.Last(), p.Begin != nil
	}
	return p.End.Span.NotAfter, true
}

// Trialled returns when the trial proper ended: later events are the removal of the workload.
func (w *World) Trialled() history.Time {
	if end := w.Phase(history.PhaseEnd); end.Begin != nil {
		return end.Begin.Span.NotBefore
	}
	return w.Last()
}
