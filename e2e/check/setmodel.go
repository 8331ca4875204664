package check

import (
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"cmp"
	"slices"
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
	nodes     map[string][]*world.Node
	twins     []twin                    // Pods that say that they are a StatefulSet's.
	users     map[string]bool           // Claims, by namespace/name, that other pods use too.
	classes   map[string]bool           // The StorageClasses that were seen: whether they wait for the first consumer.
	revisions map[string][]*revision    // Of each StatefulSet, by its key.
	deletes   map[string][]history.Span // Deletions that the StatefulSet controller told of, by the pod's key.

	gaps    map[string][]history.Span // By observer.
	on      map[string]bool
	alive   history.Time // The last sign of life of the API watch, of whatever resource.
	strange map[string]int
	jumbled map[string]int // Events that came twice or not in the order of their resourceVersions.
	wall    wallClock

	pool []podState
	last *setLife // That was asked for last.
}

// setLife is everything of one namespace and name: the StatefulSets that had it, one after the other, and their pods.
type setLife struct {
	namespace, name string
	sets            []*world.StatefulSet
	pods            []*podState
	lives           map[string]*podLife // By uid.
	order           []*podLife          // As they were first seen.
	byOrdinal       map[int][]*podLife  // Likewise.
}

// key names the StatefulSet in maps; String names it to people.
func (s *setLife) key() string    { return s.namespace + "/" + s.name }
func (s *setLife) String() string { return "StatefulSet " + s.name }

// readSets reads it off a history.
func readSets(h *world.World) *setWatch {
	o := h.Objects()
	w := &setWatch{
		byKey: map[string]*setLife{}, claims: map[string][]*claimState{}, volumes: map[string][]*volumeState{},
		nodes: o.Nodes.ByKey, classes: map[string]bool{}, users: map[string]bool{},
		revisions: map[string][]*revision{}, deletes: map[string][]history.Span{}, gaps: map[string][]history.Span{},
		on: map[string]bool{},
		strange: map[string]int{"pods": o.Pods.Strange, "statefulsets": o.StatefulSets.Strange,
			"persistentvolumeclaims": o.Claims.Strange, "persistentvolumes": o.Volumes.Strange,
			"nodes": o.Nodes.Strange, "controllerrevisions": o.Revisions.Strange},
		jumbled: map[string]int{"pods": o.Pods.Jumbled, "statefulsets": o.StatefulSets.Jumbled,
			"persistentvolumeclaims": o.Claims.Jumbled, "persistentvolumes": o.Volumes.Jumbled,
			"nodes": o.Nodes.Jumbled, "controllerrevisions": o.Revisions.Jumbled},
	}
	for _, e := range h.Of(history.KindObserver) {
		w.observe(e)
	}
	for _, e := range h.Of(history.KindObject) {
		w.alive = max(w.alive, e.Span.NotAfter)
	}
	each(o.StatefulSets.All, w.addSet)
	each(o.Pods.All, w.addPod)
	each(o.Claims.All, w.addClaim)
	each(o.Volumes.All, w.addVolume)
	each(o.Revisions.All, w.addRevision)
	each(o.Notices.All, w.addDelete)
	for _, c := range o.StorageClasses.All {
		if mode := c.Spec.VolumeBindingMode; mode != nil {
			w.classes[c.Name()] = *mode == storagev1.VolumeBindingWaitForFirstConsumer
		}
	}
	w.finish()
	return w
}

func each[T any](all []T, do func(T)) {
	for _, one := range all {
		do(one)
	}
}

// stamped holds the API server's clock against the boot clock where an object was created.
func (w *setWatch) stamped(e *history.Event, m *metav1.ObjectMeta) {
	if e.Object.Verb == history.VerbAdded {
		w.wall.add(seconds(&m.CreationTimestamp), e.Span)
	}
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
		slices.SortStableFunc(s.sets, func(a, b *world.StatefulSet) int { return cmp.Compare(a.Version, b.Version) })
		slices.SortStableFunc(s.pods, func(a, b *podState) int { return cmp.Compare(a.Version, b.Version) })
		s.connect()
		w.sets = append(w.sets, s)
	}
	for _, all := range w.claims {
		slices.SortStableFunc(all, func(a, b *claimState) int { return cmp.Compare(a.Version, b.Version) })
	}
	for _, all := range w.volumes {
		slices.SortStableFunc(all, func(a, b *volumeState) int { return cmp.Compare(a.Version, b.Version) })
	}
	for _, all := range w.revisions {
		slices.SortStableFunc(all, func(a, b *revision) int { return cmp.Compare(a.Version, b.Version) })
	}
	for _, all := range w.deletes {
		slices.SortFunc(all, func(a, b history.Span) int { return cmp.Compare(a.NotAfter, b.NotAfter) })
	}
}

// life returns what is known of one namespace and name, and begins it where nothing is.
func (w *setWatch) life(namespace, name string) *setLife {
	if w.last != nil && w.last.namespace == namespace && w.last.name == name {
		return w.last
	}
	key := namespace + "/" + name
	s := w.byKey[key]
	if s == nil {
		s = &setLife{namespace: namespace, name: name, lives: map[string]*podLife{}, byOrdinal: map[int][]*podLife{}}
		w.byKey[key] = s
	}
	w.last = s
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
			last = max(last, p.Event.Span.NotAfter)
		}
		for _, p := range s.sets[max(0, len(s.sets)-1):] {
			last = max(last, p.Event.Span.NotAfter)
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
