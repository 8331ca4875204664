package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
)

// aroundMost bounds the facts that a timeline shows beside the proof.
const aroundMost = 12

// findings explains every finding, with its proof and what happened around it.
func (s *story) findings(p *page) {
	n := 0
	for _, r := range s.report.Results {
		for i, f := range r.Findings {
			if n == 0 {
				p.heading("FINDINGS")
			}
			n++
			if n > 1 {
				p.blank()
			}
			s.finding(p, n, r, f, i == 0)
		}
	}
}

// finding explains one finding. What the first of a check tells of the check and the time around is not told again.
func (s *story) finding(p *page, n int, r check.Result, f check.Finding, first bool) {
	lead := fmt.Sprintf("  %d. ", n)
	indent := strings.Repeat(" ", len(lead))
	p.text(lead, r.Check+": "+f.Subject)
	p.text(indent, f.Sentence)
	p.text(indent+"promise  ", f.Promise)
	where := ""
	if f.Node != "" {
		where = " on node " + f.Node
	}
	p.text(indent+"when     ", fmt.Sprintf("%s to %s%s", s.clock(f.Span.NotBefore), s.clock(f.Span.NotAfter), where))
	faults := "none was active"
	if len(f.Faults) > 0 {
		faults = strings.Join(f.Faults, ", ")
	}
	p.text(indent+"faults   ", faults)
	if first {
		p.text(indent+"source   ", r.Source)
	}
	p.text(indent+"proof    ", "the facts marked with * below")
	s.timeline(p, indent, f, first)
}

// timeline puts the facts that prove a finding, marked, the lives of the faults that were active, and the phases that
// began meanwhile, when what was around is wanted too.
func (s *story) timeline(p *page, indent string, f check.Finding, around bool) {
	proof := map[int64]bool{}
	for _, id := range f.Events {
		proof[id] = true
	}
	var shown []*history.Event
	others := 0
	for i := range s.history.Events {
		e := &s.history.Events[i]
		switch {
		case proof[e.ID]:
			shown = append(shown, e)
		case around && others < aroundMost && marks(e, f):
			others++
			shown = append(shown, e)
		}
	}
	slices.SortStableFunc(shown,
		func(a, b *history.Event) int { return cmp.Compare(a.Span.NotAfter, b.Span.NotAfter) })
	for _, e := range shown {
		mark := " "
		if proof[e.ID] {
			mark = "*"
		}
		p.text(fmt.Sprintf("%s%s %11s  #%-6d ", indent, mark, s.clock(e.Span.NotAfter), e.ID), describe(e))
	}
}

// marks says whether a fact divides the time of a finding: a stage of a fault that was active, or the begin of a step.
func marks(e *history.Event, f check.Finding) bool {
	switch e.Kind {
	case history.KindFault:
		if e.Fault == nil || e.Fault.Stage == history.StageArmed || e.Fault.Stage == history.StageIntent {
			return false
		}
		return slices.Contains(f.Faults, fmt.Sprintf("step %d %s", e.Fault.Step, e.Fault.Name))
	case history.KindPhase:
		return e.Phase != nil && !e.Phase.End && e.Phase.Name != history.PhaseLoad && e.Span.PossiblyOverlaps(f.Span)
	}
	return false
}

// clock renders a moment relative to the begin of the trial.
func (s *story) clock(t history.Time) string { return fmt.Sprintf("%+.3f s", t.Sub(s.start).Seconds()) }
