package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// mounts tells what the kernels had mounted. All mounts of the volume on one node are one to the reader.
func (c *chronicle) mounts() {
	ledger := c.s.world.Ledger()
	for _, node := range slices.Sorted(maps.Keys(ledger.Sessions)) {
		var ends []entry // Of the node's mounts; their text says how each ended.
		var begins []entry
		sessions := ledger.Sessions[node]
		for i, s := range sessions {
			for _, m := range s.Lives {
				if !c.of.has(m) {
					continue
				}
				begin := entry{
					at:     m.From,
					node:   node,
					who:    node,
					text:   "mounted",
					weight: turn,
					change: change{mounted: 1},
				}
				if m.Present {
					begin.text = "is mounted already when the ledger begins"
				}
				if i == 0 || !goesOn(sessions[i-1].Boot == s.Boot, sessions[i-1].Lives, m) {
					begins = append(begins, begin)
				}
				end := entry{at: m.To, node: node, who: node, weight: turn, change: change{mounted: -1}}
				_, pull := c.s.world.Pulls().Cut(m)
				last := i == len(sessions)-1
				switch {
				case pull != nil:
					end.at = pull.Event.Span.NotAfter
					end.text = "the disk is pulled out of the node while mounted: every access there is an I/O error"
				case m.Ended:
					end.text = "unmounted"
				case last:
					continue
				case sessions[i+1].Boot != s.Boot:
					end.text = "the node goes down, and the mount with it"
				case slices.ContainsFunc(sessions[i+1].Lives, func(next *world.Mount) bool { return same(m, next) }):
					continue
				default:
					end.at, end.text = m.MaybeTo, "unmounted while the ledger did not look"
				}
				ends = append(ends, end)
			}
		}
		c.mountedOn(begins, ends)
		if len(begins) > 0 {
			c.newBoots(node, begins[0].at)
		}
	}
}

// goesOn reports whether a mount is one that the session of the ledger before, on the same boot, had seen already.
func goesOn(sameBoot bool, before []*world.Mount, m *world.Mount) bool {
	return sameBoot && slices.ContainsFunc(before, func(b *world.Mount) bool { return same(b, m) })
}

// same reports whether a mount that the ledger listed when it began again is one that it had not seen end.
func same(before, m *world.Mount) bool {
	return !before.Ended && m.Present && before.Key == m.Key && slices.Equal(before.Paths[:1], m.Paths[:1])
}

// mountedOn adds the first begin, and the end after which no mount is left, of those that overlap.
func (c *chronicle) mountedOn(begins, ends []entry) {
	all := slices.Concat(begins, ends)
	slices.SortStableFunc(all, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(b.change.mounted, a.change.mounted))
	})
	n := 0
	for _, e := range all {
		was := n
		n += e.change.mounted
		if was == 0 || n == 0 {
			c.add(e)
		}
	}
}

// newBoots tells when a node spoke from a new boot, once it had had the volume.
func (c *chronicle) newBoots(node string, since history.Time) {
	boot := ""
	for _, e := range c.s.world.Of(history.KindObserver) {
		o := e.Observer
		if o.Name != "mounts" || o.Node != node || o.Boot == "" {
			continue
		}
		if boot != "" && boot != o.Boot && e.Span.NotAfter > since {
			c.add(entry{at: e.Span.NotAfter, who: node, weight: detail, text: "the node is up in a new boot"})
		}
		boot = o.Boot
	}
}

// open reports that a database was not seen to end.
func open(l *world.Process) bool { return !l.Ended && l.MaybeTo == world.Forever }

// restartMost is how soon another process of the same pod must come for the two to be told as one restart.
const restartMost = 2 * time.Second

// databases tells of the real database processes of the instance, whatever the API says.
func (c *chronicle) databases() {
	for _, p := range c.s.world.Containers().Processes {
		if p.Name == world.Database && c.s.world.Storage().PodName(p.Pod) == c.of.instance {
			c.lives = append(c.lives, p)
		}
	}
	follows := map[*world.Process]*world.Process{} // The one before, by the one after.
	followed := map[*world.Process]bool{}
	for i, b := range c.lives {
		for _, a := range c.lives[:i] {
			gap := b.From.Sub(a.To)
			if !open(a) && a.Pod == b.Pod && a.Node == b.Node && gap >= 0 && gap < restartMost && !followed[a] {
				follows[b], followed[a] = a, true
				break
			}
		}
	}
	for _, l := range c.lives {
		e := entry{at: l.From, node: l.Node, who: l.Node, weight: turn, change: change{lives: l.Pod},
			text: fmt.Sprintf("mysqld starts, pid %d", l.Pid)}
		if l.Present {
			e.text = fmt.Sprintf("mysqld runs already, pid %d", l.Pid)
		}
		if a := follows[l]; a != nil {
			e.text = fmt.Sprintf("mysqld restarts: pid %d is gone, pid %d runs", a.Pid, l.Pid)
			e.change, e.weight = change{}, detail
		}
		c.add(e)
		if !open(l) && !followed[l] {
			c.add(entry{at: l.To, node: l.Node, who: l.Node, weight: turn, change: change{dies: l.Pod},
				text: fmt.Sprintf("mysqld is gone, pid %d", l.Pid)})
		}
	}
}

// runs reports whether a database of a pod certainly runs at a moment.
func (c *chronicle) runs(uid string, at history.Time) (string, bool) {
	for _, l := range c.lives {
		if l.Pod == uid && l.From <= at && at < l.To {
			return l.Node, true
		}
	}
	return "", false
}
