package world

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// Database is the name of the process that serves a database.
const Database = "mysqld"

// Process is one process from its start to its end, as intervals; see Mount.
type Process struct {
	Node, Pod, Name string
	Pid             int
	start           history.Time // As the kernel tells it: of the process, which may have had another name first.
	From, To        history.Time
	MaybeFrom       history.Time
	MaybeTo         history.Time
	Ended           bool
	affirmed        history.Time
	run             int // In which stretch of the observer it was seen last.
	Events          []int64
}

// Containers is what was seen on the nodes of processes and of the volumes that containers have.
type Containers struct {
	Processes    []*Process
	Holdings     []*Mount
	ProcessSight *Coverage
	HoldingSight *Coverage
}

// readContainers reads the processes and the holdings.
func readContainers(h *World) *Containers {
	c := &Containers{}
	c.ProcessSight = readSight(
		h,
		processesObserver,
		history.KindProcess,
		func(e *history.Event) (string, string, bool) {
			if e.Kind != history.KindProcess {
				return "", "", false
			}
			return e.Process.Node, "", true
		},
	)
	c.HoldingSight = readSight(h, holdingsObserver, history.KindHolding, func(e *history.Event) (string, string, bool) {
		if e.Kind != history.KindHolding {
			return "", "", false
		}
		return e.Holding.Node, e.Holding.Boot, true
	})
	c.readProcesses(h)
	c.readHoldings(h)
	return c
}

// Place returns in which stretch of an observer a fact of that moment is: the last that was on by then.
func (w *Coverage) Place(node string, at history.Time) int {
	runs := w.Runs[node]
	for i := len(runs) - 1; i > 0; i-- {
		if runs[i].on != nil && runs[i].on.Span.NotBefore <= at {
			return i
		}
	}
	return 0
}

func (c *Containers) readProcesses(h *World) {
	type key struct {
		node  string
		pid   int
		start history.Time
	}
	all := map[key]*Process{}
	for _, e := range h.Of(history.KindProcess) {
		p := e.Process
		k := key{p.Node, p.PID, p.Start}
		life := all[k]
		if p.Action == history.ProcessGone {
			if life != nil && !life.Ended {
				life.Ended, life.To, life.MaybeTo = true, max(e.Span.NotBefore, life.From), e.Span.NotAfter
				life.Events = append(life.Events, e.ID)
			}
			continue
		}
		if life == nil || life.Ended {
			life = &Process{Node: p.Node, Name: p.Name, Pid: p.PID, start: p.Start, From: e.Span.NotAfter,
				MaybeFrom: min(p.Start, e.Span.NotAfter)}
			all[k] = life
			c.Processes = append(c.Processes, life)
		}
		life.Pod = FirstOf(life.Pod, p.PodUID)
		life.affirmed, life.run = max(life.affirmed, e.Span.NotAfter), c.ProcessSight.Place(p.Node, e.Span.NotAfter)
		life.Events = append(life.Events, e.ID)
	}
	down := downs(h)
	for _, life := range c.Processes {
		if life.Ended {
			continue
		}
		life.To, life.MaybeTo = c.ProcessSight.end(life.Node, life.run, life.affirmed)
		for _, at := range down[life.Node] {
			if at >= life.To {
				life.MaybeTo = min(life.MaybeTo, at)
			}
		}
	}
	slices.SortStableFunc(c.Processes, func(a, b *Process) int { return cmp.Compare(a.From, b.From) })
}

// downs returns when nodes were shown to be down: by then every process on them had ended.
func downs(h *World) map[string][]history.Time {
	down := map[string][]history.Time{}
	for _, e := range h.Of(history.KindFault) {
		if e.Fault.Stage != history.StageConfirmed {
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
func (w *Coverage) end(node string, run int, affirmed history.Time) (to, maybeTo history.Time) {
	runs := w.Runs[node]
	if run >= len(runs) {
		return affirmed, Forever
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

func (c *Containers) readHoldings(h *World) {
	type key struct {
		node, boot string
		namespace  uint64
		identity   string
	}
	all := map[key]*Mount{}
	copied := map[key]history.Time{}
	runs := map[*Mount]int{}
	for _, e := range h.Of(history.KindHolding) {
		if e.Holding.Identity.Key() == "" ||
			e.Holding.PodUID == "" {
			continue
		}
		v := e.Holding
		k := key{v.Node, v.Boot, v.Namespace, v.Identity.Key()}
		life := all[k]
		if v.Action == history.ProcessGone {
			if life != nil && !life.Ended {
				life.Ended, life.To, life.MaybeTo = true, max(e.Span.NotBefore, life.From), e.Span.NotAfter
				life.Events = append(life.Events, e.ID)
			}
			delete(copied, k)
			continue
		}
		if _, ok := PlaceOf(v.Path); ok {
			// A container is in the making: until it has a root of its own, its namespace is a copy of the node's, with
			// all that is mounted there, for whatever pod. The copies go when the node's mounts go.
			if _, known := copied[k]; !known {
				copied[k] = e.Span.NotBefore
			}
			continue
		}
		run := c.HoldingSight.Place(v.Node, e.Span.NotAfter)
		if life == nil || life.Ended {
			life = &Mount{Node: v.Node, boot: v.Boot, device: v.Identity.Device, Key: k.identity, Root: "/",
				From:      e.Span.NotAfter,
				MaybeFrom: e.Span.NotBefore, Pod: v.PodUID,
				Holder: fmt.Sprintf("the container of %s (pid %d)", FirstOf(v.Program, "a process"), v.PID)}
			if since, ok := copied[k]; ok {
				life.MaybeFrom = since
			} else if v.Action == history.ProcessPresent {
				life.MaybeFrom = 0
				if list := c.HoldingSight.Runs[v.Node]; run < len(list) {
					life.MaybeFrom = list[run].earliest(list, run)
				}
			}
			all[k] = life
			c.Holdings = append(c.Holdings, life)
		}
		life.Paths = append(life.Paths, v.Path)
		life.affirmed, runs[life] = max(life.affirmed, e.Span.NotAfter), run
		life.Events = append(life.Events, e.ID)
	}
	for _, life := range c.Holdings {
		if !life.Ended {
			life.To, life.MaybeTo = c.HoldingSight.end(life.Node, runs[life], life.affirmed)
		}
	}
}

// String names a process as findings do.
func (p *Process) String() string {
	return fmt.Sprintf("%s (pid %d) on node %s", p.Name, p.Pid, p.Node)
}

// lastProcesses returns, for each pod, the end of its process that ended last.
func lastProcesses(h *World) map[string]*history.Event {
	gone := map[string]*history.Event{}
	for _, e := range h.Of(history.KindProcess) {
		if e.Process.Action != history.ProcessGone ||
			e.Process.PodUID == "" {
			continue
		}
		if old := gone[e.Process.PodUID]; old == nil || e.Span.NotBefore > old.Span.NotBefore {
			gone[e.Process.PodUID] = e
		}
	}
	return gone
}
