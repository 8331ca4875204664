package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// known is what a world shows at the moment at: of an object, the last version that was seen by then.
type known struct {
	*world.Objects
	at, start history.Time
	alive     history.Time               // When the API server was last heard of.
	live      bool                       // The world is a cluster as it is now: moments are nanoseconds since 1970.
	faults    []world.Fault              // Those that were injected.
	events    map[string][]*world.Notice // Events of the API by object and reason: "Pod namespace/name Killing".
	watched   map[string]bool            // The resources that were watched.
	missing   []Cause                    // What could not be seen, and why.
	offset    history.Time               // What to add to a moment to get nanoseconds since 1970.
	offsetOK  bool
}

func newKnown(w *world.World, at history.Time, live bool) *known {
	k := &known{Objects: w.Objects(), at: at, start: w.Begin(), live: live, offsetOK: live,
		events: map[string][]*world.Notice{}, watched: map[string]bool{}}
	for _, n := range k.Notices.All {
		about := n.Spec.InvolvedObject.Kind + " " + world.Key(n.Event.Object.Namespace, n.Spec.InvolvedObject.Name)
		key := about + " " + n.Spec.Reason
		k.events[key] = append(k.events[key], n)
	}
	for _, e := range w.Of(history.KindObject) {
		if e.Span.NotAfter <= at {
			k.alive = max(k.alive, e.Span.NotAfter)
		}
	}
	if live {
		k.alive = at
	}
	k.readClock()
	k.readObservers(w)
	k.readFaults(w)
	return k
}

// readClock holds the API server's clock against the history's: what a fact tells was stamped before it was seen.
func (k *known) readClock() {
	if k.live {
		return
	}
	k.Created(k.stamp)
	for _, l := range k.Leases.All {
		if l.Spec.RenewTime != nil {
			k.stamp(l.Event, l.Spec.RenewTime.Time)
		}
	}
}

func (k *known) stamp(e *history.Event, stamp time.Time) {
	if e.Span.NotAfter > k.at || stamp.IsZero() {
		return
	}
	if offset := history.Time(stamp.UnixNano()) - e.Span.NotAfter; !k.offsetOK || offset > k.offset {
		k.offset, k.offsetOK = offset, true
	}
}

// readObservers notes which resources were watched, and what could not be seen.
func (k *known) readObservers(w *world.World) {
	for _, e := range w.Of(history.KindObserver) {
		resource, ok := strings.CutPrefix(e.Observer.Name, "api/")
		switch state := e.Observer.State; {
		case !ok || e.Span.NotAfter > k.at:
		case state == history.ObserverOn:
			k.watched[resource] = true
		case k.live:
			k.missing = append(k.missing, Cause{Sentence: e.Observer.Detail})
		case state == history.ObserverGap || state == history.ObserverLoss:
			k.missing = append(k.missing, Cause{Sentence: fmt.Sprintf(
				"the watch of %s was blind from %s to %s (event %d)", resource,
				k.clock(atTime(e.Span.NotBefore)), k.clock(atTime(e.Span.NotAfter)), e.ID)})
		}
	}
	for _, name := range []string{"statefulsets", "pods", "persistentvolumeclaims", "persistentvolumes", "nodes",
		"volumeattachments", "events"} {
		if !k.watched[name] && !k.live {
			k.missing = append(k.missing, Cause{Sentence: name + " were not watched: what they would say is unknown"})
		}
	}
}

// readFaults reads the faults that were injected, in the order of their steps.
func (k *known) readFaults(w *world.World) {
	var facts []*history.Event
	names := map[int]string{}
	for _, e := range w.Of(history.KindFault) {
		if e.Span.NotAfter <= k.at {
			facts = append(facts, e)
			names[e.Fault.Step] = cmp.Or(names[e.Fault.Step], e.Fault.Name)
		}
	}
	for _, step := range slices.Sorted(maps.Keys(names)) {
		if f := world.FaultLife(facts, step, names[step]); f.Facts[history.StageInjected] != nil {
			k.faults = append(k.faults, f)
		}
	}
}

// healed returns when a fault was healed; it is not known while the fault is active.
func healed(f world.Fault) moment {
	if e := cmp.Or(f.Facts[history.StageHealed], f.Facts[history.StageConfirmedHealed]); e != nil {
		return seen(e)
	}
	return moment{}
}

// there returns the objects of a kind that are there, in the order of their keys.
func there[S, T any](k *known, v *world.Versions[S, T]) []*world.Object[S, T] {
	var all []*world.Object[S, T]
	for _, key := range slices.Sorted(maps.Keys(v.ByKey)) {
		if o := v.At(key, k.at); o != nil {
			all = append(all, o)
		}
	}
	return all
}

// deletedAt returns when an object that is not there was deleted.
func deletedAt[S, T any](k *known, v *world.Versions[S, T], key string) moment {
	if o := v.Known(key, k.at); o != nil && o.Deleted() {
		return seen(o.Event)
	}
	return moment{}
}

