package historytest

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// statusDelay is how long after a change the made-up controller writes its status.
const statusDelay = 2 * time.Millisecond

// told adds to events in the order of their time what the controller of each StatefulSet would have written into its
// status after each change: that of its generation, or that of one of its pods.
func told(events []history.Event) []history.Event {
	var out []history.Event
	sets := map[string]*teller{}
	for _, e := range events {
		for _, key := range slices.Sorted(maps.Keys(sets)) {
			out = append(out, sets[key].becomeDue(e.Span.NotAfter)...)
		}
		o := e.Object
		if e.Kind != history.KindObject || o == nil || len(o.Raw) == 0 {
			out = append(out, e)
			continue
		}
		var written *history.Event
		switch o.Resource {
		case "statefulsets":
			key := o.Namespace + "/" + o.Name
			if o.Verb == history.VerbAdded || sets[key] == nil {
				sets[key] = &teller{pods: map[string]toldPod{}, silent: sets[key] == nil && o.Verb != history.VerbAdded}
			}
			e, written = sets[key].spec(e)
		case "pods":
			if i := strings.LastIndexByte(o.Name, '-'); i > 0 && sets[o.Namespace+"/"+o.Name[:i]] != nil {
				written = sets[o.Namespace+"/"+o.Name[:i]].pod(e)
			}
		}
		out = append(out, e)
		if written != nil {
			out = append(out, *written)
		}
	}
	slices.SortStableFunc(out, func(a, b history.Event) int {
		return int(min(1, max(-1,
			a.Span.NotAfter-b.Span.NotAfter)))
	})
	return out
}

// teller is what the controller of one StatefulSet knows.
type teller struct {
	last       history.Event
	raw        map[string]any
	demand     any
	generation int
	pods       map[string]toldPod
	current    string
	due        []history.Time // When pods become available.
	silent     bool           // The StatefulSet was deleted, or made up without its beginning.
}

type toldPod struct {
	ready, ending bool
	readyAt       history.Time
	revision      string
}

// spec takes a change of the spec in, gives it its generation and the status of before, and returns the status after.
func (c *teller) spec(e history.Event) (history.Event, *history.Event) {
	var raw map[string]any
	if c.silent || json.Unmarshal(e.Object.Raw, &raw) != nil {
		return e, nil
	}
	if !reflect.DeepEqual(raw["spec"], c.demand) {
		c.generation++
	}
	c.demand = raw["spec"]
	status := map[string]any{"replicas": 0}
	if c.raw != nil {
		status, _ = c.raw["status"].(map[string]any)
	}
	raw["status"] = status
	metadata, ok := raw["metadata"].(map[string]any)
	if !ok {
		metadata = map[string]any{"name": e.Object.Name}
		raw["metadata"] = metadata
	}
	metadata["generation"] = c.generation
	c.raw, c.last = raw, e
	e.Object = withRaw(e.Object, raw)
	if e.Object.Verb == history.VerbDeleted {
		c.silent = true
		return e, nil
	}
	return e, c.write(e.Span.NotAfter)
}

// Revision is the name of the revision of a made-up StatefulSet whose template has an image.
func Revision(set, image string) string { return set + "-" + image }

// update is the revision of the template, from the spec.
func (c *teller) update() string {
	spec, _ := c.demand.(map[string]any)
	image, _ := spec["image"].(string)
	return Revision(c.last.Object.Name, image)
}

func (c *teller) pod(e history.Event) *history.Event {
	var raw struct {
		Metadata struct {
			DeletionTimestamp *string           `json:"deletionTimestamp"`
			Labels            map[string]string `json:"labels"`
		} `json:"metadata"`
		Status struct {
			Phase      string `json:"phase"`
			Conditions []struct{ Type, Status string }
		} `json:"status"`
	}
	if json.Unmarshal(e.Object.Raw, &raw) != nil {
		return nil
	}
	p := toldPod{ending: raw.Metadata.DeletionTimestamp != nil,
		revision: raw.Metadata.Labels["controller-revision-hash"]}
	for _, cond := range raw.Status.Conditions {
		p.ready = p.ready || cond.Type == "Ready" && cond.Status == "True" && raw.Status.Phase == "Running"
	}
	if old := c.pods[e.Object.Name]; p.ready {
		p.readyAt = e.Span.NotAfter
		if old.ready {
			p.readyAt = old.readyAt
		} else if wait := c.minReady(); wait > 0 {
			c.due = append(c.due, e.Span.NotAfter.Add(wait+1100*time.Millisecond)) // The stamp is cut off.
		}
	}
	c.pods[e.Object.Name] = p
	if e.Object.Verb == history.VerbDeleted {
		delete(c.pods, e.Object.Name)
	}
	return c.write(e.Span.NotAfter)
}

func (c *teller) minReady() time.Duration {
	spec, _ := c.demand.(map[string]any)
	seconds, _ := spec["minReadySeconds"].(float64)
	return time.Duration(seconds) * time.Second
}

// becomeDue writes the status where pods became available by a moment.
func (c *teller) becomeDue(by history.Time) []history.Event {
	var out []history.Event
	for len(c.due) > 0 && c.due[0] <= by {
		if e := c.write(c.due[0]); e != nil {
			out = append(out, *e)
		}
		c.due = c.due[1:]
	}
	return out
}

// write returns the new status, nil when it is the old one.
func (c *teller) write(at history.Time) *history.Event {
	if c.silent || c.raw == nil {
		return nil
	}
	spec, _ := c.demand.(map[string]any)
	wanted := 1
	if n, ok := spec["replicas"].(float64); ok {
		wanted = int(n)
	}
	update := c.update()
	if c.current == "" {
		c.current = update
	}
	ready, available, updated, current := 0, 0, 0, 0
	for _, p := range c.pods {
		if p.ready {
			ready++
			if c.minReady() == 0 || at.Sub(p.readyAt) > c.minReady()+time.Second {
				available++
			}
		}
		if p.revision == update && !p.ending {
			updated++
		}
		if p.revision == c.current && !p.ending {
			current++
		}
	}
	if updated == wanted && available == wanted && len(c.pods) == wanted {
		c.current, current = update, updated
	}
	status := map[string]any{"observedGeneration": c.generation, "replicas": len(c.pods), "readyReplicas": ready,
		"availableReplicas": available, "updatedReplicas": updated, "currentReplicas": current,
		"currentRevision": c.current, "updateRevision": update}
	if reflect.DeepEqual(status, c.raw["status"]) {
		return nil
	}
	raw := map[string]any{}
	for name, value := range c.raw {
		raw[name] = value
	}
	raw["status"] = status
	c.raw = raw
	e := c.last
	e.Object = withRaw(e.Object, raw)
	e.Object.Verb = history.VerbModified
	e.Span = history.Between(at, at.Add(statusDelay))
	return &e
}

func withRaw(o *history.Object, raw map[string]any) *history.Object {
	data, err := json.Marshal(raw)
	if err != nil {
		panic(fmt.Sprintf("encode %s %q: %v", o.Resource, o.Name, err)) // Maps of plain values.
	}
	fresh := *o
	fresh.Raw = data
	return &fresh
}
