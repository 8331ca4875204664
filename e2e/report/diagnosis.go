package report

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/world"
)

// WriteDiagnosis writes for people what a StatefulSet waits for, at most 100 characters wide.
func WriteDiagnosis(w io.Writer, d explain.Diagnosis) error {
	p := &page{}
	p.diagnosis("", d)
	return p.write(w)
}

// WriteSpell writes the longest time of a trial in which nothing moved.
func WriteSpell(w io.Writer, s explain.Spell) error {
	p := &page{}
	end := "then it moved"
	if s.Open {
		end = "it had not moved by the end of what was looked at"
	}
	p.text("", fmt.Sprintf("The longest time in which nothing moved: %s to %s, %s; %s. What blocked it then:",
		s.From, s.To, explain.Lasting(s.For), end))
	p.diagnosis("  ", s.Diagnosis)
	return p.write(w)
}

// mostStalls is how many times in which nothing moved are told of.
const mostStalls = 5

// Stalls returns, in a line each, the longest times in which a StatefulSet stood still after it was set up: since when,
// for how long, what its controller wanted, which pod blocked it, why, and whether that passes by itself.
func Stalls(w *world.World) []string {
	var setUp history.Time
	if p := w.Phase(history.PhaseSetup); p.End != nil {
		setUp = p.End.Span.NotAfter
	}
	list, all := explain.Spells(w, setUp, w.Trialled(), explain.DefaultBound, mostStalls)
	var out []string
	for _, s := range list {
		d := s.Diagnosis
		_, name, _ := strings.Cut(d.StatefulSet, "/")
		wants, _, _ := strings.Cut(d.Wants, ":")
		text := fmt.Sprintf("%s, for %s: ", s.From, explain.Lasting(s.For))
		switch {
		case len(d.Blockers) == 0:
			text += fmt.Sprintf("StatefulSet %s wants %s", name, wants)
		case d.Action == explain.ActionSettle:
			text += fmt.Sprintf("pod %s, %s", d.Blockers[0].Pod, d.Blockers[0].State)
		default:
			text += fmt.Sprintf("StatefulSet %s wants %s; pod %s, %s, blocks it", name, wants, d.Blockers[0].Pod,
				d.Blockers[0].State)
		}
		if len(d.Causes) > 0 {
			text += ": " + d.Causes[len(d.Causes)-1].Sentence // The deepest.
		}
		if d.Outlook != "" {
			text += fmt.Sprintf("; outlook %s: %s", d.Outlook, d.Reason)
		}
		if s.Open {
			text += "; it had not moved by the end"
		}
		out = append(out, text)
	}
	if all > len(list) {
		out = append(out, fmt.Sprintf("%d more, each shorter", all-len(list)))
	}
	return out
}

func (s *story) stalls(p *page) {
	p.heading("WHAT STOOD STILL")
	for _, text := range Stalls(s.World) {
		p.text("  ", text)
	}
}

// stuck tells, of a trial that did not pass, what each StatefulSet was stuck at in the end: when it had had its time to
// settle, or as far as the trial came.
func (s *story) stuck(p *page) {
	if s.Report.Verdict == check.Pass {
		return
	}
	moment, ok := s.World.EndOf(history.PhaseSettle)
	if !ok {
		moment = s.World.Trialled()
	}
	p.heading("WHAT IS STUCK")
	for _, d := range explain.At(s.World, moment, explain.DefaultBound) {
		if d.Stuck {
			p.diagnosis("  ", d)
		}
	}
}

// diagnosis puts one StatefulSet's.
func (p *page) diagnosis(indent string, d explain.Diagnosis) {
	state := "it is not stuck"
	switch {
	case d.Action == explain.ActionNone:
		state = "nothing is stuck"
	case d.Action == explain.ActionUnknown:
		state = "it is not known whether it is stuck"
	case d.Stuck && d.Outlook == explain.Transient:
		state = "it waits"
	case d.Stuck:
		state = "it is STUCK"
	}
	p.text(indent, fmt.Sprintf("StatefulSet %s at %s: %s", d.StatefulSet, d.At, state))
	item := func(name, text string) {
		if text != "" {
			p.text(fmt.Sprintf("%s  %-8s ", indent, name), text)
		}
	}
	causes := func(name string, all []explain.Cause) {
		for _, c := range all {
			evidence := make([]string, len(c.Evidence))
			for i, e := range c.Evidence {
				evidence[i] = e.String()
			}
			item(name, c.Sentence+plan.Given(" [%s]", strings.Join(evidence, "; ")))
			if name == "why" {
				name = ""
			}
		}
	}
	item("wants", d.Wants)
	if d.Since != "" {
		item("stands", fmt.Sprintf("nothing has moved since %s (%s)", d.Since, explain.Lasting(d.For)))
	}
	told := map[string]string{} // The pod of which a sentence was told first.
	for i, b := range d.Blockers {
		if i < len(d.Blockers)-1 && i >= mostBlockers-1 {
			item("blocked", fmt.Sprintf("%d more pods block it; -o json tells of all", len(d.Blockers)-i))
			break
		}
		text := fmt.Sprintf("pod %s, %s", b.Pod, b.State)
		if b.Since != "" {
			text += fmt.Sprintf(", since %s (%s)", b.Since, explain.Lasting(b.For))
		}
		item("blocked", text+plan.Given("; it comes after %s", b.After))
		if i == 0 {
			item("rule", d.Rule)
		}
		same := ""
		causes("why", slices.DeleteFunc(slices.Clone(b.Causes), func(c explain.Cause) bool {
			told[c.Sentence] = cmp.Or(told[c.Sentence], b.Pod)
			if told[c.Sentence] == b.Pod {
				return false
			}
			same = cmp.Or(same, told[c.Sentence])
			return true
		}))
		if same != "" {
			item("", "and the same as for "+same)
		}
		if len(d.Blockers) > 1 {
			item("looks", string(b.Outlook)+": "+b.Reason)
		}
	}
	if len(d.Blockers) == 0 {
		item("rule", d.Rule)
		causes("why", d.Causes)
	} else {
		causes("unseen", d.Causes[min(len(d.Blockers[0].Causes), len(d.Causes)):])
	}
	if d.Outlook != "" {
		item("outlook", string(d.Outlook)+": "+d.Reason)
	}
}

// mostBlockers is how many pods that are in the way are told of; a reader has understood by then.
const mostBlockers = 6
