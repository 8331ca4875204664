package report

import (
	"fmt"
	"math"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// databaseLife is one mysqld of the instance: when it certainly, and when it possibly, was there.
type databaseLife struct {
	node, pod         string
	pid               int
	certain, possibly history.Span
	open, present     bool
}

// boots follows which boot of each node speaks, and until when it was heard.
type boots struct {
	boot map[string]string
	seen map[string]history.Time
}

func newBoots() *boots { return &boots{boot: map[string]string{}, seen: map[string]history.Time{}} }

// hears takes in what an observer says of itself. It returns true with the last sign of the boot before when a node
// speaks from a new one: whatever was there ended with that boot.
func (b *boots) hears(e *history.Event, name string) (history.Time, bool) {
	o := e.Observer
	if o == nil || o.Name != name || o.Node == "" || o.Boot == "" {
		return 0, false
	}
	before, last := b.boot[o.Node], b.seen[o.Node]
	b.boot[o.Node] = o.Boot
	if before != "" && before != o.Boot {
		b.seen[o.Node] = e.Span.NotBefore
		return last, true
	}
	b.seen[o.Node] = max(last, e.Span.NotBefore)
	return 0, false
}

// openMount names a mount that is there.
type openMount struct {
	node, boot string
	id         uint64
}

// ledger follows the mounts of the volume.
type ledger struct {
	c     *chronicle
	open  map[openMount]bool // False for one that a ledger which began again has not named yet.
	dead  map[openMount]bool // Those whose disk was pulled out of the node: they are there and reach nothing.
	count map[string]int     // By node.
	boots *boots
}

// mounts tells what the kernels had mounted. All mounts of the volume on one node are one to the reader.
func (c *chronicle) mounts() {
	l := &ledger{
		c: c, open: map[openMount]bool{}, dead: map[openMount]bool{}, count: map[string]int{}, boots: newBoots(),
	}
	for i := range c.s.history.Events {
		e := &c.s.history.Events[i]
		if e.Mount != nil {
			l.mount(e)
			continue
		}
		if e.Pull != nil {
			l.pull(e)
			continue
		}
		if e.Observer == nil || e.Observer.Name != "mounts" {
			continue
		}
		last, anew := l.boots.hears(e, "mounts")
		if anew {
			l.closeAll(e.Observer.Node, func(m openMount) bool { return m.boot != e.Observer.Boot }, last,
				"the node goes down, and the mount with it")
			if _, ours := l.count[e.Observer.Node]; ours {
				c.add(entry{at: e.Span.NotAfter, who: e.Observer.Node, weight: detail,
					text: "the node is up in a new boot"})
			}
			continue
		}
		switch e.Observer.State {
		case history.ObserverOn:
			for m := range l.open {
				if m.node == e.Observer.Node {
					l.open[m] = false
				}
			}
		case history.ObserverBeat:
			l.closeAll(e.Observer.Node, func(m openMount) bool { return !l.open[m] }, e.Span.NotBefore,
				"unmounted while the ledger did not look")
		}
	}
}

func (l *ledger) mount(e *history.Event) {
	m := openMount{e.Mount.Node, e.Mount.Boot, e.Mount.MountID}
	_, there := l.open[m]
	if e.Mount.Action == history.MountDetach {
		if there {
			l.closeAll(m.node, func(o openMount) bool { return o == m }, e.Span.NotBefore, "unmounted")
		}
		return
	}
	if !there && !l.c.of.has(e.Mount) || l.dead[m] {
		return
	}
	l.open[m] = true
	if there {
		return
	}
	if l.count[m.node]++; l.count[m.node] > 1 {
		return
	}
	text := "mounted"
	if e.Mount.Action == history.MountPresent {
		text = "is mounted already when the ledger begins"
	}
	l.c.add(entry{at: e.Span.NotAfter, node: m.node, who: m.node, text: text, weight: turn, change: change{mounted: 1}})
}

// pull ends the mounts of a disk that was pulled out of its node, if that was shown.
func (l *ledger) pull(e *history.Event) {
	if !e.Pull.Proven() || !l.c.of.keys[e.Pull.Identity.Key()] {
		return
	}
	for m := range l.open {
		l.dead[m] = l.dead[m] || m.node == e.Pull.Node && m.boot == e.Pull.Boot
	}
	l.closeAll(e.Pull.Node, func(m openMount) bool { return l.dead[m] }, e.Span.NotAfter,
		"the disk is pulled out of the node while mounted: every access there is an I/O error")
}

// closeAll ends the mounts of a node that are meant, and says so when none is left.
func (l *ledger) closeAll(node string, is func(openMount) bool, at history.Time, text string) {
	closed := false
	for m := range l.open {
		if m.node == node && is(m) {
			delete(l.open, m)
			l.count[node]--
			closed = true
		}
	}
	if closed && l.count[node] == 0 {
		l.c.add(entry{at: at, node: node, who: node, text: text, weight: turn, change: change{mounted: -1}})
	}
}

// databases tells of the real database processes of the instance, whatever the API says.
func (c *chronicle) databases() {
	type key struct {
		node  string
		pid   int
		start history.Time
	}
	open := map[key]*databaseLife{}
	heard := newBoots()
	for i := range c.s.history.Events {
		e := &c.s.history.Events[i]
		if e.Observer != nil {
			if last, anew := heard.hears(e, "processes"); anew {
				for k, l := range open {
					if k.node == e.Observer.Node {
						l.ends(last, e.Span.NotBefore)
						delete(open, k)
					}
				}
			}
		}
		p := e.Process
		if p == nil || p.Name != "mysqld" || c.cast.pods[p.PodUID] != c.of.instance || c.of.instance == "" {
			continue
		}
		k := key{p.Node, p.PID, p.Start}
		l := open[k]
		switch {
		case p.Action == history.ProcessGone && l != nil:
			l.ends(e.Span.NotBefore, e.Span.NotAfter)
			delete(open, k)
		case p.Action != history.ProcessGone && l == nil:
			open[k] = &databaseLife{node: p.Node, pod: p.PodUID, pid: p.PID, open: true,
				present:  p.Action == history.ProcessPresent,
				certain:  history.Span{NotBefore: e.Span.NotAfter, NotAfter: math.MaxInt64},
				possibly: history.Span{NotBefore: min(p.Start, e.Span.NotAfter), NotAfter: math.MaxInt64}}
			c.lives = append(c.lives, open[k])
		}
	}
	c.tellDatabases()
}

func (l *databaseLife) ends(last, over history.Time) {
	l.open = false
	l.certain.NotAfter = max(last, l.certain.NotBefore)
	l.possibly.NotAfter = max(over, l.certain.NotAfter)
}

// restartMost is how soon another process of the same pod must come for the two to be told as one restart.
const restartMost = 2 * time.Second

func (c *chronicle) tellDatabases() {
	follows := map[*databaseLife]*databaseLife{} // The one before, by the one after.
	followed := map[*databaseLife]bool{}
	for i, b := range c.lives {
		for _, a := range c.lives[:i] {
			gap := b.certain.NotBefore.Sub(a.certain.NotAfter)
			if !a.open && a.pod == b.pod && a.node == b.node && gap >= 0 && gap < restartMost && !followed[a] {
				follows[b], followed[a] = a, true
				break
			}
		}
	}
	for _, l := range c.lives {
		e := entry{at: l.certain.NotBefore, node: l.node, who: l.node, weight: turn, change: change{lives: l.pod},
			text: fmt.Sprintf("mysqld starts, pid %d", l.pid)}
		if l.present {
			e.text = fmt.Sprintf("mysqld runs already, pid %d", l.pid)
		}
		if a := follows[l]; a != nil {
			e.text = fmt.Sprintf("mysqld restarts: pid %d is gone, pid %d runs", a.pid, l.pid)
			e.change, e.weight = change{}, detail
		}
		c.add(e)
		if !l.open && !followed[l] {
			c.add(entry{at: l.certain.NotAfter, node: l.node, who: l.node, weight: turn, change: change{dies: l.pod},
				text: fmt.Sprintf("mysqld is gone, pid %d", l.pid)})
		}
	}
}

// runs reports whether a database of a pod certainly runs at a moment.
func (c *chronicle) runs(uid string, at history.Time) (string, bool) {
	for _, l := range c.lives {
		if l.pod == uid && l.certain.NotBefore <= at && at < l.certain.NotAfter {
			return l.node, true
		}
	}
	return "", false
}
