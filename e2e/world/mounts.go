package world

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// mountsObserver is the name by which the mount ledger speaks of itself.
const mountsObserver = "mounts"

// beganEarly is in the detail of an on fact that says that neither the container runtime nor the kubelet ran yet when
// the ledger of that boot began to see.
const beganEarly = "; before "

// Mount is one mount from its appearance to its end, as intervals. It was certainly there in [from, to) and can
// only have been there in [maybeFrom, maybeTo).
type Mount struct {
	Node      string
	boot      string
	device    string // Identity.Device; "" when it was never identified.
	Key       string // Identity.Key, the same.
	Root      string
	Paths     []string
	From, To  history.Time
	MaybeFrom history.Time
	MaybeTo   history.Time
	Unknown   bool
	Ended     bool // A detach was seen.
	affirmed  history.Time
	present   bool
	Events    []int64
	Pod       string // The uid of the pod it is for, "" where the path does not say.
	Holder    string // For a volume that a container has: who. "" for a mount of the node's own.
}

// session is one run of the ledger on one node. Mount ids are told apart within it, so that a way of watching which
// counts mounts from one again after a restart confuses nobody.
type ledgerSession struct {
	Session
	open  map[uint64]*Mount
	Lives []*Mount
	named map[history.Time]bool // Ends of the spans of mounts that were seen and not identified.
}

// Ledger is what the ledgers of all nodes say.
type Ledger struct {
	nodes    []string // In order.
	Sessions map[string][]*ledgerSession
	Lives    []*Mount
}

// readLedger puts the mount facts and what the ledgers say of themselves together.
func readLedger(h *World) *Ledger {
	l := &Ledger{Sessions: map[string][]*ledgerSession{}}
	for _, e := range h.Of(history.KindMount, history.KindObserver) {
		switch {
		case e.Kind == history.KindMount:
			l.at(e.Mount.Node, e.Mount.Boot).mount(e)
		case e.Observer.Name == mountsObserver:
			if e.Observer.State == history.ObserverOn {
				l.begin(e)
				continue
			}
			l.at(e.Observer.Node, e.Observer.Boot).observe(e)
		}
	}
	for node, sessions := range l.Sessions {
		l.nodes = append(l.nodes, node)
		runs := stretches(sessions)
		for i, s := range sessions {
			s.settleLives(runs, i)
		}
	}
	slices.Sort(l.nodes)
	for _, node := range l.nodes {
		for _, s := range l.Sessions[node] {
			l.Lives = append(l.Lives, s.Lives...)
		}
	}
	return l
}

func (l *Ledger) begin(e *history.Event) {
	s := newSession(e.Observer.Node, e.Observer.Boot)
	s.begin(e)
	s.early = strings.Contains(e.Observer.Detail, beganEarly)
	l.Sessions[s.node] = append(l.Sessions[s.node], s)
}

// at returns the running session of a node, and begins one that has no on fact where there is none of that boot.
func (l *Ledger) at(node, boot string) *ledgerSession {
	all := l.Sessions[node]
	if n := len(all); n > 0 && all[n-1].Boot == boot {
		return all[n-1]
	}
	s := newSession(node, boot)
	l.Sessions[node] = append(all, s)
	return s
}

func newSession(node, boot string) *ledgerSession {
	return &ledgerSession{Session: newStretch(node, boot), open: map[uint64]*Mount{}, named: map[history.Time]bool{}}
}

// stretches returns the runs of the ledger on one node.
func stretches(sessions []*ledgerSession) []*Session {
	runs := make([]*Session, 0, len(sessions))
	for _, s := range sessions {
		runs = append(runs, &s.Session)
	}
	return runs
}

