package world

import (
	"slices"
	"strconv"
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
	BootAt     history.Time
	BootKnown  bool
	on         *history.Event
	early      bool           // What there was to see on that boot before it was on, it knows too.
	idleTo     history.Time   // Up to then no container of that boot can have run.
	seenTo     history.Time   // Everything before it was seen, from on on, but for blind.
	firstBeat  history.Time   // By then the first listing was complete.
	blind      []history.Span // Gaps and losses.
	away       []history.Span // Gaps in which a driver did not run.
	awayTo     history.Time
}

func newStretch(node, boot string) Session {
	s := Session{node: node, Boot: boot}
	s.BootAt, s.BootKnown = ParseBoot(boot)
	return s
}

// ParseBoot reads the start of a node's PID 1 on the boot clock: a duration ("1353.010s") or a number of nanoseconds.
func ParseBoot(boot string) (history.Time, bool) {
	if ns, err := strconv.ParseInt(boot, 10, 64); err == nil {
		return history.Time(ns), ns >= 0
	}
	d, err := time.ParseDuration(boot)
	return history.Time(d), err == nil && d >= 0
}

func (s *Session) begin(on *history.Event) { s.on, s.seenTo = on, on.Span.NotAfter }

func (s *Session) observe(e *history.Event) {
	switch e.Observer.State {
	case history.ObserverBeat, history.ObserverOff:
		s.seenTo = max(s.seenTo, e.Span.NotBefore)
		if s.firstBeat == 0 {
			s.firstBeat = e.Span.NotAfter
		}
	case history.ObserverGap, history.ObserverLoss:
		s.blind = append(s.blind, e.Span)
		if e.Observer.Detail == driverAway {
			s.away, s.awayTo = append(s.away, e.Span), max(s.awayTo, e.Span.NotAfter)
		}
	}
}

// over is when everything seen in the run was gone, unless a later run saw it again: nothing outlives the boot, and a
// run that begins again within one boot lists anew what is there.
func (s *Session) over(all []*Session, i int) history.Time {
	over := Forever
	for j, o := range all {
		switch {
		case o.BootKnown && s.BootKnown && o.BootAt > s.BootAt:
			over = min(over, o.BootAt.Add(startResolution))
		case j > i && o.Boot == s.Boot && o.firstBeat != 0:
			over = min(over, o.firstBeat)
		}
	}
	return over
}

// earliest is since when something that was already there can have been there.
func (s *Session) earliest(all []*Session, i int) history.Time {
	earliest := history.Time(0)
	if s.BootKnown {
		earliest = s.BootAt
	}
	for _, o := range all[:i] {
		if o.Boot == s.Boot {
			earliest = max(earliest, o.seenTo)
		}
	}
	return earliest
}

// watched returns the spans in which the observer of a node missed nothing, or there was nothing to miss: on a node
// that is down nothing happens. It counts as down from its last sign of life (but not before the fault that explains
// it) until its PID 1 started again, and as watched from there if the observer knows what was before it was on.
// Without such a fault nobody can tell a node that was down from an observer that was dead.
func watched(runs []*Session, sc *Trial) []history.Span {
	var spans []history.Span
	for i, s := range runs {
		if s.on == nil {
			continue
		}
		spans = append(spans, history.Between(s.on.Span.NotAfter, max(s.seenTo, s.on.Span.NotAfter)))
		if !s.BootKnown || s.BootAt > s.on.Span.NotAfter {
			continue
		}
		if s.early {
			spans = append(spans, history.Between(s.BootAt, s.on.Span.NotAfter))
		}
		if s.idleTo > s.BootAt {
			spans = append(spans, history.Between(s.BootAt, s.idleTo))
		}
		if i == 0 {
			continue
		}
		down := history.Between(runs[i-1].seenTo, s.BootAt)
		if since, ok := sc.FaultOn(s.node, down); ok && runs[i-1].seenTo < s.BootAt {
			spans = append(spans, history.Between(min(s.BootAt, max(down.NotBefore, since)), s.BootAt))
		}
	}
	return spans
}

