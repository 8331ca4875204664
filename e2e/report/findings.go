package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/explain"
)

// aroundMost bounds the facts that a timeline shows beside the proof.
const aroundMost = 12

// findings tells the findings, those of one cause as one; with all set each of them at full length.
func (s *story) findings(p *page) {
	causes := s.report.Causes()
	if len(causes) == 0 {
		return
	}
	p.heading("FINDINGS")
	n := 0
	for _, c := range causes {
		if len(c.Found) > 1 && !s.all {
			n++
			s.cause(p, n, c)
			continue
		}
		for i, f := range c.Found {
			n++
			s.finding(p, n, f, i == 0 || c.Found[i-1].Check != f.Check)
		}
	}
}

// finding explains one finding. What the first of a check tells of the check and the time around is not told again.
func (s *story) finding(p *page, n int, f check.Found, first bool) {
	lead := fmt.Sprintf("  %d. ", n)
	indent := strings.Repeat(" ", len(lead))
	if n > 1 {
		p.blank()
	}
	p.text(lead, f.Check+": "+f.Subject)
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
		p.text(indent+"source   ", f.Source)
	}
	p.text(indent+"proof    ", "the facts marked with * below")
	s.timeline(p, indent, f.Finding, first)
}

// cause tells findings that have one cause: of each check the first one with its timeline, and of the others what they
// are about and the facts that prove them.
func (s *story) cause(p *page, n int, c check.Cause) {
	lead := fmt.Sprintf("  %d. ", n)
	indent := strings.Repeat(" ", len(lead))
	if n > 1 {
		p.blank()
	}
	var checks []string
	for _, f := range c.Found {
		if !slices.Contains(checks, f.Check) {
			checks = append(checks, f.Check)
		}
	}
	during := "while no fault was active"
	if len(c.Faults) > 0 {
		during = "while these faults were active"
	}
	p.text(lead, fmt.Sprintf("%s of %s %s (--all tells each by itself):", explain.Count(len(c.Found), "finding"),
		explain.Count(len(checks), "check"), during))
	s.lives(p, indent, c)
	for i, f := range c.Found {
		if i > 0 && c.Found[i-1].Check == f.Check {
			continue
		}
		p.text(indent+"  ", f.Check+": "+brief(f.Sentence))
		s.proof(p, indent, f)
		var others []string
		for _, other := range c.Found[i+1:] {
			if other.Check == f.Check {
				others = append(others, fmt.Sprintf("%s (%s)", other.Subject, eventNumbers(other.Events)))
			}
		}
		if len(others) > 0 {
			p.text(indent+"  ", "likewise "+strings.Join(others, "; "))
		}
	}
}

func eventNumbers(ids []int64) string {
	names := make([]string, len(ids))
	for i, id := range ids {
		names[i] = fmt.Sprintf("#%d", id)
	}
	return strings.Join(names, " ")
}

// lives puts a line for every active fault of a cause: when it reached which stage.
func (s *story) lives(p *page, indent string, c check.Cause) {
	for _, name := range c.Faults {
		var stages []string
		for _, e := range s.world.Of(history.KindFault) {
			if e.Fault.Stage == history.StageArmed || e.Fault.Stage == history.StageIntent ||
				faultName(e.Fault) != name {
				continue
			}
			stages = append(stages, fmt.Sprintf("%s %s (#%d)", e.Fault.Stage, s.clock(e.Span.NotAfter), e.ID))
		}
		p.text(indent+name+": ", strings.Join(stages, ", "))
	}
}

// proof puts the facts that prove a finding, each shortened.
func (s *story) proof(p *page, indent string, f check.Found) {
	for i := range s.world.Events {
		e := &s.world.Events[i]
		if !slices.Contains(f.Events, e.ID) {
			continue
		}
		text := describe(e)
		if m := e.Mount; m != nil {
			text = fmt.Sprintf("%s %s of mount %d %s", m.Node, m.Action, m.MountID, m.Path)
		}
		p.text(fmt.Sprintf("%s* %11s  #%-6d ", indent, s.clock(e.Span.NotAfter), e.ID),
			clip(shortUUIDs(brief(text)), proofMost))
	}
}

// proofMost bounds how long the description of one proving fact becomes in a finding that is told with others.
const proofMost = 144

func clip(text string, most int) string {
	if r := []rune(text); len(r) > most {
		return string(r[:most-3]) + "..."
	}
	return text
}

// shortUUIDs leaves of each UUID the first 8 digits.
func shortUUIDs(text string) string {
	return regexp.MustCompile(`\b([0-9a-f]{8})(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b`).ReplaceAllString(text, "$1...")
}

// brief leaves of long paths the last two elements, and of hashes the first 8 digits.
func brief(text string) string {
	path := regexp.MustCompile(`(^|[\s"])/[^\s",;]*/[^\s",;/]+(/[^\s",;/]+/[^\s",;/]+)`)
	hash := regexp.MustCompile(`\b([0-9a-f]{8})[0-9a-f]{24,}\b`)
	uid := regexp.MustCompile(`\buid ([0-9a-f]{8})[-0-9a-f]{28}\b`)
	text = uid.ReplaceAllString(text, "uid $1...")
	return hash.ReplaceAllString(path.ReplaceAllString(text, "$1...$2"), "$1...")
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
	for i := range s.world.Events {
		e := &s.world.Events[i]
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
		return slices.Contains(f.Faults, faultName(e.Fault))
	case history.KindPhase:
		return e.Phase != nil && !e.Phase.End && e.Phase.Name != history.PhaseLoad && e.Span.PossiblyOverlaps(f.Span)
	}
	return false
}

// faultName names a fault as findings do.
func faultName(f *history.Fault) string { return fmt.Sprintf("step %d %s", f.Step, f.Name) }

// clock renders a moment relative to the begin of the trial.
func (s *story) clock(t history.Time) string { return fmt.Sprintf("%+.3f s", t.Sub(s.start).Seconds()) }
