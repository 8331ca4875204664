package check

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// setWatch is all that the API watch saw of StatefulSets and of what is theirs, each in the order of resourceVersions.
//
// That order is the order in which the API server stored them: resourceVersions of one resource are numbers that grow
// (KEP-5504, Kubernetes 1.35). Resources are compared with each other too, which holds where all are in one etcd, as
// they are unless --etcd-servers-overrides says otherwise.
type setWatch struct {
	sets      []*setLife               // In the order of their keys.
	byKey     map[string]*setLife      // By namespace/name.
	claims    map[string][]*claimState // By namespace/name.
	volumes   map[string][]*volumeState
	nodes     map[string][]*nodeState
	twins     []twin                    // Pods that say that they are a StatefulSet's.
	users     map[string]bool           // Claims, by namespace/name, that other pods use too.
	classes   map[string]bool           // The StorageClasses that were seen: whether they wait for the first consumer.
	revisions map[string][]*revision    // Of each StatefulSet, by its key.
	deletes   map[string][]history.Span // Deletions that the StatefulSet controller told of, by the pod's key.

	gaps    map[string][]history.Span // By observer.
	on      map[string]bool
	alive   history.Time // The last sign of life of the API watch, of whatever resource.
	strange map[string]int
	named   map[string]string // The names of claims and volumes, by uid.
	jumbled map[string]int    // Events that came twice or not in the order of their resourceVersions.
	wall    wallClock

	names  interned
	pool   []podState
	demand setSpec // Of the StatefulSet that is being read.
}

// setLife is everything of one namespace and name: the StatefulSets that had it, one after the other, and their pods.
type setLife struct {
	namespace, name string
	sets            []*setState
	pods            []*podState
	lives           map[string]*podLife // By uid.
	order           []*podLife          // As they were first seen.
	byOrdinal       map[int][]*podLife  // Likewise.
}

// key names the StatefulSet in maps; String names it to people.
func (s *setLife) key() string    { return s.namespace + "/" + s.name }
func (s *setLife) String() string { return "StatefulSet " + s.name }

// readSets reads it off a history, each object once.
func readSets(h *world.World) *setWatch {
	w := &setWatch{
		byKey: map[string]*setLife{}, claims: map[string][]*claimState{}, volumes: map[string][]*volumeState{},
		nodes: map[string][]*nodeState{}, classes: map[string]bool{}, users: map[string]bool{},
		revisions: map[string][]*revision{},
		deletes:   map[string][]history.Span{}, gaps: map[string][]history.Span{}, on: map[string]bool{},
		strange: map[string]int{}, jumbled: map[string]int{}, names: interned{},
		named: map[string]string{},
	}
	last := map[string]uint64{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind == history.KindObserver && e.Observer != nil {
			w.observe(e)
		}
		if e.Kind != history.KindObject || e.Object == nil {
			continue
		}
		w.alive = max(w.alive, e.Span.NotAfter)
		read := w.reader(e.Object.Resource)
		if read == nil {
			continue
		}
		version, err := strconv.ParseUint(e.Object.ResourceVersion, 10, 64)
		if err != nil || !read(e, version) || !w.sameName(e.Object) {
			w.strange[e.Object.Resource]++
			continue
		}
		if e.Object.Verb == history.VerbListed || len(e.Object.Raw) == 0 {
			continue // A list is in no order, and what was missing in it has the list's version.
		}
		if version <= last[e.Object.Resource] {
			w.jumbled[e.Object.Resource]++
		}
		last[e.Object.Resource] = version
	}
	w.finish()
	return w
}

func (w *setWatch) reader(resource string) func(*history.Event, uint64) bool {
	switch resource {
	case "pods":
		return w.addPod
	case "statefulsets":
		return w.addSet
	case "persistentvolumeclaims":
		return w.addClaim
	case "persistentvolumes":
		return w.addVolume
	case "nodes":
		return w.addNode
	case "controllerrevisions":
		return w.addRevision
	case "storageclasses":
		return w.addClass
	case "events":
		return w.addDelete
	}
	return nil
}

// sameName reports that a claim or a volume has the name that its uid has always had. A pod's is seen to as it is read.
func (w *setWatch) sameName(o *history.Object) bool {
	if o.Resource != "persistentvolumeclaims" && o.Resource != "persistentvolumes" || o.UID == "" {
		return true
	}
	name, known := w.named[o.UID]
	w.named[o.UID] = o.Name
	return !known || name == o.Name
}

func (w *setWatch) observe(e *history.Event) {
	if !strings.HasPrefix(e.Observer.Name, "api/") {
		return
	}
	switch e.Observer.State {
	case history.ObserverBeat:
		w.alive = max(w.alive, e.Span.NotAfter)
	case history.ObserverOn:
		w.on[e.Observer.Name] = true
	case history.ObserverGap, history.ObserverLoss:
		w.gaps[e.Observer.Name] = append(w.gaps[e.Observer.Name], e.Span)
	}
}

