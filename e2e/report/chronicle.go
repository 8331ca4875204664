package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/world"
)

const (
	chronicleMost = 64               // Lines of a chronicle.
	drawingLeast  = 24               // Lines that its drawing always gets.
	columnsMost   = 4                // Nodes that are drawn.
	foundMost     = 5                // Findings that are listed.
	sentenceMost  = 176              // Characters of each of them.
	longPause     = 30 * time.Second // From when on a chronicle says that time passes.
	momentWide    = 11               // Characters of the column of times.
)

// WriteChronicle writes what happened to one volume, in the order of time, in about 60 lines of at most 100 characters:
// the volume that the findings are about most, or, without findings, that of the first victim of a fault. A column for
// each node draws where the volume was attached and mounted and where its database ran; only what is certain is drawn.
// It ends in the verdict, what was found about the volume, and the command that reproduces the trial.
func WriteChronicle(w io.Writer, j Judged, o Options) error {
	s := newStory(j)
	volumes := podVolumes(s.World)
	of := s.pick(volumes)
	p, end := &page{color: o.Color}, &page{color: o.Color}
	s.conclude(end, volumes, of)
	if of == nil {
		s.title(p, "")
		p.blank()
		p.text("  ", "The history shows no volume of a pod, so there is nothing to tell.")
	} else {
		s.title(p, ": what happened to the volume of "+of.pod)
		p.blank()
		p.text("  volume    ", of.about())
		p.raw("  drawing   : attached to that node   | mounted there   # and its mysqld runs there   . nothing")
		p.raw("            ! mounted on two nodes at once   !! two mysqld of one pod's name run at once")
		p.blank()
		c := newChronicle(s, of)
		c.draw(p, max(chronicleMost-p.lines()-end.lines()-len(c.nodes)-1, drawingLeast))
	}
	p.b.Write(end.b.Bytes())
	return p.write(w)
}

func (p *page) lines() int { return strings.Count(p.b.String(), "\n") }

// podVolume is a volume and the name of the pod that has it.
type podVolume struct {
	*world.VolumeLife
	pod string
}

// podVolumes are the volumes of pods, in the order of the pods' ordinals.
func podVolumes(w *world.World) []*podVolume {
	var all []*podVolume
	for _, v := range w.Volumes().All {
		if owner := w.Owner(v); owner != "" {
			all = append(all, &podVolume{v, owner})
		}
	}
	ordinal := func(name string) int {
		if _, n, ok := world.OrdinalOf(name); ok {
			return n
		}
		return math.MaxInt
	}
	slices.SortStableFunc(all, func(a, b *podVolume) int {
		return cmp.Or(cmp.Compare(ordinal(a.pod), ordinal(b.pod)), cmp.Compare(a.pod, b.pod))
	})
	return all
}

// about is the volume's name, access modes and size.
func (v *podVolume) about() string {
	words := []string{v.Name}
	if v.PV != nil {
		words = append(words, world.AccessModes(v.PV.Modes), v.PV.Size)
	}
	return strings.Join(slices.DeleteFunc(words, func(w string) bool { return w == "" }), ", ")
}

// found are the findings about the volume, by check: those that name it or its pod.
func (v *podVolume) found(r check.Report) map[string][]check.Finding {
	found := map[string][]check.Finding{}
	for _, res := range r.Results {
		for _, f := range res.Findings {
			if slices.ContainsFunc(strings.Fields(f.Subject), func(word string) bool {
				return word == v.Name || word == v.pod || v.Handle != "" && word == v.Handle
			}) {
				found[res.Check] = append(found[res.Check], f)
			}
		}
	}
	return found
}

// pick chooses the volume about which the most checks found something, and of those the one with the most findings;
// without findings that of the first victim, or the first one. It is nil where there is none.
func (s *story) pick(volumes []*podVolume) *podVolume {
	var best *podVolume
	checks, findings := 0, 0
	for _, v := range volumes {
		found, n := v.found(s.Report), 0
		for _, list := range found {
			n += len(list)
		}
		if cmp.Or(cmp.Compare(len(found), checks), cmp.Compare(n, findings)) > 0 {
			best, checks, findings = v, len(found), n
		}
	}
	if best != nil || len(volumes) == 0 {
		return best
	}
	for _, f := range s.faults {
		for _, v := range volumes {
			if v.pod == f.Victim {
				return v
			}
		}
	}
	return volumes[0]
}

