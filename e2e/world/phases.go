package world

import "github.com/seatrial/seatrial/chaos/history"

type phaseKey struct {
	name history.PhaseName
	step int
}

// PhaseSpan is the begin and the end of a phase or step, as far as they are in the history: its first begin and its
// last end, since a phase said to have ended badly later did.
type PhaseSpan struct {
	Begin, End *history.Event
}

type phases map[phaseKey]PhaseSpan

func readPhases(w *World) *phases {
	all := phases{}
	for _, e := range w.Of(history.KindPhase) {
		key := phaseKey{e.Phase.Name, e.Phase.Step}
		span := all[key]
		switch {
		case e.Phase.End:
			span.End = e
		case span.Begin == nil:
			span.Begin = e
		}
		all[key] = span
	}
	return &all
}

// Phase returns a phase's begin and end; both are nil when it never began.
func (w *World) Phase(name history.PhaseName) PhaseSpan {
	return (*once(w, readPhases))[phaseKey{name: name}]
}

// StepPhase returns a step's begin and end; both are nil when it never began.
func (w *World) StepPhase(n int) PhaseSpan {
	return (*once(w, readPhases))[phaseKey{history.PhaseStep, n}]
}

// Begin returns when the trial began: all times are told from there.
func (w *World) Begin() history.Time {
	if plans := w.Of(history.KindPlan); len(plans) > 0 {
		return plans[0].Span.NotAfter
	}
	if len(w.Events) > 0 {
		return w.Events[0].Span.NotBefore
	}
	return 0
}

// Last returns the last moment of which the history tells.
func (w *World) Last() history.Time {
	last := w.Begin()
	for i := range w.Events {
		last = max(last, w.Events[i].Span.NotAfter)
	}
	return last
}

// EndOf returns the end of a phase: when it ended, and when it never did the end of the history. It returns false for a
// phase that never began.
func (w *World) EndOf(name history.PhaseName) (history.Time, bool) {
	p := w.Phase(name)
	if p.End == nil {
		return w.Last(), p.Begin != nil
	}
	return p.End.Span.NotAfter, true
}

// Trialled returns the moment up to which the history tells of the trial: what comes after is that the workload is
// taken away.
func (w *World) Trialled() history.Time {
	if end := w.Phase(history.PhaseEnd); end.Begin != nil {
		return end.Begin.Span.NotBefore
	}
	return w.Last()
}
