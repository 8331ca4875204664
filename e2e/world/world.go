package world

import (
	"reflect"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// World is a history and what is read off it, each of it once, when it is first asked for. It is not safe for
// concurrent use.
type World struct {
	history.History

	payloads map[history.Kind]int // Where an event has what its kind names.
	byKind   map[history.Kind][]*history.Event
	known    map[any]any // What was read, by a nil pointer to its type.
}

// New returns the world that a history tells of.
func New(h history.History) *World {
	w := &World{History: h, payloads: payloads(), byKind: map[history.Kind][]*history.Event{}, known: map[any]any{}}
	w.index()
	return w
}

// once returns what read makes of the world; it reads for each type once.
func once[T any](w *World, read func(*World) *T) *T {
	key := (*T)(nil)
	if known, ok := w.known[key]; ok {
		return known.(*T)
	}
	t := read(w)
	w.known[key] = t
	return t
}

// index sorts the events by what they tell of. An event without what its kind says tells of nothing.
func (w *World) index() {
	count := map[history.Kind]int{}
	for i := range w.Events {
		count[w.Events[i].Kind]++
	}
	for kind, n := range count {
		w.byKind[kind] = make([]*history.Event, 0, n)
	}
	for i := range w.Events {
		if e := &w.Events[i]; w.whole(e) {
			w.byKind[e.Kind] = append(w.byKind[e.Kind], e)
		}
	}
}

// whole reports that an event has what its kind names.
func (w *World) whole(e *history.Event) bool {
	at, ok := w.payloads[e.Kind]
	return !ok || !reflect.ValueOf(e).Elem().Field(at).IsNil()
}

// payloads returns the place of each payload in an event, by the kind that names it.
func payloads() map[history.Kind]int {
	at := map[history.Kind]int{}
	event := reflect.TypeFor[history.Event]()
	for i := range event.NumField() {
		field := event.Field(i)
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); field.Type.Kind() == reflect.Pointer {
			at[history.Kind(name)] = i
		}
	}
	return at
}

// Of returns the events of some kinds, in the order of the history.
func (w *World) Of(kinds ...history.Kind) []*history.Event {
	if len(kinds) == 1 {
		return w.byKind[kinds[0]]
	}
	var all []*history.Event
	for i := range w.Events {
		if e := &w.Events[i]; slices.Contains(kinds, e.Kind) && w.whole(e) {
			all = append(all, e)
		}
	}
	return all
}

// Nodes returns the names of all nodes that the API ever showed, as they were first seen.
func (w *World) Nodes() []string {
	var nodes []string
	for _, e := range w.Of(history.KindObject) {
		if e.Object.Resource == "nodes" && !slices.Contains(nodes, e.Object.Name) {
			nodes = append(nodes, e.Object.Name)
		}
	}
	return nodes
}

// Trial returns the plan and how far it was carried out; an error where there is no plan, or one that is not legal.
func (w *World) Trial() (*Trial, error) {
	type read struct {
		trial *Trial
		err   error
	}
	r := once(w, func(w *World) *read {
		t, err := readTrial(w)
		return &read{t, err}
	})
	return r.trial, r.err
}

// Objects returns the API objects that were seen.
func (w *World) Objects() *Objects { return once(w, readObjects) }

// Watch returns what the observers of the API say of themselves.
func (w *World) Watch() *Watch { return once(w, readWatch) }

// Sets returns the StatefulSets, and what is theirs.
func (w *World) Sets() *Sets { return once(w, readSets) }

// Pods returns the pods.
func (w *World) Pods() *Pods { return w.Sets().Pods }

// Ledger returns the mounts of all nodes.
func (w *World) Ledger() *Ledger { return once(w, readLedger) }

// Containers returns the processes, and the volumes that containers have mounted.
func (w *World) Containers() *Containers { return once(w, readContainers) }

// Calls returns the calls of the CSI drivers.
func (w *World) Calls() *Calls { return once(w, readCalls) }

// Storage returns what the API said of volumes.
func (w *World) Storage() *Storage { return once(w, readStorage) }

// Volumes returns the volumes and where they were mounted.
func (w *World) Volumes() *Volumes { return once(w, readVolumes) }

// Pulls returns the disks that were pulled out of nodes.
func (w *World) Pulls() *Pulls { return once(w, readPulls) }

// Operations returns what clients did.
func (w *World) Operations() *Operations { return once(w, readOperations) }