// conclude puts the verdict and what was found about the volume: the first finding of each check, then others.
func (s *story) conclude(p *page, volumes []*podVolume, of *podVolume) {
	s.verdict(p)
	var sentences, more []string
	if of != nil {
		found := of.found(s.Report)
		for _, r := range s.Report.Results {
			for i, f := range found[r.Check] {
				if sentence := of.shorten(f.Sentence); i == 0 {
					sentences = append(sentences, sentence)
				} else {
					more = append(more, sentence)
				}
			}
		}
		sentences = append(sentences, more...)
		sentences = sentences[:min(len(sentences), foundMost)]
	}
	for i, sentence := range sentences {
		p.text(fmt.Sprintf("        %d. ", i+1), sentence)
	}
	if len(sentences) == 0 {
		p.text("because:   ", s.why())
	} else if len(volumes) > 1 {
		p.text("others:    ", s.others(volumes, of))
	}
	for _, warning := range s.Warnings {
		p.text("WARNING:   ", warning)
	}
	p.text("reproduce: ", s.reproduce())
}

// others says how many other volumes had findings of the same checks.
func (s *story) others(volumes []*podVolume, of *podVolume) string {
	mine, same, n := of.found(s.Report), map[string]bool{}, 0
	for _, other := range volumes {
		shared := false
		for name := range other.found(s.Report) {
			if other != of && mine[name] != nil {
				shared, same[name] = true, true
			}
		}
		if shared {
			n++
		}
	}
	all := plan.Count(len(volumes)-1, "other volume")
	if n == 0 {
		return "nothing of the kind was found about " + all
	}
	if n < len(volumes)-1 {
		all = fmt.Sprintf("%d of %s", n, all)
	}
	return fmt.Sprintf("%s had the same: %s", all, onOneLine(slices.Sorted(maps.Keys(same))))
}

