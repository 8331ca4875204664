package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/world"
)

// acknowledged is a row that the server acknowledged, and by which database, nil where that is not certain.
type acknowledged struct {
	client int
	seq    int64
	span   history.Span
	by     *world.Process
}

// connection is what one client did on one connection: it keeps a connection until something goes wrong on it.
type connection struct {
	server      string
	first, last history.Span
	acks        []int // Indexes of acknowledged rows.
}

// rows tells of what the clients were promised, and of what was there in the end.
func (c *chronicle) rows() {
	c.connections()
	heard := map[*world.Process]bool{}
	for i, a := range c.acks {
		if heard[a.by] || a.by == nil && i > 0 {
			continue
		}
		heard[a.by] = true
		who, which := "clients", ""
		if a.by != nil {
			who, which = a.by.Node, fmt.Sprintf(" of pid %d", a.by.Pid)
		}
		c.add(entry{at: a.span.NotAfter, who: who, weight: turn,
			text: fmt.Sprintf("the database%s acknowledges its first row, seq %d", which, a.seq)})
	}
	c.finalRead()
}

// breakMost is within what time connections that break do so for one cause.
const breakMost = 5 * time.Second

// connections reads the answers that the clients were given, connection by connection. A database that certainly was
// not there at both ends of a connection did not answer on it; where one remains, it did.
func (c *chronicle) connections() {
	open := map[int]*connection{}
	var all []*connection
	var told history.Time
	for _, e := range c.s.world.Of(history.KindOp) {
		if e.Op.Instance != c.of.instance || e.Op.Stage == history.StageInvoke {
			continue
		}
		at := open[e.Op.Client]
		if e.Op.Stage != history.StageOK {
			if at != nil && e.Op.Stage == history.StageUnknown {
				weight := detail
				if told != 0 && e.Span.NotAfter.Sub(told) < breakMost {
					weight = routine // The connections of all clients break at once.
				}
				told = e.Span.NotAfter
				c.add(entry{at: e.Span.NotAfter, who: "clients", weight: weight,
					text: fmt.Sprintf("%s of seq %d has no certain outcome%s", e.Op.F, e.Op.Seq, because(e.Op.Error))})
			}
			delete(open, e.Op.Client)
			continue
		}
		if at == nil || at.server != e.Op.Server {
			at = &connection{server: e.Op.Server, first: e.Span}
			open[e.Op.Client] = at
			all = append(all, at)
		}
		at.last = e.Span
		if e.Op.F == history.OpInsert {
			at.acks = append(at.acks, len(c.acks))
			c.acks = append(c.acks, acknowledged{client: e.Op.Client, seq: e.Op.Seq, span: e.Span})
		}
	}
	for _, at := range all {
		by := c.answering(at)
		for _, i := range at.acks {
			c.acks[i].by = by
		}
	}
	slices.SortStableFunc(c.acks, func(a, b acknowledged) int {
		return int(min(max(a.span.NotAfter-b.span.NotAfter, -1), 1))
	})
}

// answering returns the one database that can have answered at both ends of a connection.
func (c *chronicle) answering(at *connection) *world.Process {
	var one *world.Process
	for _, l := range c.lives {
		if l.MaybeFrom > at.first.NotAfter || l.MaybeTo < at.last.NotBefore {
			continue
		}
		if one != nil {
			return nil
		}
		one = l
	}
	return one
}

// counted says how many rows each database acknowledged in a span.
func (c *chronicle) counted(from, to history.Time) string {
	count := map[*world.Process]int{}
	for _, a := range c.acks {
		if a.span.NotAfter >= from && a.span.NotAfter <= to {
			count[a.by]++
		}
	}
	var parts []string
	for _, l := range c.lives {
		if l.From <= to && l.To >= from {
			parts = append(parts, fmt.Sprintf("pid %d acknowledged %s", l.Pid, explain.Count(count[l], "row")))
		}
	}
	if n := count[nil]; n > 0 {
		parts = append(parts, fmt.Sprintf("one of them %d more", n))
	}
	return strings.Join(parts, " and ")
}

// rowName names a row of an instance.
type rowName struct {
	client int
	seq    int64
}

// finalRead compares what was acknowledged with what was read back, when all of it was read.
func (c *chronicle) finalRead() {
	seen, at, n := c.final()
	if seen == nil {
		return
	}
	var lost []acknowledged
	for _, a := range c.acks {
		if !seen[rowName{a.client, a.seq}] {
			lost = append(lost, a)
		}
	}
	text := fmt.Sprintf("the final read of %s finds %s", c.of.instance, explain.Count(n, "row"))
	if len(lost) == 0 {
		if len(c.acks) > 0 {
			text += fmt.Sprintf(", among them all %d that were acknowledged", len(c.acks))
		}
		c.add(entry{at: at, who: "clients", text: text, weight: turn})
		return
	}
	c.add(entry{at: at, who: "clients", text: text + ": " + c.loss(lost), weight: turn})
	first, will := lost[0], "a row"
	if len(lost) > 1 {
		will = fmt.Sprintf("the first of %d rows", len(lost))
	}
	who := "clients"
	if first.by != nil {
		who = first.by.Node
	}
	c.add(entry{at: first.span.NotAfter, who: who, weight: turn,
		text: fmt.Sprintf("seq %d is acknowledged: %s that will be lost", first.seq, will)})
}

// loss says which rows are lost, and whose word that was.
func (c *chronicle) loss(lost []acknowledged) string {
	first, last := lost[0], lost[len(lost)-1]
	by := " written"
	if first.by != nil && !slices.ContainsFunc(lost, func(a acknowledged) bool { return a.by != first.by }) {
		by = fmt.Sprintf(" written to pid %d on %s", first.by.Pid, first.by.Node)
	}
	if len(lost) == 1 {
		return fmt.Sprintf("1 OF %d ACKNOWLEDGED ROWS IS LOST, seq %d,%s at %s", len(c.acks), first.seq, by,
			c.moment(first.span.NotAfter))
	}
	return fmt.Sprintf("%d OF %d ACKNOWLEDGED ROWS ARE LOST, seq %d to %d,%s from %s to %s", len(lost), len(c.acks),
		first.seq, last.seq, by, c.moment(first.span.NotAfter), c.moment(last.span.NotAfter))
}

// final returns the rows of the final read, when it ended, and how many there were; nil when it is not whole.
func (c *chronicle) final() (map[rowName]bool, history.Time, int) {
	read := c.s.world.Reads(history.FinalRead)[c.of.instance]
	if read.Lacks() != "" {
		return nil, 0, 0
	}
	seen, n := map[rowName]bool{}, 0
	for row := range read.Rows() {
		seen[rowName{row.Client, row.Seq}] = true
		n++
	}
	return seen, read.Last.NotAfter, n
}