// FaultOn returns since when a fault was on its way on a node at some time in span.
func (s *Trial) FaultOn(node string, span history.Span) (history.Time, bool) {
	for _, l := range s.Faults {
		intent := l.Facts[history.StageIntent]
		if l.Node != node || intent == nil {
			continue
		}
		life := history.Span{NotBefore: intent.Span.NotBefore, NotAfter: Forever}
		if end := l.Facts[history.StageConfirmedHealed]; end != nil {
			life.NotAfter = end.Span.NotAfter
		}
		if life.PossiblyOverlaps(span) {
			return life.NotBefore, true
		}
	}
	return 0, false
}

// Coverage is what the observers of one name, one on each node, say of themselves.
type Coverage struct {
	Name string
	Runs map[string][]*Session
}

// readSight reads it. The facts that those observers tell are signs of life too: fact returns whose one is.
func readSight(
	h *World,
	name string,
	kind history.Kind,
	fact func(*history.Event) (node, boot string, ok bool),
) *Coverage {
	w := &Coverage{Name: name, Runs: map[string][]*Session{}}
	idle := idleBoots(h)
	for _, e := range h.Of(history.KindObserver, kind) {
		if e.Kind != history.KindObserver || e.Observer.Name != name {
			if node, boot, ok := fact(e); ok {
				run := w.at(node, boot)
				run.seenTo = max(run.seenTo, e.Span.NotBefore)
			}
			continue
		}
		if e.Observer.State == history.ObserverOn {
			s := newStretch(e.Observer.Node, e.Observer.Boot)
			s.idleTo = idle[nodeBoot{s.node, s.Boot}]
			s.begin(e)
			w.Runs[s.node] = append(w.Runs[s.node], &s)
			continue
		}
		w.at(e.Observer.Node, e.Observer.Boot).observe(e)
	}
	return w
}

// nodeBoot is one boot of one node.
type nodeBoot struct{ node, boot string }

// idleBoots returns up to when no container can have run on each boot: what keeps the mount ledger looks, when it is
// on, for the container runtime and the kubelet, and says so when neither ran yet.
func idleBoots(h *World) map[nodeBoot]history.Time {
	idle := map[nodeBoot]history.Time{}
	for _, e := range h.Of(history.KindObserver) {
		if e.Observer.Name != mountsObserver ||
			e.Observer.State != history.ObserverOn || !strings.Contains(e.Observer.Detail, beganEarly) {
			continue
		}
		idle[nodeBoot{e.Observer.Node, e.Observer.Boot}] = e.Span.NotBefore
	}
	return idle
}

// at returns the running stretch of a node, and begins one where there is none of that boot. An empty boot is that of
// the last one.
func (w *Coverage) at(node, boot string) *Session {
	all := w.Runs[node]
	if n := len(all); n > 0 && (boot == "" || all[n-1].Boot == boot) {
		return all[n-1]
	}
	s := newStretch(node, boot)
	w.Runs[node] = append(all, &s)
	return &s
}

// On reports whether the observer was ever on on that node.
func (w *Coverage) On(node string) bool {
	return slices.ContainsFunc(w.Runs[node], func(s *Session) bool { return s.on != nil })
}

// Holes returns the spans within window in which the observer of a node was blind.
func (w *Coverage) Holes(node string, window history.Span, s *Trial) []history.Span {
	var unseen []history.Span
	for _, run := range w.Runs[node] {
		unseen = append(unseen, run.blind...)
	}
	return Holes(window, watched(w.Runs[node], s), unseen)
}

// The observers of the API objects that StatefulSets are judged from.
const (
	ClaimsObserver    = "api/persistentvolumeclaims"
	EventsObserver    = "api/events"
	NodesObserver     = "api/nodes"
	PodsObserver      = "api/pods"
	RevisionsObserver = "api/controllerrevisions"
	SetsObserver      = "api/statefulsets"
	VolumesObserver   = "api/persistentvolumes"
)
