package report

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/explain"
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

// stuck tells, of a trial that did not pass, what each StatefulSet was stuck at in the end: when it had had its time to
// settle, or as far as the trial came.
func (s *story) stuck(p *page) {
	if s.report.Verdict == check.Pass {
		return
	}
	moment, ok := s.world.EndOf(history.PhaseSettle)
	if !ok {
		moment = s.world.Trialled()
	}
	titled := false
	for _, d := range explain.At(s.world, moment, explain.DefaultBound) {
		if !d.Stuck {
			continue
		}
		if !titled {
			p.heading("WHAT IS STUCK")
			titled = true
		}
		p.diagnosis("  ", d)
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
	item("wants", d.Wants)
	if d.Since != "" {
		item("stands", fmt.Sprintf("nothing has moved since %s (%s)", d.Since, explain.Lasting(d.For)))
	}
	for i, b := range d.Blockers {
		if i < len(d.Blockers)-1 && i >= mostBlockers-1 {
			item("blocked", fmt.Sprintf("%d more pods block it; -o json tells of all", len(d.Blockers)-i))
			break
		}
		item("blocked", blocked(b))
		if i == 0 {
			item("rule", d.Rule)
		}
		causes(item, d.Blockers, i)
	}
	if len(d.Blockers) == 0 {
		item("rule", d.Rule)
		listed(item, d.Causes)
	} else if extra := len(d.Blockers[0].Causes); extra < len(d.Causes) {
		for _, c := range d.Causes[extra:] {
			item("unseen", c.Sentence+proof(c))
		}
	}
	if d.Outlook != "" {
		item("outlook", string(d.Outlook)+": "+d.Reason)
	}
}

// mostBlockers is how many pods that are in the way are told of; a reader has understood by then.
const mostBlockers = 6

func blocked(b explain.Blocker) string {
	text := fmt.Sprintf("pod %s, %s", b.Pod, b.State)
	if b.Since != "" {
		text += fmt.Sprintf(", since %s (%s)", b.Since, explain.Lasting(b.For))
	}
	if b.After != "" {
		text += fmt.Sprintf("; it comes after %s", b.After)
	}
	return text
}

// causes puts why a pod blocks it; what was said of one before it is not said again.
func causes(item func(name, text string), all []explain.Blocker, i int) {
	var news []explain.Cause
	same := ""
	for _, c := range all[i].Causes {
		of := slices.IndexFunc(all[:i], func(b explain.Blocker) bool {
			return slices.ContainsFunc(b.Causes, func(o explain.Cause) bool { return o.Sentence == c.Sentence })
		})
		if of < 0 {
			news = append(news, c)
		} else if same == "" {
			same = all[of].Pod
		}
	}
	listed(item, news)
	if same != "" {
		item("", "and the same as for "+same)
	}
	if len(all) > 1 {
		item("looks", string(all[i].Outlook)+": "+all[i].Reason)
	}
}

func listed(item func(name, text string), causes []explain.Cause) {
	for i, c := range causes {
		name := "why"
		if i > 0 {
			name = ""
		}
		item(name, c.Sentence+proof(c))
	}
}

// proof lists where a cause comes from.
func proof(c explain.Cause) string {
	var parts []string
	for _, e := range c.Evidence {
		parts = append(parts, e.String())
	}
	if len(parts) == 0 {
		return ""
	}
	return " [" + strings.Join(parts, "; ") + "]"
}
