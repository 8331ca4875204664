package world

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Database is the process name of a database server.
const Database = "mysqld"

// Process is one process from its start to its end.
type Process struct {
	Life
	Name  string
	Pid   int
	start history.Time // Start time from the kernel; the process may have had another name first.
}

// String names the process, as findings print it.
func (p *Process) String() string {
	return fmt.Sprintf("%s (pid %d) on node %s", p.Name, p.Pid, p.Node)
}

// Containers holds the processes and the volumes mounted in containers, as seen on the nodes.
type Containers struct {
	Processes       []*Process
	Holdings        []*Mount
	ProcessCoverage *Coverage
	HoldingCoverage *Coverage
}

// readContainers reads the processes and the holdings.
func readContainers(w *World) *Containers {
	c := &Containers{ProcessCoverage: readCoverage(w, processesObserver, history.KindProcess,
		func(c *Coverage, e *history.Event) *Session { return c.at(e.Process.Node, "") }),
		HoldingCoverage: readCoverage(w, holdingsObserver, history.KindHolding,
			func(c *Coverage, e *history.Event) *Session { return c.at(e.Holding.Node, e.Holding.Boot) })}
	c.readProcesses(w)
	c.readHoldings(w)
	return c
}

func (c *Containers) readProcesses(w *World) {
	type key struct {
		node  string
		pid   int
		start history.Time
	}
	all := map[key]*Process{}
	for _, e := range w.Of(history.KindProcess) {
		p := e.Process
		k := key{p.Node, p.PID, p.Start}
		life := all[k]
		if p.Action == history.ProcessGone {
			if life != nil {
				life.end(e)
			}
			continue
		}
		if life == nil || life.Ended {
			life = &Process{Name: p.Name, Pid: p.PID, start: p.Start,
				Life: Life{Node: p.Node, From: e.Span.NotAfter, MaybeFrom: min(p.Start, e.Span.NotAfter),
					Present: p.Action == history.ProcessPresent}}
			all[k] = life
			c.Processes = append(c.Processes, life)
		}
		life.Pod = cmp.Or(life.Pod, p.PodUID)
		life.affirm(e, c.ProcessCoverage.place(p.Node, e.Span.NotAfter))
	}
	down := map[string][]history.Time{} // When a node was confirmed down: all of its processes had ended by then.
	facts := w.Of(history.KindFault)
	for _, e := range facts {
		if f := e.Fault; f.Stage == history.StageConfirmed &&
			slices.Contains(Takes(facts, f.Step, f.Name), plan.PartProcesses) {
			down[f.Node] = append(down[f.Node], e.Span.NotAfter)
		}
	}
	for _, life := range c.Processes {
		if life.Ended {
			continue
		}
		c.ProcessCoverage.settle(&life.Life)
		for _, at := range down[life.Node] {
			if at >= life.To {
				life.MaybeTo = min(life.MaybeTo, at)
			}
		}
	}
	slices.SortStableFunc(c.Processes, func(a, b *Process) int { return cmp.Compare(a.From, b.From) })
}

func (c *Containers) readHoldings(w *World) {
	type key struct {
		node, boot string
		namespace  uint64
		identity   string
	}
	all := map[key]*Mount{}
	type since struct {
		at      history.Time
		session int // That saw it last.
	}
	copied := map[key]since{}
	for _, e := range w.Of(history.KindHolding) {
		v := e.Holding
		if v.Identity.Key() == "" {
			continue
		}
		k := key{v.Node, v.Boot, v.Namespace, v.Identity.Key()}
		life, session := all[k], c.HoldingCoverage.place(v.Node, e.Span.NotAfter)
		was, known := copied[k]
		if known && was.session != session && (v.Action != history.ProcessPresent || was.session != session-1) {
			// Its end was missed, and its number is used again: what outlives a ledger is listed by the next one.
			delete(copied, k)
			known = false
		}
		if v.Action == history.ProcessGone {
			if life != nil {
				life.end(e)
			}
			delete(copied, k)
			continue
		}
		if _, ok := history.PlaceOf(v.Path); ok || v.PodUID == "" {
			// The container is being created: until it has a root of its own, its mount namespace is a copy of the
			// node's, with the mounts of every pod. The copies go when the node's mounts go. What is of no pod is not a
			// container, unless it is runc, which comes to the pod later.
			if !known {
				was.at = e.Span.NotBefore
			}
			copied[k] = since{was.at, session}
			continue
		}
		if life == nil || life.Ended {
			life = &Mount{boot: v.Boot, device: v.Identity.Device, Key: k.identity, Root: "/",
				Life:   Life{Node: v.Node, Pod: v.PodUID, From: e.Span.NotAfter, MaybeFrom: e.Span.NotBefore},
				Holder: fmt.Sprintf("the container of %s (pid %d)", cmp.Or(v.Program, "a process"), v.PID)}
			if known {
				life.MaybeFrom = was.at
			} else if v.Action == history.ProcessPresent {
				life.MaybeFrom = c.HoldingCoverage.since(v.Node, session)
			}
			all[k] = life
			c.Holdings = append(c.Holdings, life)
		}
		life.Paths = append(life.Paths, v.Path)
		life.affirm(e, session)
	}
	for _, life := range c.Holdings {
		c.HoldingCoverage.settle(&life.Life)
	}
}
