// Package world derives from a history what was true when: the lives of objects, pods, mounts and processes. Checks and
// reports read the same world, so they cannot disagree.
package world

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// World is a history and the models derived from it. Each is computed once, on first use. World is not safe for
// concurrent use.
type World struct {
	history.History

	payloads map[history.Kind]int // Field index of each kind's payload in an event.
	byKind   map[history.Kind][]*history.Event
	known    map[any]any // Computed models, keyed by a nil pointer to their type.
}

// New returns the world of a history.
func New(h history.History) *World {
	w := &World{History: h, payloads: payloads(), byKind: map[history.Kind][]*history.Event{}, known: map[any]any{}}
	w.index()
	return w
}

// once returns read(w), which it calls once for each type T.
func once[T any](w *World, read func(*World) *T) *T {
	key := (*T)(nil)
	if known, ok := w.known[key]; ok {
		return known.(*T)
	}
	t := read(w)
	w.known[key] = t
	return t
}

// index groups the events by kind. It leaves out events without the payload of their kind.
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

// whole reports whether an event has the payload of its kind.
func (w *World) whole(e *history.Event) bool {
	at, ok := w.payloads[e.Kind]
	return !ok || !reflect.ValueOf(e).Elem().Field(at).IsNil()
}

// payloads returns the field index of each payload in an event, by kind.
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

// Of returns the events of the given kinds, in the order of the history.
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

// Nodes returns the names of all nodes that the API ever showed, in the order in which they were first seen.
func (w *World) Nodes() []string {
	var found []string
	seen := map[string]bool{}
	for _, e := range w.Of(history.KindObject) {
		if e.Object.Resource == "nodes" && !seen[e.Object.Name] {
			seen[e.Object.Name] = true
			found = append(found, e.Object.Name)
		}
	}
	return found
}

// NodesUsed returns Nodes and, sorted, those that a pod of the trial's StatefulSet was bound to or a volume of such a
// pod attached to, though the API showed no Node: where the trial was given a part of the cluster, nobody looked there.
func (w *World) NodesUsed() []string {
	found := w.Nodes()
	trial, err := w.Trial()
	if err != nil {
		return found
	}
	others := map[string]bool{}
	for _, p := range w.Pods().All {
		if p.Set == nil || p.Set.Name != trial.Plan.Workload.StatefulSet {
			continue
		}
		others[p.Node] = true
		for _, a := range w.Storage().Attachments {
			if w.Storage().Uses(p, a.PV) {
				others[a.Node] = true
			}
		}
	}
	delete(others, "")
	for _, name := range found {
		delete(others, name)
	}
	return slices.AppendSeq(found, slices.Values(slices.Sorted(maps.Keys(others))))
}

// Trial returns the plan and the lives of its faults. It returns an error if there is no plan or the plan is invalid.
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

// Objects returns the recorded API objects.
func (w *World) Objects() *Objects { return once(w, readObjects) }

// Watch returns the coverage of the API watches.
func (w *World) Watch() *Watch { return once(w, readWatch) }

// Sets returns the StatefulSets with their pods and revisions.
func (w *World) Sets() *Sets { return once(w, readSets) }

// Pods returns the pods.
func (w *World) Pods() *Pods { return w.Sets().Pods }

// Ledger returns the mounts of all nodes.
func (w *World) Ledger() *Ledger { return once(w, readLedger) }

// Containers returns the processes and the volumes mounted in containers.
func (w *World) Containers() *Containers { return once(w, readContainers) }

// Calls returns the calls of the CSI drivers.
func (w *World) Calls() *Calls { return once(w, readCalls) }

// Storage returns the API objects of volumes.
func (w *World) Storage() *Storage { return once(w, readStorage) }

// Volumes returns the volumes with their mounts.
func (w *World) Volumes() *Volumes { return once(w, readVolumes) }

// Pulls returns the pulls of disks out of nodes.
func (w *World) Pulls() *Pulls { return once(w, readPulls) }

// Operations returns the operations of all clients: the answered ones in the order of their answers, then the others.
func (w *World) Operations() []Operation { return *once(w, readOperations) }
