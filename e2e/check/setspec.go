package check

import (
	"slices"
	"sort"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// cacheLag is how old the state that a controller acted on may be before it is held against it: controllers read from a
// cache that a watch keeps, so a pod that lost its readiness a moment ago may still count as ready.
const cacheLag = 2 * time.Second

// mostOrdinals bounds how many ordinals of one StatefulSet are looked at: a number in a damaged history is not to
// keep a judge busy for ever.
const mostOrdinals = 4096

// stampSlack is by how much two times that two machines stamped may differ from the truth, beside that they are cut off
// to the second. On kind all nodes have one clock; elsewhere they are kept by NTP.
const stampSlack = 2 * time.Second

func (w *setWatch) addSet(o *world.StatefulSet) {
	life := w.life(o.Event.Object.Namespace, o.Name())
	life.sets = append(life.sets, o)
	w.stamped(o.Event, o.Meta)
}

// at returns the StatefulSet in force at a resourceVersion, nil when it is not known.
func (s *setLife) at(version uint64) *world.StatefulSet {
	i := s.index(version)
	if i < 0 {
		return nil
	}
	return s.sets[i]
}

// index returns the place of the last state with that resourceVersion or a lower one, -1 where there is none.
func (s *setLife) index(version uint64) int {
	return sort.Search(len(s.sets), func(i int) bool { return s.sets[i].Version > version }) - 1
}

// around returns the states that a controller may have acted on when it made the change of event, the newest first:
// that in force at its resourceVersion, and those in force at some time since long before it.
func (s *setLife) around(version uint64, since history.Time) []*world.StatefulSet {
	i := s.index(version)
	var states []*world.StatefulSet
	for ; i >= 0; i-- {
		if s.sets[i].Guessed() {
			continue
		}
		states = append(states, s.sets[i])
		if s.sets[i].Event.Span.NotAfter < since {
			break
		}
	}
	return states
}

// updateRevisions returns the names that the update revision may have had for a controller that made a change: it makes
// a new one before it acts and writes it into the status after (pkg/controller/statefulset, performUpdate).
func (s *setLife) updateRevisions(w *setWatch, version uint64, at history.Span, since history.Time) []string {
	return s.revisionsFor(version, at, since, func(st *world.StatefulSet) string { return st.Status.UpdateRevision },
		w.newestRevision(s, version))
}

// currentRevisions is updateRevisions for the current one.
func (s *setLife) currentRevisions(version uint64, at history.Span, since history.Time) []string {
	return s.revisionsFor(
		version,
		at,
		since,
		func(st *world.StatefulSet) string { return st.Status.CurrentRevision },
		"",
	)
}

func (s *setLife) revisionsFor(
	version uint64, at history.Span, since history.Time, of func(*world.StatefulSet) string, more string,
) []string {
	names := []string{more}
	for _, st := range s.around(version, since) {
		names = append(names, of(st))
	}
	for i := s.index(version) + 1; i < len(s.sets); i++ {
		names = append(names, of(s.sets[i]))
		if s.sets[i].Event.Span.NotBefore > at.NotAfter.Add(cacheLag) {
			break
		}
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == "" })
}

// every reports that all of the states are so; there is at least one.
func every(states []*world.StatefulSet, is func(*world.StatefulSet) bool) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(st *world.StatefulSet) bool { return !is(st) })
}

// wanting returns those of the states that want an ordinal: a controller that made its pod acted on one of them.
func wanting(states []*world.StatefulSet, ordinal int) []*world.StatefulSet {
	return slices.DeleteFunc(
		slices.Clone(states),
		func(st *world.StatefulSet) bool { return !st.Spec.Demand.Wants(ordinal) || st.Deleting() },
	)
}
