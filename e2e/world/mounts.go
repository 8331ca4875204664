package world

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// mountsObserver is the mount ledger's observer name.
const mountsObserver = "mounts"

// beganEarly marks the detail of an "on" fact of a ledger that started before the container runtime and the kubelet.
const beganEarly = "; before "

// Mount is one mount from its appearance to its end.
type Mount struct {
	Life
	boot    string
	device  string // Identity.Device; "" if it was never identified.
	Key     string // Identity.Key; "" if it was never identified.
	Root    string
	Paths   []string
	Place   history.Place // Set if the kubelet mounts volumes there, else zero.
	Unknown bool
	Holder  string // The container that has the volume mounted; "" for a mount in the node's own namespace.
}

// Ledger holds the mount ledgers of all nodes. A mount id is unique within a session only: an observer may count from
// one again after a restart.
type Ledger struct {
	*Coverage
	Lives []*Mount
}

// readLedger reads the mount facts and the ledgers' coverage.
func readLedger(w *World) *Ledger {
	l := &Ledger{}
	l.Coverage = readCoverage(w, mountsObserver, history.KindMount, func(c *Coverage, e *history.Event) *Session {
		s := c.at(e.Mount.Node, e.Mount.Boot)
		s.mount(e)
		return s
	})
	for _, node := range slices.Sorted(maps.Keys(l.Sessions)) {
		for _, s := range l.Sessions[node] {
			s.early = s.on != nil && strings.Contains(s.on.Observer.Detail, beganEarly)
			l.Lives = append(l.Lives, s.Lives...)
		}
	}
	for _, m := range l.Lives {
		if m.MaybeFrom == 0 {
			m.MaybeFrom = l.since(m.Node, m.session)
		}
		l.settle(&m.Life)
	}
	return l
}

// mount adds one mount fact. The facts of one ledger come in the kernel's order, so everything before this fact's
// NotBefore was seen.
func (s *Session) mount(e *history.Event) {
	m := e.Mount
	life := s.open[m.MountID]
	if m.Action == history.MountDetach {
		if life != nil {
			life.end(e)
			delete(s.open, m.MountID)
		}
		return
	}
	if s.open == nil {
		s.open, s.unidentified = map[uint64]*Mount{}, map[history.Time]bool{}
	}
	if life == nil {
		life = &Mount{boot: s.Boot, Unknown: true,
			Life: Life{Node: s.node, From: e.Span.NotAfter, MaybeFrom: e.Span.NotBefore, MaybeTo: Forever,
				Present: m.Action == history.MountPresent}}
		if life.Present {
			life.MaybeFrom = 0 // Unknown; readLedger narrows it.
		}
		s.open[m.MountID] = life
		s.Lives = append(s.Lives, life)
	}
	life.affirm(e, s.n)
	life.Paths = append(life.Paths, m.Path)
	if p, ok := history.PlaceOf(m.Path); ok && life.Pod == "" && (p.Pod != "" || life.Place == history.Place{}) {
		life.Place, life.Pod = p, p.Pod
	}
	if key := m.Identity.Key(); key != "" && !m.Unknown && life.Unknown {
		life.Unknown, life.Key, life.Root, life.device = false, key, m.Root, m.Identity.Device
	}
	if m.Unknown {
		s.unidentified[e.Span.NotAfter] = true
	}
}

// String names a mount by its paths and node.
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

// shortPath shortens the hash in the path of a global mount: it would double the length of a sentence that names the
// volume anyway.
func shortPath(path string) string {
	p, _ := history.PlaceOf(path)
	if p.Hash == "" {
		return path
	}
	return strings.Replace(path, p.Hash, p.Hash[:8]+"...", 1)
}

// Everywhere returns the nodes that the trial used and those that have a mount ledger, sorted, each once.
func (l *Ledger) Everywhere(w *World) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(w.NodesUsed(), maps.Keys(l.Sessions)))))
}