// shorten returns the begin of a sentence: to its end, or to the last joint before it becomes too long.
func (v *podVolume) shorten(sentence string) string {
	text := clean(sentence)
	if v.Name != "" {
		text = strings.ReplaceAll(text, "Volume "+v.Name, "The volume")
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

// Without a turn the story cannot be understood; a detail is left out where there is no room.
const (
	detail = false
	turn   = true
)

// entry is one thing that happened to the volume.
type entry struct {
	at     history.Time
	who    string // The node, or who else tells.
	isTurn bool
	text   string
}

// The states of a volume on a node, and the signs that draw them.
const (
	attached = ":"
	mounted  = "|"
	running  = "#" // A database of the pod's name runs.
)

// presence is a time in which a state certainly held on a node.
type presence struct {
	state, node string
	pod         string // The uid, of a database.
	from, to    history.Time
}

// chronicle is the entries about one volume, and what they are made from.
type chronicle struct {
	s        *story
	of       *podVolume
	entries  []entry
	presence []presence
	lives    []*world.Process
	acks     []acknowledged
	nodes    []string // Those of the columns, in the order of their appearance.
}

func newChronicle(s *story, of *podVolume) *chronicle {
	c := &chronicle{s: s, of: of}
	c.mounts()
	c.databases()
	c.columns()
	c.calls()
	c.columns()
	c.objects()
	c.faults()
	c.rows()
	slices.SortStableFunc(c.entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	return c
}

func (c *chronicle) add(at history.Time, who string, isTurn bool, format string, args ...any) {
	c.entries = append(c.entries, entry{at, who, isTurn, fmt.Sprintf(format, args...)})
}

// columns gives each node that had the volume a column.
func (c *chronicle) columns() {
	slices.SortStableFunc(c.presence, func(a, b presence) int { return cmp.Compare(a.from, b.from) })
	for _, there := range c.presence {
		if len(c.nodes) < columnsMost && !slices.Contains(c.nodes, there.node) {
			c.nodes = append(c.nodes, there.node)
		}
	}
}

// during returns what held at a moment: of a state, or of all.
func (c *chronicle) during(at history.Time, state string) []presence {
	return slices.DeleteFunc(slices.Clone(c.presence), func(p presence) bool {
		return state != "" && p.state != state || at < p.from || at >= p.to
	})
}

// line is an entry as it is drawn.
type line struct {
	entry
	picture, mark string
}

// put puts the line: the time, the drawing, the mark, who tells in a column so wide, and the text. What does not fit
// goes on below, beside the drawing.
func (l line) put(p *page, moment, who string, wide int, text string) {
	var alarm check.Verdict
	if l.mark != "" {
		alarm = check.Fail
	}
	p.line(cell{text: fmt.Sprintf("%*s  ", momentWide, moment)}, cell{text: l.picture, again: true, verdict: alarm},
		cell{text: "  "}, cell{text: fmt.Sprintf("%-2s", l.mark), again: true, verdict: alarm},
		cell{text: fmt.Sprintf("  %-*s  ", wide, short(who))}, cell{text: text, wide: fill})
}

// lines draws the entries. One with which the volume comes to be on two nodes, or a second database to run, says so,
// and so does the one that ends it.
func (c *chronicle) lines() []line {
	var all []line
	var twiceSince, twinsSince history.Time
	twice, twins := false, false
	for _, e := range c.entries {
		nodes, pods := map[string]bool{}, map[string]bool{}
		for _, there := range c.during(e.at, mounted) {
			nodes[there.node] = true
		}
		for _, there := range c.during(e.at, running) {
			pods[there.pod] = true
		}
		l := line{entry: e}
		if now := len(nodes) > 1; now != twice {
			if twice = now; now {
				twiceSince = e.at
				l.text += ": NOW ON TWO NODES AT ONCE"
			} else {
				l.text += ", after " + explain.Lasting(e.at.Sub(twiceSince)) + " on two nodes at once"
			}
		}
		if now := len(pods) > 1; now != twins {
			if twins = now; now {
				twinsSince = e.at
				l.text += ": NOW TWO OF " + c.of.pod + " RUN AT ONCE"
			} else {
				l.text += ", after " + explain.Lasting(e.at.Sub(twinsSince)) + " beside another, in which " +
					c.counted(twinsSince, e.at)
			}
		}
		switch {
		case twins:
			l.mark = "!!"
		case twice:
			l.mark = "!"
		}
		l.picture = c.picture(e.at)
		all = append(all, l)
	}
	return all
}

// picture is the sign of each node at a moment.
func (c *chronicle) picture(at history.Time) string {
	order := []string{".", attached, mounted, running}
	var signs []string
	for _, node := range c.nodes {
		sign := 0
		for _, there := range c.during(at, "") {
			if there.node == node {
				sign = max(sign, slices.Index(order, there.state))
			}
		}
		signs = append(signs, order[sign])
	}
	return strings.Join(signs, " ")
}

// draw puts the drawing in about as many lines as there is room for: details are left out first, and then the middle.
func (c *chronicle) draw(p *page, room int) {
	lines := c.lines()
	drawing := c.render(p.color, lines)
	if drawing.lines() > room {
		lines = slices.DeleteFunc(lines, func(l line) bool { return !l.isTurn })
		drawing = c.render(p.color, lines)
	}
	middle := len(lines) / 2
	for n := 2; drawing.lines() > room && n < len(lines); n += 2 {
		drawing = c.render(p.color, lines[:middle-n/2])
		fmt.Fprintf(&drawing.b, "%*s(%d more are left out here)\n", momentWide+2, "", n)
		drawing.b.Write(c.render(p.color, lines[middle+n/2:]).b.Bytes())
	}
	for i, n := range c.nodes {
		p.b.WriteString(strings.Repeat(" ", momentWide+2) + strings.Repeat("| ", i) + short(n) + "\n")
	}
	p.b.Write(drawing.b.Bytes())
}

// render draws lines, and between two of them that much time passed and what the clients did meanwhile.
func (c *chronicle) render(color bool, lines []line) *page {
	p := &page{color: color}
	who := 0
	for _, l := range lines {
		who = max(who, utf8.RuneCountInString(short(l.who)))
	}
	for i, l := range lines {
		if i > 0 && l.at.Sub(lines[i-1].at) >= longPause {
			before := lines[i-1]
			text := explain.Lasting(l.at.Sub(before.at)) + " pass"
			n := 0
			for _, a := range c.acks {
				if a.span.NotAfter > before.at && a.span.NotAfter <= l.at {
					n++
				}
			}
			if n > 0 {
				text += fmt.Sprintf("; %s acknowledges %s", c.of.pod, plan.Count(n, "row"))
			}
			before.put(p, "...", "", who, text)
		}
		l.put(p, c.moment(l.at), l.who, who, l.text)
	}
	return p
}

func (c *chronicle) moment(t history.Time) string {
	return fmt.Sprintf("%+.1f s", t.Sub(c.s.start).Seconds())
}
