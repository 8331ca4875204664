package historytest

import (
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// statusDelay is how long after a change the made-up controller writes the status.
const statusDelay = 2 * time.Millisecond

// withStatuses adds the status that the controller of each StatefulSet would have written after each change of the
// StatefulSet or of one of its pods. The events must be sorted by time.
func withStatuses(events []history.Event) []history.Event {
	var out []history.Event
	objects, sets := world.NewObjects(), map[string]*controller{}
	for _, e := range events {
		for _, key := range slices.Sorted(maps.Keys(sets)) {
			out = append(out, sets[key].becomeDue(e.Span.NotAfter)...)
		}
		objects.Add(&e)
		var written *history.Event
		if all := objects.StatefulSets.All; len(all) > 0 && all[len(all)-1].Event == &e {
			set := all[len(all)-1]
			if e.Object.Verb == history.VerbAdded || sets[set.Key()] == nil {
				sets[set.Key()] = &controller{pods: map[string]seenPod{},
					silent: sets[set.Key()] == nil && e.Object.Verb != history.VerbAdded}
			}
			e, written = sets[set.Key()].spec(set)
		}
		if all := objects.Pods.All; len(all) > 0 && all[len(all)-1].Event == &e {
			name, _, _ := world.OrdinalOf(e.Object.Name)
			if set := sets[world.Key(e.Object.Namespace, name)]; set != nil && len(e.Object.Raw) > 0 {
				written = set.pod(all[len(all)-1])
			}
		}
		out = append(out, e)
		if written != nil {
			out = append(out, *written)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Event) int { return cmp.Compare(a.Span.NotAfter, b.Span.NotAfter) })
	return out
}

// controller is the state of one StatefulSet's made-up controller.
type controller struct {
	set        *world.StatefulSet
	raw        map[string]any // The last version of the StatefulSet.
	generation int
	pods       map[string]seenPod
	current    string
	due        []history.Time // When pods become available.
	silent     bool           // The StatefulSet was deleted, or the history lacks its creation.
}

type seenPod struct {
	*world.Pod
	readyAt history.Time
}

// spec adds a change of the spec: it returns the change with its generation and the previous status, and the next
// status.
func (c *controller) spec(set *world.StatefulSet) (history.Event, *history.Event) {
	e := *set.Event
	var raw map[string]any
	if c.silent || json.Unmarshal(e.Object.Raw, &raw) != nil {
		return e, nil
	}
	if c.set == nil || !reflect.DeepEqual(set.Spec, c.set.Spec) {
		c.generation++
	}
	raw["status"] = fields{"replicas": 0}
	if c.raw != nil {
		raw["status"] = c.raw["status"]
	}
	metadata, ok := raw["metadata"].(fields)
	if !ok {
		metadata = fields{"name": e.Object.Name}
		raw["metadata"] = metadata
	}
	metadata["generation"] = c.generation
	e.Object = withRaw(e.Object, raw)
	c.raw, c.set = raw, set
	if e.Object.Verb == history.VerbDeleted {
		c.silent = true
		return e, nil
	}
	return e, c.write(e.Span.NotAfter)
}

// Revision returns the name of the revision of a made-up StatefulSet whose pod template has an image.
func Revision(set, image string) string { return set + "-" + image }

func (c *controller) pod(p *world.Pod) *history.Event {
	if c.silent {
		return nil
	}
	at := p.Event.Span.NotAfter
	next := seenPod{p, at}
	if old, known := c.pods[p.Name()]; known && ready(old.Pod) {
		next.readyAt = old.readyAt
	} else if wait := c.minReady(); ready(p) && wait > 0 {
		c.due = append(c.due, at.Add(wait+1100*time.Millisecond)) // Timestamps are truncated to the second.
	}
	c.pods[p.Name()] = next
	if p.Deleted() {
		delete(c.pods, p.Name())
	}
	return c.write(at)
}

func ready(p *world.Pod) bool { return p.Status.Running && p.Status.Ready }

func (c *controller) minReady() time.Duration {
	return time.Duration(c.set.Spec.Demand.MinReady) * time.Second
}

// becomeDue writes the status for each pod that became available up to a time.
func (c *controller) becomeDue(by history.Time) []history.Event {
	var out []history.Event
	for len(c.due) > 0 && c.due[0] <= by {
		if e := c.write(c.due[0]); e != nil {
			out = append(out, *e)
		}
		c.due = c.due[1:]
	}
	return out
}

// write returns the new status, nil if it did not change.
func (c *controller) write(at history.Time) *history.Event {
	if c.silent {
		return nil
	}
	wanted := c.set.Spec.Demand.Replicas
	update := Revision(c.set.Name(), world.Images(c.set.Spec.Template.Spec.Containers))
	if c.current == "" {
		c.current = update
	}
	readies, available, updated, current := 0, 0, 0, 0
	for _, p := range c.pods {
		if ready(p.Pod) {
			readies++
			if c.minReady() == 0 || at.Sub(p.readyAt) > c.minReady()+time.Second {
				available++
			}
		}
		revision := p.Meta.Labels["controller-revision-hash"]
		if revision == update && !p.Deleting() {
			updated++
		}
		if revision == c.current && !p.Deleting() {
			current++
		}
	}
	if updated == wanted && available == wanted && len(c.pods) == wanted {
		c.current, current = update, updated
	}
	status := fields{"observedGeneration": c.generation, "replicas": len(c.pods), "readyReplicas": readies,
		"availableReplicas": available, "updatedReplicas": updated, "currentReplicas": current,
		"currentRevision": c.current, "updateRevision": update}
	if reflect.DeepEqual(status, c.raw["status"]) {
		return nil
	}
	c.raw = maps.Clone(c.raw)
	c.raw["status"] = status
	e := *c.set.Event
	e.Object = withRaw(e.Object, c.raw)
	e.Object.Verb = history.VerbModified
	e.Span = history.Between(at, at.Add(statusDelay))
	return &e
}

func withRaw(o *history.Object, raw map[string]any) *history.Object {
	fresh := *o
	fresh.Raw = encode(raw)
	return &fresh
}