// mount takes one mount fact in. The facts of one ledger come in the kernel's order, so everything before the
// earliest moment of this one was seen.
func (s *ledgerSession) mount(e *history.Event) {
	m := e.Mount
	s.seenTo = max(s.seenTo, e.Span.NotBefore)
	life := s.open[m.MountID]
	if m.Action == history.MountDetach {
		if life != nil {
			life.Ended, life.To, life.MaybeTo = true, e.Span.NotBefore, e.Span.NotAfter
			life.Events = append(life.Events, e.ID)
			delete(s.open, m.MountID)
		}
		return
	}
	if life == nil {
		life = &Mount{Node: s.node, boot: s.Boot, From: e.Span.NotAfter, MaybeFrom: e.Span.NotBefore, Unknown: true,
			MaybeTo: Forever}
		if m.Action == history.MountPresent {
			life.present = true
			life.MaybeFrom = 0 // Since when is not known; settleLives narrows it.
		}
		s.open[m.MountID] = life
		s.Lives = append(s.Lives, life)
	}
	life.affirmed = max(life.affirmed, e.Span.NotAfter)
	life.Events = append(life.Events, e.ID)
	life.Paths = append(life.Paths, m.Path)
	if p, ok := PlaceOf(m.Path); ok {
		life.Pod = FirstOf(life.Pod, p.Pod)
	}
	if key := m.Identity.Key(); key != "" && !m.Unknown && life.Unknown {
		life.Unknown, life.Key, life.Root, life.device = false, key, m.Root, m.Identity.Device
	}
	if m.Unknown {
		s.named[e.Span.NotAfter] = true
	}
}

// settleLives says until when mounts without a detach were certainly, and possibly, there.
//
// Such a mount is certain up to the last moment that its ledger vouches for, and no longer than to the first blind
// span after it was last affirmed: its detach may be what was missed. A loss that only says that one mount could not
// be identified hides no detach and ends nothing.
//
// It is over at the latest when the node's next boot began: a mount namespace dies with the processes in it. Within
// one boot, a ledger that begins again lists every mount anew; what it does not list is gone by its first beat.
func (s *ledgerSession) settleLives(all []*Session, i int) {
	over := s.over(all, i)
	earliest := s.earliest(all, i)
	for _, life := range s.Lives {
		if life.MaybeFrom == 0 {
			life.MaybeFrom = earliest
		}
		if life.Ended {
			life.To = max(life.To, life.From)
			continue
		}
		life.To, life.MaybeTo = s.seenTo, over
		for _, b := range s.blind {
			if b.NotAfter > life.affirmed && !s.named[b.NotAfter] {
				life.To = min(life.To, b.NotBefore)
			}
		}
		life.To = max(life.To, life.From)
	}
}

// watched returns the spans in which the ledger of a node missed nothing, or there was nothing to miss.
func (l *Ledger) watched(node string, sc *Trial) []history.Span {
	return watched(stretches(l.Sessions[node]), sc)
}

// unseen returns the spans in which the ledger of a node saw nothing, or saw a mount that it could not identify.
func (l *Ledger) unseen(node string) []history.Span {
	var spans []history.Span
	for _, s := range l.Sessions[node] {
		for _, b := range s.blind {
			if !s.named[b.NotAfter] {
				spans = append(spans, b)
			}
		}
		for _, life := range s.Lives {
			if life.Unknown {
				spans = append(spans, history.Between(life.MaybeFrom, life.MaybeTo))
			}
		}
	}
	return spans
}

// Present reports that the mount was there already when the ledger began to look.
func (m *Mount) Present() bool { return m.present }

// String names a mount by where it was.
func (m *Mount) String() string {
	var paths []string
	for _, p := range slices.Compact(slices.Clone(m.Paths)) {
		paths = append(paths, shortPath(p))
	}
	where := fmt.Sprintf("%q on node %s", strings.Join(paths, ", "), m.Node)
	if m.Holder != "" {
		return where + " within " + m.Holder
	}
	return where
}

// Longest returns the longest hole within window in what the ledger of a node saw.
func (l *Ledger) Longest(node string, window history.Span, s *Trial) history.Span {
	return LongestHole(window, l.watched(node, s), l.unseen(node))
}

// Kept reports whether a node's ledger was ever on.
func (l *Ledger) Kept(node string) bool {
	return slices.ContainsFunc(l.Sessions[node], func(se *ledgerSession) bool { return se.on != nil })
}

// Everywhere returns the nodes of the cluster and those that told of mounts, each once and in order.
func (l *Ledger) Everywhere(h *World) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(h.Nodes(), l.nodes))))
}

// RootAt is the directory of the file system that is mounted at a path, "/" when that was not seen.
func (l *Ledger) RootAt(node, path, key string) string {
	for _, life := range l.Lives {
		if life.Node == node && life.Key == key && slices.Contains(life.Paths, path) {
			return life.Root
		}
	}
	return "/"
}