// since returns the first of the versions up to this one that were all so, and whether one before it was not.
func since[S, T any](v *world.Versions[S, T], o *world.Object[S, T], is func(*world.Object[S, T]) bool) (
	first *world.Object[S, T], changed bool,
) {
	first = o
	for _, old := range slices.Backward(v.ByKey[o.Key()]) {
		if old.Version > o.Version {
			continue
		}
		if old.UID() != o.UID() {
			break
		}
		if !is(old) {
			return first, true
		}
		first = old
	}
	return first, false
}

// created returns since when an object of that uid was seen.
func created[S, T any](v *world.Versions[S, T], o *world.Object[S, T]) moment {
	first, _ := since(v, o, func(*world.Object[S, T]) bool { return true })
	return seen(first.Event)
}

// latest returns the last Event about an object ("Pod namespace/name") with one of the reasons that matches, nil where
// there is none.
func (k *known) latest(about string, reasons []string, matches func(*world.Notice) bool) *world.Notice {
	var found *world.Notice
	for _, reason := range reasons {
		for _, n := range k.events[about+" "+reason] {
			if k.Notices.At(n.Key(), k.at) == n && matches(n) && (found == nil || k.told(n).At >= k.told(found).At) {
				found = n
			}
		}
	}
	return found
}

// noticed returns the last Event about an object with one of the reasons, nil where there is none. A uid of "" is any.
func (k *known) noticed(about, uid string, reasons ...string) *world.Notice {
	return k.latest(about, reasons, func(n *world.Notice) bool {
		of := string(n.Spec.InvolvedObject.UID)
		return uid == "" || of == "" || of == uid
	})
}

// told returns when an Event was last told.
func (k *known) told(n *world.Notice) moment {
	if k.live {
		return k.stamped(max(world.Seconds(&n.Spec.LastTimestamp), n.Spec.EventTime.Unix()))
	}
	return seen(n.Event)
}

// proof returns evidence of fields of an object, or of the whole of it.
func proof[S, T any](o *world.Object[S, T], fields ...string) []Evidence {
	if len(fields) == 0 {
		fields = []string{""}
	}
	var out []Evidence
	for _, f := range fields {
		out = append(out, Evidence{Event: o.Event.ID, Object: o.Event.Object.Resource + " " + o.Key(), Field: f})
	}
	return out
}

// absence returns evidence that an object is not there.
func absence(resource, key string, gone moment) []Evidence {
	return []Evidence{{Event: gone.Event, Object: resource + " " + key}}
}

// moment is when something was first seen to be so, and the event of the history that says it (0 where there is none).
// Known is false for what was never seen. A moment read from a time stamp in an object is right to the second.
type moment struct {
	At    history.Time
	Event int64
	Known bool
}

func seen(e *history.Event) moment { return moment{At: e.Span.NotAfter, Event: e.ID, Known: true} }

func atTime(t history.Time) moment { return moment{At: t, Known: true} }

// began returns since when something is so: since the fact that showed it, when it was otherwise in the one before;
// since the stamp, when it never was seen otherwise, or since it was seen at all.
func (k *known) began(e *history.Event, changed bool, stamp int64) moment {
	if changed {
		return seen(e)
	}
	if at := k.stamped(stamp); at.Known && at.At <= e.Span.NotAfter {
		at.Event = e.ID
		return at
	}
	if k.live {
		return moment{}
	}
	return seen(e)
}

// wall returns nanoseconds since 1970 at the moment, and false when that is not known.
func (k *known) wall() (int64, bool) { return int64(k.at + k.offset), k.offsetOK }

// stamped returns the moment of a time stamp, in seconds since 1970.
func (k *known) stamped(seconds int64) moment {
	if seconds <= 0 || !k.offsetOK {
		return moment{}
	}
	return atTime(history.Time(seconds*1e9) - k.offset)
}

// clock tells a moment to people.
func (k *known) clock(m moment) string {
	switch {
	case !m.Known:
		return ""
	case k.live:
		return time.Unix(0, int64(m.At)).UTC().Format("2006-01-02 15:04:05 UTC")
	}
	return fmt.Sprintf("%+.1f s", m.At.Sub(k.start).Seconds())
}

// since is " (since +31.2 s)", and nothing when it is not known since when.
func (k *known) since(m moment) string { return plan.Given(" (since %s)", k.clock(m)) }

// lasted returns how long ago a moment was, 0 when it is not known.
func (k *known) lasted(m moment) time.Duration {
	if !m.Known || m.At > k.at {
		return 0
	}
	return k.at.Sub(m.At)
}

// Lasting renders a duration as people say it: to a tenth of a second below a minute.
func Lasting(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min", d/time.Minute)
	}
	return fmt.Sprintf("%d min %d s", d/time.Minute, d%time.Minute/time.Second)
}
