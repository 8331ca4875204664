package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/world"
)

// How much an entry matters to a reader: what matters least is left out first where there is no room.
const (
	routine = iota
	minor
	detail
	turn // The story cannot be understood without it.
)

// change is what an entry does to the drawing.
type change struct {
	attached, mounted int    // +1, -1 or 0.
	lives, dies       string // The uid of the pod of a database.
}

// entry is one thing that happened to the volume.
type entry struct {
	at     history.Time
	node   string // In whose column it changes something.
	who    string // The node, or who else tells.
	text   string // Empty for a mere change.
	weight int
	change change
}

// chronicle is the entries about one volume, and what they are made from.
type chronicle struct {
	s       *story
	of      *subject
	entries []entry
	lives   []*world.Process
	acks    []acknowledged
	nodes   []string // Those of the columns, in the order of their appearance.
}

// columnsMost bounds the nodes that are drawn.
const columnsMost = 4

func newChronicle(s *story, of *subject) *chronicle {
	return &chronicle{s: s, of: of}
}

func (c *chronicle) add(e entry) { c.entries = append(c.entries, e) }

// tell gathers the entries, in the order of time.
func (c *chronicle) tell() {
	c.mounts()
	c.databases()
	slices.SortStableFunc(c.entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
	for _, e := range c.entries {
		c.column(e.node)
	}
	c.calls()
	for _, e := range c.entries {
		c.column(e.node)
	}
	c.objects()
	c.faults()
	c.rows()
	slices.SortStableFunc(c.entries, func(a, b entry) int { return cmp.Compare(a.at, b.at) })
}

func (c *chronicle) column(node string) {
	if node != "" && len(c.nodes) < columnsMost && !slices.Contains(c.nodes, node) {
		c.nodes = append(c.nodes, node)
	}
}

// state is what the drawing shows at one moment.
type state struct {
	attached, mounted map[string]int
	alive             map[string]map[string]int // By node, by pod uid.
	since, both       history.Time              // Since when mounted on two nodes, and alive twice; 0 when not.
	twice, twins      bool
}

func newState() *state {
	return &state{attached: map[string]int{}, mounted: map[string]int{}, alive: map[string]map[string]int{}}
}

// take applies an entry, and returns the words that its consequences add to it.
func (st *state) take(c *chronicle, e entry) string {
	ch := e.change
	if ch != (change{}) {
		st.attached[e.node] = max(0, st.attached[e.node]+ch.attached)
		st.mounted[e.node] = max(0, st.mounted[e.node]+ch.mounted)
		if st.alive[e.node] == nil {
			st.alive[e.node] = map[string]int{}
		}
		if ch.lives != "" {
			st.alive[e.node][ch.lives]++
		}
		if ch.dies != "" && st.alive[e.node][ch.dies] > 0 {
			st.alive[e.node][ch.dies]--
		}
	}
	more := ""
	if ch.attached < 0 && st.mounted[e.node] > 0 {
		more = ", though it is still mounted there"
	}
	twice, twins := st.mountedOn() > 1, st.databases() > 1
	switch {
	case twice && !st.twice:
		st.since = e.at
		more += ": NOW ON TWO NODES AT ONCE"
	case st.twice && !twice:
		more += ", after " + explain.Lasting(e.at.Sub(st.since)) + " on two nodes at once"
	}
	switch {
	case twins && !st.twins:
		st.both = e.at
		more += ": NOW TWO OF " + c.of.instance + " RUN AT ONCE"
	case st.twins && !twins:
		more += ", after " + explain.Lasting(e.at.Sub(st.both)) + " beside another, in which " +
			c.counted(st.both, e.at)
	}
	st.twice, st.twins = twice, twins
	return more
}

func (st *state) mountedOn() int {
	n := 0
	for _, count := range st.mounted {
		if count > 0 {
			n++
		}
	}
	return n
}

// databases counts the pods of which a database runs.
func (st *state) databases() int {
	uids := map[string]bool{}
	for _, pods := range st.alive {
		for uid, n := range pods {
			if n > 0 {
				uids[uid] = true
			}
		}
	}
	return len(uids)
}

func (st *state) picture(nodes []string) string {
	var signs []string
	for _, n := range nodes {
		sign := "."
		for _, count := range st.alive[n] {
			if count > 0 {
				sign = "#"
			}
		}
		switch {
		case sign == "#":
		case st.mounted[n] > 0:
			sign = "|"
		case st.attached[n] > 0:
			sign = ":"
		}
		signs = append(signs, sign)
	}
	return strings.Join(signs, " ")
}

func (st *state) mark() string {
	switch {
	case st.twins:
		return "!!"
	case st.twice:
		return "!"
	}
	return ""
}

// line is an entry as it is drawn.
type line struct {
	entry
	picture, mark string
	alarm         bool
}

// put puts the line: the time, the drawing, the mark, who tells in a column so wide, and the text. What does not fit
// goes on below, beside the drawing.
func (l line) put(p *page, moment, who string, wide int, text string) {
	var alarm check.Verdict
	if l.alarm {
		alarm = check.Fail
	}
	p.line(cell{text: fmt.Sprintf("%*s  ", momentWide, moment)}, cell{text: l.picture, again: true, verdict: alarm},
		cell{text: "  "}, cell{text: fmt.Sprintf("%-2s", l.mark), again: true, verdict: alarm},
		cell{text: fmt.Sprintf("  %-*s  ", wide, short(who))}, cell{text: text, wide: fill})
}

// draw puts the drawing in about as many lines as there is room for: what matters least is left out first, and then the
// middle.
func (c *chronicle) draw(p *page, room int) {
	st := newState()
	var lines []line
	for _, e := range c.entries {
		more := st.take(c, e)
		if e.text == "" {
			continue
		}
		e.text += more
		lines = append(lines, line{e, st.picture(c.nodes), st.mark(), st.twice || st.twins})
	}
	drawing := c.render(p.color, lines)
	for weight := routine; weight < turn && drawing.lines() > room; weight++ {
		lines = slices.DeleteFunc(lines, func(l line) bool { return l.weight == weight })
		drawing = c.render(p.color, lines)
	}
	if drawing.lines() > room {
		middle := len(lines) / 2
		for n := 2; drawing.lines() > room && n < len(lines); n += 2 {
			drawing = c.render(p.color, lines[:middle-n/2])
			fmt.Fprintf(&drawing.b, "%*s(%d more are left out here)\n", momentWide+2, "", n)
			drawing.b.Write(c.render(p.color, lines[middle+n/2:]).b.Bytes())
		}
	}
	for i, n := range c.nodes {
		p.b.WriteString(strings.Repeat(" ", momentWide+2) + strings.Repeat("| ", i) + short(n) + "\n")
	}
	p.b.Write(drawing.b.Bytes())
}

// momentWide is the width of the column of times.
const momentWide = 11

func (c *chronicle) render(color bool, lines []line) *page {
	p := &page{color: color}
	who := 0
	for _, l := range lines {
		who = max(who, utf8.RuneCountInString(short(l.who)))
	}
	for i, l := range lines {
		if i > 0 {
			c.pause(p, lines[i-1], l, who)
		}
		l.put(p, c.moment(l.at), l.who, who, l.text)
	}
	return p
}

// longPause is from when on a chronicle says that nothing happened.
const longPause = 30 * time.Second

// pause says that some time passes, and what the clients do meanwhile.
func (c *chronicle) pause(p *page, before, after line, who int) {
	d := after.at.Sub(before.at)
	if d < longPause {
		return
	}
	n := 0
	for _, a := range c.acks {
		if a.span.NotAfter > before.at && a.span.NotAfter <= after.at {
			n++
		}
	}
	text := explain.Lasting(d) + " pass"
	if n > 0 {
		text += fmt.Sprintf("; %s acknowledges %s", c.of.instance, explain.Count(n, "row"))
	}
	before.put(p, "...", "", who, text)
}

func (c *chronicle) moment(t history.Time) string {
	return fmt.Sprintf("%+.1f s", t.Sub(c.s.start).Seconds())
}
