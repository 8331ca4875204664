package world

import (
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// The observers on the nodes, by the names in which they speak of themselves.
const (
	processesObserver     = "processes"
	holdingsObserver      = "holdings"
	csiObserver           = "csi"
	CsiControllerObserver = "csi-controller"
)

// startResolution is how much later than its start time says a node's PID 1 can have started: the kernel tells it in
// clock ticks, cut off (proc_pid_stat(5), starttime).
const startResolution = 10 * time.Millisecond

// Session is one run of an observer on one node: from one on fact to the next.
type Session struct {
	node, Boot string
	n          int          // Its place among those of the node.
	Booted     history.Span // When the boot began.
	BootKnown  bool
	on         *history.Event
	early      bool           // What there was to see on that boot before it was on, it knows too.
	idleTo     history.Time   // Up to then no container of that boot can have run.
	seenTo     history.Time   // Everything before it was seen, from on on, except in blind.
	firstBeat  history.Time   // By then the first listing was complete.
	blind      []history.Span // Gaps and losses.

	Lives []*Mount // Of the mount ledger.
	open  map[uint64]*Mount
	named map[history.Time]bool // Ends of the spans of mounts that were seen and not identified.
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
			s.seenTo = max(s.seenTo, e.Span.NotAfter) // There was nothing to miss.
			return
		}
		s.blind = append(s.blind, e.Span)
	}
}

// over is when everything that a session saw was gone, unless a later one saw it again: nothing outlives the boot, and
// a session that begins again within one boot lists anew what is there.
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

// earliest is since when something that was already there can have been there.
func (s *Session) earliest(all []*Session) history.Time {
	earliest := history.Time(0)
	if s.BootKnown {
		earliest = s.Booted.NotBefore
	}
	for _, o := range all[:s.n] {
		if o.Boot == s.Boot {
			earliest = max(earliest, o.seenTo)
		}
	}
	return earliest
}

// watched returns the spans in which the observer of a node missed nothing, or there was nothing to miss: on a node
// that is down nothing happens. It counts as down from its last sign of life (but not before the fault that explains
// it) until its PID 1 started again, and as watched from there if the observer knows what was before it was on.
// Without such a fault a node that was down cannot be told from an observer that was dead.
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

// FaultOn returns since when a fault was on its way on a node at some time in span.
func (s *Trial) FaultOn(node string, span history.Span) (history.Time, bool) {
	for _, l := range s.Faults {
		if life, ok := l.since(history.StageIntent); ok && l.Node == node && life.PossiblyOverlaps(span) {
			return life.NotBefore, true
		}
	}
	return 0, false
}

// Coverage is what the observers of one name, one on each node, say of themselves.
type Coverage struct {
	Name     string
	Sessions map[string][]*Session // By node.
	boots    *boots
}

// readCoverage reads it. The facts that those observers record are signs of life too: fact returns the session of one,
// nil if it is not theirs.
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

// boots is what observers say of boots.
type boots struct {
	began map[nodeBoot]history.Span // Of those whose own clock is not the harness's.
	idle  map[nodeBoot]history.Time // Up to when no container can have run.
}

// readBoots reads it. When the mount ledger is on, it says if neither the container runtime nor the kubelet ran yet.
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

// begin adds a session of a node.
func (c *Coverage) begin(node, boot string) *Session {
	s := &Session{node: node, Boot: boot, n: len(c.Sessions[node])}
	if s.Booted, s.BootKnown = c.boots.began[nodeBoot{node, boot}]; !s.BootKnown {
		at, ok := history.ParseBoot(boot)
		s.Booted, s.BootKnown = history.At(at), ok
	}
	c.Sessions[node] = append(c.Sessions[node], s)
	return s
}

// at returns the running session of a node, and begins one where there is none of that boot. An empty boot is that of
// the last one.
func (c *Coverage) at(node, boot string) *Session {
	all := c.Sessions[node]
	if n := len(all); n > 0 && (boot == "" || all[n-1].Boot == boot) {
		return all[n-1]
	}
	return c.begin(node, boot)
}

// place returns in which session of a node a fact of that moment is: the last that was on by then.
func (c *Coverage) place(node string, at history.Time) int {
	all := c.Sessions[node]
	for i := len(all) - 1; i > 0; i-- {
		if all[i].on != nil && all[i].on.Span.NotBefore <= at {
			return i
		}
	}
	return 0
}

// since is since when something that was there already when it was first seen can have been there.
func (c *Coverage) since(node string, session int) history.Time {
	if all := c.Sessions[node]; session < len(all) {
		return all[session].earliest(all)
	}
	return 0
}

// settle says until when something that was not seen to end was certainly, and possibly, there: up to the last moment
// that the observer vouches for, and no longer than to the first blind span after it was affirmed, in which its end may
// have been missed. A loss that only says that one mount could not be identified hides no end.
//
// It is over at the latest when the node's next boot began: nothing outlives the boot. Within one boot, a session that
// begins again lists everything anew; what it does not list is gone by its first beat.
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
	l.To = s.seenTo
	for _, b := range s.blind {
		if b.NotAfter > l.affirmed && !s.named[b.NotAfter] {
			l.To = min(l.To, b.NotBefore)
		}
	}
	l.To = max(l.To, l.affirmed)
	l.MaybeTo = max(l.To, s.over(all))
}

// On reports whether the observer was ever on on that node.
func (c *Coverage) On(node string) bool {
	return slices.ContainsFunc(c.Sessions[node], func(s *Session) bool { return s.on != nil })
}

// Holes returns the spans within window in which the observer of a node was blind, or saw a mount that it could not
// identify: that can have been a volume for as long as its whole life may have been.
func (c *Coverage) Holes(node string, window history.Span, t *Trial) []history.Span {
	var unseen []history.Span
	for _, s := range c.Sessions[node] {
		for _, b := range s.blind {
			if !s.named[b.NotAfter] {
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

// Longest returns the longest hole within window in what the observer of a node saw.
func (c *Coverage) Longest(node string, window history.Span, t *Trial) (long history.Span) {
	for _, hole := range c.Holes(node, window, t) {
		if hole.Length() > long.Length() {
			long = hole
		}
	}
	return long
}
