package check

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

// mountLife is one mount from its appearance to its end, as intervals. It was certainly there in [from, to) and can
// only have been there in [maybeFrom, maybeTo).
type mountLife struct {
	node      string
	boot      string
	device    string // Identity.Device; "" when it was never identified.
	key       string // Identity.Key, the same.
	root      string
	paths     []string
	from, to  history.Time
	maybeFrom history.Time
	maybeTo   history.Time
	unknown   bool
	ended     bool // A detach was seen.
	affirmed  history.Time
	events    []int64
	pod       string // The uid of the pod it is for, "" where the path does not say.
	holder    string // For a volume that a container has: who. "" for a mount of the node's own.
}

// session is one run of the ledger on one node. Mount ids are told apart within it, so that a way of watching which
// counts mounts from one again after a restart confuses nobody.
type session struct {
	stretch
	open  map[uint64]*mountLife
	lives []*mountLife
	named map[history.Time]bool // Ends of the spans of mounts that were seen and not identified.
}

// mountLedger is what the ledgers of all nodes say.
type mountLedger struct {
	nodes    []string // In order.
	sessions map[string][]*session
	lives    []*mountLife
}

// readLedger puts the mount facts and what the ledgers say of themselves together.
func readLedger(h history.History) *mountLedger {
	l := &mountLedger{sessions: map[string][]*session{}}
	for i := range h.Events {
		e := &h.Events[i]
		switch {
		case e.Kind == history.KindMount && e.Mount != nil:
			l.at(e.Mount.Node, e.Mount.Boot).mount(e)
		case e.Kind == history.KindObserver && e.Observer != nil && e.Observer.Name == mountsObserver:
			if e.Observer.State == history.ObserverOn {
				l.begin(e)
				continue
			}
			l.at(e.Observer.Node, e.Observer.Boot).observe(e)
		}
	}
	for node, sessions := range l.sessions {
		l.nodes = append(l.nodes, node)
		runs := stretches(sessions)
		for i, s := range sessions {
			s.settleLives(runs, i)
		}
	}
	slices.Sort(l.nodes)
	for _, node := range l.nodes {
		for _, s := range l.sessions[node] {
			l.lives = append(l.lives, s.lives...)
		}
	}
	return l
}

func (l *mountLedger) begin(e *history.Event) {
	s := newSession(e.Observer.Node, e.Observer.Boot)
	s.begin(e)
	s.early = strings.Contains(e.Observer.Detail, beganEarly)
	l.sessions[s.node] = append(l.sessions[s.node], s)
}

// at returns the running session of a node, and begins one that has no on fact where there is none of that boot.
func (l *mountLedger) at(node, boot string) *session {
	all := l.sessions[node]
	if n := len(all); n > 0 && all[n-1].boot == boot {
		return all[n-1]
	}
	s := newSession(node, boot)
	l.sessions[node] = append(all, s)
	return s
}

func newSession(node, boot string) *session {
	return &session{stretch: newStretch(node, boot), open: map[uint64]*mountLife{}, named: map[history.Time]bool{}}
}

// stretches returns the runs of the ledger on one node.
func stretches(sessions []*session) []*stretch {
	runs := make([]*stretch, 0, len(sessions))
	for _, s := range sessions {
		runs = append(runs, &s.stretch)
	}
	return runs
}

// mount takes one mount fact in. The facts of one ledger come in the kernel's order, so everything before the
// earliest moment of this one was seen.
func (s *session) mount(e *history.Event) {
	m := e.Mount
	s.seenTo = max(s.seenTo, e.Span.NotBefore)
	life := s.open[m.MountID]
	if m.Action == history.MountDetach {
		if life != nil {
			life.ended, life.to, life.maybeTo = true, e.Span.NotBefore, e.Span.NotAfter
			life.events = append(life.events, e.ID)
			delete(s.open, m.MountID)
		}
		return
	}
	if life == nil {
		life = &mountLife{node: s.node, boot: s.boot, from: e.Span.NotAfter, maybeFrom: e.Span.NotBefore, unknown: true,
			maybeTo: forever}
		if m.Action == history.MountPresent {
			life.maybeFrom = 0 // Since when is not known; settleLives narrows it.
		}
		s.open[m.MountID] = life
		s.lives = append(s.lives, life)
	}
	life.affirmed = max(life.affirmed, e.Span.NotAfter)
	life.events = append(life.events, e.ID)
	life.paths = append(life.paths, m.Path)
	if key := m.Identity.Key(); key != "" && !m.Unknown && life.unknown {
		life.unknown, life.key, life.root, life.device = false, key, m.Root, m.Identity.Device
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
func (s *session) settleLives(all []*stretch, i int) {
	over := s.over(all, i)
	earliest := s.earliest(all, i)
	for _, life := range s.lives {
		if life.maybeFrom == 0 {
			life.maybeFrom = earliest
		}
		if life.ended {
			life.to = max(life.to, life.from)
			continue
		}
		life.to, life.maybeTo = s.seenTo, over
		for _, b := range s.blind {
			if b.NotAfter > life.affirmed && !s.named[b.NotAfter] {
				life.to = min(life.to, b.NotBefore)
			}
		}
		life.to = max(life.to, life.from)
	}
}

// watched returns the spans in which the ledger of a node missed nothing, or there was nothing to miss.
func (l *mountLedger) watched(node string, sc *scene) []history.Span {
	return watched(stretches(l.sessions[node]), sc)
}

// unseen returns the spans in which the ledger of a node saw nothing, or saw a mount that it could not identify.
func (l *mountLedger) unseen(node string) []history.Span {
	var spans []history.Span
	for _, s := range l.sessions[node] {
		for _, b := range s.blind {
			if !s.named[b.NotAfter] {
				spans = append(spans, b)
			}
		}
		for _, life := range s.lives {
			if life.unknown {
				spans = append(spans, history.Between(life.maybeFrom, life.maybeTo))
			}
		}
	}
	return spans
}

// String names a mount by where it was.
func (m *mountLife) String() string {
	var paths []string
	for _, p := range slices.Compact(slices.Clone(m.paths)) {
		paths = append(paths, shortPath(p))
	}
	where := fmt.Sprintf("%q on node %s", strings.Join(paths, ", "), m.node)
	if m.holder != "" {
		return where + " within " + m.holder
	}
	return where
}
