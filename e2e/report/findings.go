package report

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
)

const (
	aroundMost = 12  // Facts that a timeline shows beside the proof.
	proofMost  = 144 // Characters of a proving fact where findings are told as one.
)

// findings tells the findings, those of one cause as one; with all set each of them at full length.
func (s *story) findings(p *page) {
	p.heading("FINDINGS")
	n := 0
	for _, c := range s.Report.Causes() {
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

// numbered begins a finding, and returns by how much its lines are indented.
func (p *page) numbered(n int, text string) (indent string) {
	if n > 1 {
		p.blank()
	}
	lead := fmt.Sprintf("  %d. ", n)
	p.text(lead, text)
	return strings.Repeat(" ", len(lead))
}

// finding explains one finding. What the first of a check tells of the check and the time around is not told again.
func (s *story) finding(p *page, n int, f check.Found, first bool) {
	indent := p.numbered(n, f.Check+": "+f.Subject)
	p.text(indent, f.Sentence)
	p.text(indent+"promise  ", f.Promise)
	where := plan.Given(" on node %s", f.Node)
	p.text(indent+"when     ",
		s.World.Clock(f.Span.NotBefore)+" to "+s.World.Clock(f.Span.NotAfter)+where)
	p.text(indent+"faults   ", cmp.Or(strings.Join(f.Faults, ", "), "none was active"))
	if first {
		p.text(indent+"source   ", f.Source)
	}
	p.text(indent+"proof    ", "the facts marked with * below")
	s.timeline(p, indent, f.Finding, first, false)
}

// cause tells findings that have one cause: the faults that were active, and of each check the first finding with its
// proof, and what the others are about, with the facts that prove them.
func (s *story) cause(p *page, n int, c check.Cause) {
	var checks []string
	byCheck := map[string][]check.Found{}
	for _, f := range c.Found {
		if byCheck[f.Check] == nil {
			checks = append(checks, f.Check)
		}
		byCheck[f.Check] = append(byCheck[f.Check], f)
	}
	during := "while no fault was active"
	if len(c.Faults) > 0 {
		during = "while these faults were active"
	}
	indent := p.numbered(n, fmt.Sprintf("%s of %s %s (--all tells each by itself):",
		plan.Count(len(c.Found), "finding"), plan.Count(len(checks), "check"), during))
	s.lives(p, indent+"  ", c)
	for _, name := range checks {
		found := byCheck[name]
		count := ""
		if len(found) > 1 {
			count = fmt.Sprintf(" (%d findings)", len(found))
		}
		p.text(indent, name+count+": "+brief(found[0].Sentence))
		s.timeline(p, indent, found[0].Finding, false, true)
		var others []string
		for _, f := range found[1:] {
			facts := make([]string, len(f.Events))
			for i, id := range f.Events {
				facts[i] = fmt.Sprintf("#%d", id)
			}
			others = append(others, fmt.Sprintf("%s (%s)", shortUUIDs(f.Subject), strings.Join(facts, " ")))
		}
		if len(others) > 0 {
			p.text(indent+"  ", "likewise "+strings.Join(others, "; "))
		}
	}
}

// lives puts a line for every active fault of a cause: when it reached which stage, in the words of the fault table.
func (s *story) lives(p *page, indent string, c check.Cause) {
	for _, f := range s.faults {
		if !slices.Contains(c.Faults, f.String()) {
			continue
		}
		var stages []string
		for _, stage := range []struct {
			of   history.FaultStage
			word string
		}{
			{history.StageInjected, "injected"}, {history.StageConfirmed, "shown"}, {history.StageHealed, "healed"},
			{history.StageConfirmedHealed, "gone"},
		} {
			if e := f.Facts[stage.of]; e != nil {
				stages = append(stages, stage.word+" "+s.World.Clock(e.Span.NotAfter))
			}
		}
		for _, e := range f.Failed {
			stages = append(stages, "FAILED "+s.World.Clock(e.Span.NotAfter))
		}
		p.text(indent+f.String()+plan.Given(" on %s", f.Node)+": ", strings.Join(stages, ", "))
	}
}

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

// timeline puts the facts that prove a finding, marked. Around adds the lives of the faults that were active and the
// phases that began meanwhile; short shortens what each fact says.
func (s *story) timeline(p *page, indent string, f check.Finding, around, short bool) {
	var shown []*history.Event
	others := 0
	for i := range s.World.Events {
		e := &s.World.Events[i]
		switch {
		case slices.Contains(f.Events, e.ID):
			shown = append(shown, e)
		case around && others < aroundMost && divides(e, f):
			others++
			shown = append(shown, e)
		}
	}
	slices.SortStableFunc(shown,
		func(a, b *history.Event) int { return cmp.Compare(a.Span.NotAfter, b.Span.NotAfter) })
	for _, e := range shown {
		mark, text := " ", describe(e)
		if slices.Contains(f.Events, e.ID) {
			mark = "*"
		}
		if m := e.Mount; m != nil && short {
			text = fmt.Sprintf("%s %s of mount %d %s", m.Node, m.Action, m.MountID, m.Path)
		}
		if short {
			text = clip(shortUUIDs(brief(text)), proofMost)
		}
		p.text(fmt.Sprintf("%s%s %11s  #%-6d ", indent, mark, s.World.Clock(e.Span.NotAfter), e.ID), text)
	}
}

// divides says whether a fact divides the time of a finding: a stage of an active fault, or the begin of a step.
func divides(e *history.Event, f check.Finding) bool {
	switch {
	case e.Fault != nil:
		return e.Fault.Stage != history.StageArmed && e.Fault.Stage != history.StageIntent &&
			slices.Contains(f.Faults, fmt.Sprintf("step %d %s", e.Fault.Step, e.Fault.Name))
	case e.Phase != nil:
		return !e.Phase.End && e.Phase.Name != history.PhaseLoad && e.Span.PossiblyOverlaps(f.Span)
	}
	return false
}
