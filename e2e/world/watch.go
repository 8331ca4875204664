package world

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// Names of the observers of API objects.
const (
	ClaimsObserver    = "api/persistentvolumeclaims"
	EventsObserver    = "api/events"
	NodesObserver     = "api/nodes"
	PodsObserver      = "api/pods"
	RevisionsObserver = "api/controllerrevisions"
	SetsObserver      = "api/statefulsets"
	VolumesObserver   = "api/persistentvolumes"
)

// Watch is the coverage of the API watches.
type Watch struct {
	Alive history.Time              // The last sign of life of any of them.
	Gaps  map[string][]history.Span // By observer.
	on    map[string]bool
}

func readWatch(w *World) *Watch {
	a := &Watch{Gaps: map[string][]history.Span{}, on: map[string]bool{}}
	for _, e := range w.Of(history.KindObserver) {
		if !strings.HasPrefix(e.Observer.Name, "api/") {
			continue
		}
		switch e.Observer.State {
		case history.ObserverBeat:
			a.Alive = max(a.Alive, e.Span.NotAfter)
		case history.ObserverOn:
			a.on[e.Observer.Name] = true
		case history.ObserverGap, history.ObserverLoss:
			a.Gaps[e.Observer.Name] = append(a.Gaps[e.Observer.Name], e.Span)
		}
	}
	for _, e := range w.Of(history.KindObject) {
		a.Alive = max(a.Alive, e.Span.NotAfter)
	}
	return a
}

// On reports whether an observer ever ran.
func (a *Watch) On(observer string) bool { return a.on[observer] }

// Blind reports whether any of the observers was blind at some time in [from, to].
func (a *Watch) Blind(from, to history.Time, observers ...string) bool {
	return slices.ContainsFunc(observers, func(name string) bool {
		return slices.ContainsFunc(a.Gaps[name], func(g history.Span) bool {
			return g.NotAfter >= from && g.NotBefore <= to
		})
	})
}