// finish brings everything into the order of the resourceVersions.
func (w *setWatch) finish() {
	for _, key := range keys(w.byKey) {
		s := w.byKey[key]
		slices.SortStableFunc(s.sets, func(a, b *setState) int { return cmp.Compare(a.version, b.version) })
		slices.SortStableFunc(s.pods, func(a, b *podState) int { return cmp.Compare(a.version, b.version) })
		s.connect()
		w.sets = append(w.sets, s)
	}
	for _, all := range w.claims {
		slices.SortStableFunc(all, func(a, b *claimState) int { return cmp.Compare(a.version, b.version) })
	}
	for _, all := range w.volumes {
		slices.SortStableFunc(all, func(a, b *volumeState) int { return cmp.Compare(a.version, b.version) })
	}
	for _, all := range w.revisions {
		slices.SortStableFunc(all, func(a, b *revision) int { return cmp.Compare(a.version, b.version) })
	}
	for _, all := range w.deletes {
		slices.SortFunc(all, func(a, b history.Span) int { return cmp.Compare(a.NotAfter, b.NotAfter) })
	}
}

// life returns what is known of one namespace and name, and begins it where nothing is.
func (w *setWatch) life(namespace, name string) *setLife {
	key := namespace + "/" + name
	s := w.byKey[key]
	if s == nil {
		s = &setLife{namespace: namespace, name: name, lives: map[string]*podLife{}, byOrdinal: map[int][]*podLife{}}
		w.byKey[key] = s
	}
	return s
}

// judged returns the StatefulSets that were seen, in the order of their keys. Pods that only have such a name, and
// whose StatefulSet was never seen, are nobody's: they are in none.
func (w *setWatch) judged() []*setLife {
	return slices.DeleteFunc(slices.Clone(w.sets), func(s *setLife) bool { return len(s.sets) == 0 })
}

// planned returns the StatefulSet of that name; one that was never seen has no states, and perhaps pods.
func (w *setWatch) planned(name string) *setLife {
	var found *setLife
	for _, s := range w.sets {
		if s.name == name && (found == nil || len(found.sets) == 0 && len(s.sets) > 0) {
			found = s
		}
	}
	if found == nil {
		return &setLife{name: name}
	}
	return found
}

// blind reports whether the watch of any of the observers was blind at some time in [from, to].
func (w *setWatch) blind(from, to history.Time, observers ...string) bool {
	return slices.ContainsFunc(observers, func(name string) bool {
		return slices.ContainsFunc(w.gaps[name], func(g history.Span) bool {
			return g.NotAfter >= from && g.NotBefore <= to
		})
	})
}

// blindTo reports whether the watch of pods or StatefulSets was blind at some time in [from, to].
func (w *setWatch) blindTo(from, to history.Time) bool {
	return w.blind(from, to, world.PodsObserver, world.SetsObserver)
}

// judgeSight says what a check cannot know because an observer was never on, was blind, or told what has no place in
// the order. Gaps after the last fact of a StatefulSet's own hide nothing that was there to see.
func (w *setWatch) judgeSight(s *world.Trial, r *ruling, until history.Time, observers ...string) {
	for _, name := range observers {
		resource := strings.TrimPrefix(name, "api/")
		if !w.on[name] {
			r.unknown("the observer %s was never on: what it would have told is missing", name)
		}
		for _, gap := range w.gaps[name] {
			if gap.NotBefore <= until {
				r.unknown("the observer %s was blind from %s to "+
					"%s", name, s.Clock(gap.NotBefore), s.Clock(gap.NotAfter))
				break
			}
		}
		if n := w.strange[resource]; n > 0 {
			r.unknown("%d events of %s have no content or no place in the order", n, resource)
		}
		if n := w.jumbled[resource]; n > 0 {
			r.unknown("%d events of %s came twice, or after one with a higher resourceVersion: the record is not "+
				"what the API server sent", n, resource)
		}
	}
}

// lastFact is when the last change of a StatefulSet or of a pod became known.
func (w *setWatch) lastFact() history.Time {
	var last history.Time
	for _, s := range w.sets {
		for _, p := range s.pods[max(0, len(s.pods)-1):] {
			last = max(last, p.event.Span.NotAfter)
		}
		for _, p := range s.sets[max(0, len(s.sets)-1):] {
			last = max(last, p.event.Span.NotAfter)
		}
	}
	return last
}

// wallClock says how far the API server's clock is from the boot clock: a creationTimestamp is cut off to the second,
// and the object was stored after it was stamped.
type wallClock struct {
	known  bool
	lo, hi history.Time // Nanoseconds since 1970 at boot.
}

func (c *wallClock) add(stamp int64, span history.Span) {
	if stamp == 0 {
		return
	}
	at := history.Time(stamp * 1e9)
	lo, hi := at-span.NotAfter, at.Add(1e9)-span.NotBefore
	if !c.known {
		*c = wallClock{true, lo, hi}
		return
	}
	c.lo, c.hi = max(c.lo, lo), min(c.hi, hi)
}

// between returns the seconds since 1970 that it was, at the earliest and at the latest, in span. It returns false when
// the stamps do not agree with each other.
func (c *wallClock) between(span history.Span) (from, to float64, ok bool) {
	lo, hi := min(c.lo, c.hi), max(c.lo, c.hi)
	return float64(span.NotBefore+lo) / 1e9, float64(span.NotAfter+hi) / 1e9,
		c.known && hi.Sub(lo) < 2*stampSlack && c.hi.Add(stampSlack) >= c.lo
}
