package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// database is the name of the process that serves a database.
const database = "mysqld"

// processLife is one process from its start to its end, as intervals; see mountLife.
type processLife struct {
	node, pod, name string
	pid             int
	start           history.Time // As the kernel tells it: of the process, which may have had another name first.
	from, to        history.Time
	maybeFrom       history.Time
	maybeTo         history.Time
	ended           bool
	affirmed        history.Time
	run             int // In which stretch of the observer it was seen last.
	events          []int64
}

// containers is what was seen on the nodes of processes and of the volumes that containers have.
type containers struct {
	processes    []*processLife
	holdings     []*mountLife
	processSight *sight
	holdingSight *sight
}

// readContainers reads the processes and the holdings.
func readContainers(h history.History) *containers {
	c := &containers{}
	c.processSight = readSight(h, processesObserver, func(e *history.Event) (string, string, bool) {
		if e.Kind != history.KindProcess || e.Process == nil {
			return "", "", false
		}
		return e.Process.Node, "", true
	})
	c.holdingSight = readSight(h, holdingsObserver, func(e *history.Event) (string, string, bool) {
		if e.Kind != history.KindHolding || e.Holding == nil {
			return "", "", false
		}
		return e.Holding.Node, e.Holding.Boot, true
	})
	c.readProcesses(h)
	c.readHoldings(h)
	return c
}

// place returns in which stretch of an observer a fact of that moment is: the last that was on by then.
func (w *sight) place(node string, at history.Time) int {
	runs := w.runs[node]
	for i := len(runs) - 1; i > 0; i-- {
		if runs[i].on != nil && runs[i].on.Span.NotBefore <= at {
			return i
		}
	}
	return 0
}

func (c *containers) readProcesses(h history.History) {
	type key struct {
		node  string
		pid   int
		start history.Time
	}
	all := map[key]*processLife{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind != history.KindProcess || e.Process == nil {
			continue
		}
		p := e.Process
		k := key{p.Node, p.PID, p.Start}
		life := all[k]
		if p.Action == history.ProcessGone {
			if life != nil && !life.ended {
				life.ended, life.to, life.maybeTo = true, max(e.Span.NotBefore, life.from), e.Span.NotAfter
				life.events = append(life.events, e.ID)
			}
			continue
		}
		if life == nil || life.ended {
			life = &processLife{node: p.Node, name: p.Name, pid: p.PID, start: p.Start, from: e.Span.NotAfter,
				maybeFrom: min(p.Start, e.Span.NotAfter)}
			all[k] = life
			c.processes = append(c.processes, life)
		}
		life.pod = firstOf(life.pod, p.PodUID)
		life.affirmed, life.run = max(life.affirmed, e.Span.NotAfter), c.processSight.place(p.Node, e.Span.NotAfter)
		life.events = append(life.events, e.ID)
	}
	down := downs(h)
	for _, life := range c.processes {
		if life.ended {
			continue
		}
		life.to, life.maybeTo = c.processSight.end(life.node, life.run, life.affirmed)
		for _, at := range down[life.node] {
			if at >= life.to {
				life.maybeTo = min(life.maybeTo, at)
			}
		}
	}
	slices.SortStableFunc(c.processes, func(a, b *processLife) int { return cmp.Compare(a.from, b.from) })
}

// downs returns when nodes were shown to be down: by then every process on them had ended.
func downs(h history.History) map[string][]history.Time {
	down := map[string][]history.Time{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind != history.KindFault || e.Fault == nil || e.Fault.Stage != history.StageConfirmed {
			continue
		}
		if e.Fault.Name == "node-stop" || e.Fault.Name == "node-crash" {
			down[e.Fault.Node] = append(down[e.Fault.Node], e.Span.NotAfter)
		}
	}
	return down
}

// end returns until when something was certainly, and possibly, there that was not seen to go: up to the last moment
// that the observer vouches for, and no longer than to the first blind span after it was affirmed.
func (w *sight) end(node string, run int, affirmed history.Time) (to, maybeTo history.Time) {
	runs := w.runs[node]
	if run >= len(runs) {
		return affirmed, forever
	}
	s := runs[run]
	to = s.seenTo
	for _, b := range s.blind {
		if b.NotAfter > affirmed {
			to = min(to, b.NotBefore)
		}
	}
	to = max(to, affirmed)
	return to, max(to, s.over(runs, run))
}

func (c *containers) readHoldings(h history.History) {
	type key struct {
		node, boot string
		namespace  uint64
		identity   string
	}
	all := map[key]*mountLife{}
	copied := map[key]history.Time{}
	runs := map[*mountLife]int{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind != history.KindHolding || e.Holding == nil || e.Holding.Identity.Key() == "" ||
			e.Holding.PodUID == "" {
			continue // Services of the node have mounts of their own too, which follow the node's.
		}
		v := e.Holding
		k := key{v.Node, v.Boot, v.Namespace, v.Identity.Key()}
		life := all[k]
		if v.Action == history.ProcessGone {
			if life != nil && !life.ended {
				life.ended, life.to, life.maybeTo = true, max(e.Span.NotBefore, life.from), e.Span.NotAfter
				life.events = append(life.events, e.ID)
			}
			delete(copied, k)
			continue
		}
		if _, ok := placeOf(v.Path); ok {
			// A container is in the making: until it has a root of its own, its namespace is a copy of the node's, with
			// all that is mounted there, for whatever pod. The copies go when the node's mounts go.
			if _, known := copied[k]; !known {
				copied[k] = e.Span.NotBefore
			}
			continue
		}
		run := c.holdingSight.place(v.Node, e.Span.NotAfter)
		if life == nil || life.ended {
			life = &mountLife{node: v.Node, boot: v.Boot, device: v.Identity.Device, key: k.identity, root: "/",
				from:      e.Span.NotAfter,
				maybeFrom: e.Span.NotBefore, pod: v.PodUID,
				holder: fmt.Sprintf("the container of %s (pid %d)", firstOf(v.Program, "a process"), v.PID)}
			if since, ok := copied[k]; ok {
				life.maybeFrom = since
			} else if v.Action == history.ProcessPresent {
				life.maybeFrom = 0
				if list := c.holdingSight.runs[v.Node]; run < len(list) {
					life.maybeFrom = list[run].earliest(list, run)
				}
			}
			all[k] = life
			c.holdings = append(c.holdings, life)
		}
		life.paths = append(life.paths, v.Path)
		life.affirmed, runs[life] = max(life.affirmed, e.Span.NotAfter), run
		life.events = append(life.events, e.ID)
	}
	for _, life := range c.holdings {
		if !life.ended {
			life.to, life.maybeTo = c.holdingSight.end(life.node, runs[life], life.affirmed)
		}
	}
}

// String names a process as findings do.
func (p *processLife) String() string {
	return fmt.Sprintf("%s (pid %d) on node %s", p.name, p.pid, p.node)
}
