package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/explain"
)

// How long a chronicle may become, in lines, and how much of that its drawing has at least.
const (
	chronicleMost = 64
	drawnLeast    = 24
)

// WriteChronicle writes what happened to one volume, in the order of time, in about 60 lines of at most 100 characters:
// the volume that the findings are about most, or, without findings, that of the first victim of a fault. A column for
// each node draws where the volume was attached and mounted and where its database ran; only what is certain is drawn.
// It ends in the verdict, what was found about the volume, and the command that reproduces the trial.
func WriteChronicle(w io.Writer, j Judged, o Options) error {
	s := newStory(j)
	volumes := subjects(s.world)
	of := s.pick(volumes)
	end := &page{color: o.Color}
	s.moral(end, volumes, of)
	p := &page{color: o.Color}
	s.opening(p, of)
	if of == nil {
		p.text("  ", "The history shows no volume of a pod, so there is nothing to tell.")
	} else {
		c := newChronicle(s, of)
		c.tell()
		room := chronicleMost - p.lines() - end.lines() - len(c.nodes) - 1
		c.draw(p, max(room, drawnLeast))
	}
	p.b.Write(end.b.Bytes())
	if _, err := w.Write(p.b.Bytes()); err != nil {
		return fmt.Errorf("write chronicle: %w", err)
	}
	return nil
}

func (p *page) lines() int { return strings.Count(p.b.String(), "\n") }

// opening says which volume of which trial this is about.
func (s *story) opening(p *page, of *subject) {
	if of == nil {
		s.title(p, "")
		p.blank()
		return
	}
	s.title(p, ": what happened to the volume of "+of.instance)
	p.blank()
	p.text("  volume    ", of.about())
	p.raw("  drawing   : attached to that node   | mounted there   # and its mysqld runs there   . nothing")
	p.raw("            ! mounted on two nodes at once   !! two mysqld of one pod's name run at once")
	p.blank()
}

// moral puts the verdict and what was found about the volume.
func (s *story) moral(p *page, volumes []*subject, of *subject) {
	s.verdict(p)
	told := s.foundAbout(of)
	for i, f := range told {
		p.text(fmt.Sprintf("        %d. ", i+1), f)
	}
	if len(told) == 0 {
		p.text("because:   ", s.why())
	}
	if others := s.others(volumes, of); others != "" {
		p.text("others:    ", others)
	}
	for _, warning := range s.warnings {
		p.text("WARNING:   ", warning)
	}
	p.text("reproduce: ", s.reproduce())
}

// foundMost bounds the findings that a chronicle tells, and sentenceMost their length in characters.
const (
	foundMost    = 5
	sentenceMost = 176
)

// foundAbout returns the findings about a volume: the first of each check, then others.
func (s *story) foundAbout(of *subject) []string {
	var first, more []string
	for _, r := range s.report.Results {
		n := 0
		for _, f := range r.Findings {
			if of == nil || !of.in(f) {
				continue
			}
			if n++; n == 1 {
				first = append(first, opens(f.Sentence, of))
			} else {
				more = append(more, opens(f.Sentence, of))
			}
		}
	}
	all := slices.Concat(first, more)
	return all[:min(len(all), foundMost)]
}

// opens returns the begin of a sentence: to its end, or to the last joint before it becomes too long.
func opens(sentence string, of *subject) string {
	text := clean(sentence)
	if of.Name != "" {
		text = strings.ReplaceAll(text, "Volume "+of.Name, "The volume")
	}
	r := []rune(text)
	if len(r) <= sentenceMost {
		return text
	}
	head := string(r[:sentenceMost])
	for _, joint := range []string{"; ", ": ", ", as ", ", "} {
		if i := strings.LastIndex(head, joint); i > sentenceMost/3 {
			return head[:i] + "."
		}
	}
	if i := strings.LastIndex(head, " "); i > sentenceMost/3 {
		head = head[:i]
	}
	return head + " ..."
}

// others says how many other volumes had findings of the same checks.
func (s *story) others(volumes []*subject, of *subject) string {
	if of == nil {
		return ""
	}
	mine, same := s.checksAbout(of), map[string]bool{}
	n := 0
	for _, other := range volumes {
		if other == of {
			continue
		}
		shared := false
		for name := range s.checksAbout(other) {
			if mine[name] {
				shared, same[name] = true, true
			}
		}
		if shared {
			n++
		}
	}
	if len(mine) == 0 || len(volumes) < 2 {
		return ""
	}
	all, names := len(volumes)-1, slices.Sorted(maps.Keys(same))
	switch n {
	case 0:
		return fmt.Sprintf("nothing of the kind was found about %s", explain.Count(all, "other volume"))
	case all:
		return fmt.Sprintf("%s had the same: %s", explain.Count(all, "other volume"), onOneLine(names))
	}
	return fmt.Sprintf("%d of %s had the same: %s", n, explain.Count(all, "other volume"), onOneLine(names))
}

func (s *story) checksAbout(of *subject) map[string]bool {
	names := map[string]bool{}
	for _, r := range s.report.Results {
		for _, f := range r.Findings {
			if of.in(f) {
				names[r.Check] = true
			}
		}
	}
	return names
}

// pick chooses the volume that the findings are about most, in the number of broken promises first; else that of the
// first victim; else the first one. It is nil where there is none.
func (s *story) pick(volumes []*subject) *subject {
	var best *subject
	broken, found := 0, 0
	for _, v := range volumes {
		n := 0
		for _, r := range s.report.Results {
			for _, f := range r.Findings {
				if v.in(f) {
					n++
				}
			}
		}
		if checks := len(s.checksAbout(v)); cmp.Or(cmp.Compare(checks, broken), cmp.Compare(n, found)) > 0 {
			best, broken, found = v, checks, n
		}
	}
	if best != nil {
		return best
	}
	for _, f := range s.faults {
		for _, v := range volumes {
			if f.Victim != "" && v.instance == f.Victim {
				return v
			}
		}
	}
	if len(volumes) == 0 {
		return nil
	}
	return volumes[0]
}
