package world

import (
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// Names of the node observers, as their observer facts carry them.
const (
	processesObserver     = "processes"
	holdingsObserver      = "holdings"
	csiObserver           = "csi"
	CsiControllerObserver = "csi-controller"
)

// startResolution bounds how far a process start time is rounded down: the kernel truncates it to clock ticks
// (proc_pid_stat(5), starttime).
const startResolution = 10 * time.Millisecond

// Session is one run of an observer on one node: from one "on" fact to the next.
type Session struct {
	node, Boot string
	n          int          // Index among the node's sessions.
	Booted     history.Span // When the boot began.
	BootKnown  bool
	on         *history.Event
	early      bool           // It also covers the boot from its begin to the "on" fact.
	idleTo     history.Time   // No container of the boot can have run before this.
	seenTo     history.Time   // It saw everything from "on" to here, except in blind.
	firstBeat  history.Time   // The first listing was complete by this time.
	blind      []history.Span // Gaps and losses.

	Lives        []*Mount // Mounts, if this is a session of the mount ledger.
	open         map[uint64]*Mount
	unidentified map[history.Time]bool // Span ends of mounts that were seen but not identified.
}

func (s *Session) observe(e *history.Event) {
	switch e.Observer.State {
	case history.ObserverBeat, history.ObserverOff:
		s.seenTo = max(s.seenTo, e.Span.NotBefore)
		if s.firstBeat == 0 {
			s.firstBeat = e.Span.NotAfter
		}
	case history.ObserverGap, history.ObserverLoss:
		if e.Observer.Detail == driverAway {
			s.seenTo = max(s.seenTo, e.Span.NotAfter) // A stopped driver makes no calls to miss.
			return
		}
		s.blind = append(s.blind, e.Span)
	}
}

// over returns when everything that the session saw was gone, unless a later session saw it again: nothing outlives
// the boot, and a later session of the same boot lists everything that is still there.
func (s *Session) over(all []*Session) history.Time {
	over := Forever
	for _, o := range all {
		switch {
		case o.BootKnown && s.BootKnown && o.Booted.NotBefore > s.Booted.NotAfter:
			over = min(over, o.Booted.NotAfter.Add(startResolution))
		case o.n > s.n && o.Boot == s.Boot && o.firstBeat != 0:
			over = min(over, o.firstBeat)
		}
	}
	return over
}

// earliest returns the earliest time from which something already present at the begin of s can have existed.
func (s *Session) earliest(all []*Session) history.Time {
	earliest := history.Time(0)
	if s.BootKnown {
		earliest = s.Booted.NotBefore
	}
	for _, o := range all[:s.n] {
		if o.Boot == s.Boot {
			earliest = max(earliest, o.surelyTo(0))
		}
	}
	return earliest
}

// surelyTo returns up to when the session certainly saw every change after since: the first blind span may hide one. A
// loss that only says that one mount could not be identified hides none.
func (s *Session) surelyTo(since history.Time) history.Time {
	to := s.seenTo
	for _, b := range s.blind {
		if b.NotAfter > since && !s.unidentified[b.NotAfter] {
			to = min(to, b.NotBefore)
		}
	}
	return to
}

// watched returns the spans in which a node's observer missed nothing. Time in which the node was down counts as
// watched, since nothing happens there: from its last sign of life, but not before the fault that explains it, until
// its PID 1 started again. From there the span goes on if the observer covers the boot before its "on" fact. Without
// such a fault, a node that was down looks the same as a dead observer and is not watched.
func watched(all []*Session, t *Trial) []history.Span {
	var spans []history.Span
	for i, s := range all {
		if s.on == nil {
			continue
		}
		spans = append(spans, history.Between(s.on.Span.NotAfter, max(s.seenTo, s.on.Span.NotAfter)))
		boot := s.Booted.NotBefore
		if !s.BootKnown || boot > s.on.Span.NotAfter {
			continue
		}
		if s.early {
			spans = append(spans, history.Between(boot, s.on.Span.NotAfter))
		}
		if s.idleTo > boot {
			spans = append(spans, history.Between(boot, s.idleTo))
		}
		if i == 0 {
			continue
		}
		down := history.Between(all[i-1].seenTo, boot)
		if since, ok := t.FaultOn(s.node, down); ok && all[i-1].seenTo < boot {
			spans = append(spans, history.Between(min(boot, max(down.NotBefore, since)), boot))
		}
	}
	return spans
}

// FaultOn returns the begin of the last fault that ends the boot of a node and whose life, from intent to confirmed
// healing, overlaps span.
func (s *Trial) FaultOn(node string, span history.Span) (history.Time, bool) {
	for _, l := range slices.Backward(s.Faults) {
		life, ok := l.since(history.StageIntent)
		if ok && l.Node == node && life.PossiblyOverlaps(span) && l.endsBoot() {
			return life.NotBefore, true
		}
	}
	return 0, false
}

// Coverage holds the sessions of the observers of one name, one observer on each node.
type Coverage struct {
	Name     string
	Sessions map[string][]*Session // By node.
	boots    *boots
}

// readCoverage reads the sessions of the observer called name. The facts that it records are signs of life too: fact
// returns the session of one, nil if another observer recorded it.
func readCoverage(
	w *World, name string, kind history.Kind, fact func(c *Coverage, e *history.Event) *Session,
) *Coverage {
	c := &Coverage{Name: name, Sessions: map[string][]*Session{}, boots: once(w, readBoots)}
	for _, e := range w.Of(history.KindObserver, kind) {
		switch {
		case e.Kind == kind:
			if s := fact(c, e); s != nil {
				s.seenTo = max(s.seenTo, e.Span.NotBefore)
			}
		case e.Observer.Name != name:
		case e.Observer.State == history.ObserverOn:
			s := c.begin(e.Observer.Node, e.Observer.Boot)
			s.on, s.seenTo, s.idleTo = e, e.Span.NotAfter, c.boots.idle[nodeBoot{s.node, s.Boot}]
		default:
			c.at(e.Observer.Node, e.Observer.Boot).observe(e)
		}
	}
	return c
}

// nodeBoot is one boot of one node.
type nodeBoot struct{ node, boot string }

// boots holds what observer facts say about boots.
type boots struct {
	began map[nodeBoot]history.Span // Boots of nodes whose clock is not the harness's.
	idle  map[nodeBoot]history.Time // No container can have run before this.
}

// readBoots reads the observer facts. The mount ledger's "on" fact says whether it started before the container runtime
// and the kubelet.
func readBoots(w *World) *boots {
	b := &boots{map[nodeBoot]history.Span{}, map[nodeBoot]history.Time{}}
	for _, e := range w.Of(history.KindObserver) {
		o := e.Observer
		key := nodeBoot{o.Node, o.Boot}
		if o.Booted != nil {
			b.began[key] = *o.Booted
		}
		if o.Name == mountsObserver && o.State == history.ObserverOn && strings.Contains(o.Detail, beganEarly) {
			b.idle[key] = e.Span.NotBefore
		}
	}
	return b
}

// begin adds a session to a node.
func (c *Coverage) begin(node, boot string) *Session {
	s := &Session{node: node, Boot: boot, n: len(c.Sessions[node])}
	if s.Booted, s.BootKnown = c.boots.began[nodeBoot{node, boot}]; !s.BootKnown {
		at, ok := history.ParseBoot(boot)
		s.Booted, s.BootKnown = history.At(at), ok
	}
	c.Sessions[node] = append(c.Sessions[node], s)
	return s
}

// at returns the running session of a node, and begins one if the last is of another boot. An empty boot means that of
// the last session.
func (c *Coverage) at(node, boot string) *Session {
	all := c.Sessions[node]
	if n := len(all); n > 0 && (boot == "" || all[n-1].Boot == boot) {
		return all[n-1]
	}
	return c.begin(node, boot)
}

// place returns the index of the session that covers a fact at that time: the last one that was on by then.
func (c *Coverage) place(node string, at history.Time) int {
	all := c.Sessions[node]
	for i := len(all) - 1; i > 0; i-- {
		if all[i].on != nil && all[i].on.Span.NotBefore <= at {
			return i
		}
	}
	return 0
}

// since returns the earliest time from which something already present when it was first seen can have existed.
func (c *Coverage) since(node string, session int) history.Time {
	if all := c.Sessions[node]; session < len(all) {
		return all[session].earliest(all)
	}
	return 0
}

// settle sets To and MaybeTo of a life whose end was not seen. It was certainly there until the observer's last sign of
// life, but no later than the first blind span after it was last affirmed, which may hide its end.
//
// Nothing outlives the boot, so MaybeTo is at most the begin of the node's next boot. Within one boot, a new session
// lists everything again: what it does not list is gone by its first beat.
func (c *Coverage) settle(l *Life) {
	all := c.Sessions[l.Node]
	switch {
	case l.Ended:
		return
	case l.session >= len(all):
		l.To, l.MaybeTo = l.affirmed, Forever
		return
	}
	s := all[l.session]
	l.To = max(s.surelyTo(l.affirmed), l.affirmed)
	l.MaybeTo = max(l.To, s.over(all))
}

// On reports whether the observer ever ran on a node.
func (c *Coverage) On(node string) bool {
	return slices.ContainsFunc(c.Sessions[node], func(s *Session) bool { return s.on != nil })
}

// Holes returns the spans within window in which the observer of a node was blind, or a mount that it could not
// identify may have existed: that mount can have been a volume.
func (c *Coverage) Holes(node string, window history.Span, t *Trial) []history.Span {
	var unseen []history.Span
	for _, s := range c.Sessions[node] {
		for _, b := range s.blind {
			if !s.unidentified[b.NotAfter] {
				unseen = append(unseen, b)
			}
		}
		for _, m := range s.Lives {
			if m.Unknown {
				unseen = append(unseen, m.Possible())
			}
		}
	}
	return Holes(window, watched(c.Sessions[node], t), unseen)
}

// Longest returns the longest of Holes, zero if there is none.
func (c *Coverage) Longest(node string, window history.Span, t *Trial) (long history.Span) {
	for _, hole := range c.Holes(node, window, t) {
		if hole.Length() > long.Length() {
			long = hole
		}
	}
	return long
}
