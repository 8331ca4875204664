package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// Begin returns when the trial of a history began: all times are told from there.
func Begin(h history.History) history.Time {
	for i := range h.Events {
		if h.Events[i].Kind == history.KindPlan {
			return h.Events[i].Span.NotAfter
		}
	}
	if len(h.Events) > 0 {
		return h.Events[0].Span.NotBefore
	}
	return 0
}

// EndOf returns the end of a phase: when it ended, and when it never did the end of the history. It returns false for a
// phase that never began.
func EndOf(h history.History, name history.PhaseName) (history.Time, bool) {
	end, began, ended := history.Time(0), false, false
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind == history.KindPhase && e.Phase != nil && e.Phase.Name == name {
			began, ended = true, e.Phase.End
			end = e.Span.NotAfter
		}
	}
	if began && !ended {
		return Last(h), true
	}
	return end, ended
}

// Last returns the last moment of which a history tells.
func Last(h history.History) history.Time {
	last := Begin(h)
	for i := range h.Events {
		last = max(last, h.Events[i].Span.NotAfter)
	}
	return last
}

// FromWorld returns what was known at a moment of a trial.
func FromWorld(w *world.World, moment history.Time) *Objects {
	b := newBook(w)
	for i := range w.Events {
		if w.Events[i].Span.NotAfter <= moment {
			b.take(&w.Events[i])
		}
	}
	b.objects.At = moment
	b.finish()
	return b.objects
}

// book reads a history.
type book struct {
	objects *Objects
	on      map[string]bool
	faults  map[int]*Fault
	due     map[string]history.Time // When a pod that is waited for becomes available, by StatefulSet.
}

func newBook(w *world.World) *book {
	b := &book{objects: NewObjects(), on: map[string]bool{}, faults: map[int]*Fault{}, due: map[string]history.Time{}}
	b.objects.Start = Begin(w.History)
	b.objects.share(w)
	return b
}

func (b *book) take(e *history.Event) {
	switch {
	case e.Kind == history.KindObject && e.Object != nil:
		b.objects.Apply(e)
	case e.Kind == history.KindObserver && e.Observer != nil && strings.HasPrefix(e.Observer.Name, "api/"):
		b.observe(e)
	case e.Kind == history.KindFault && e.Fault != nil:
		b.fault(e)
	}
}

func (b *book) observe(e *history.Event) {
	switch e.Observer.State {
	case history.ObserverOn:
		b.on[strings.TrimPrefix(e.Observer.Name, "api/")] = true
	case history.ObserverGap, history.ObserverLoss:
		b.objects.missing = append(b.objects.missing, fmt.Sprintf("the watch of %s was blind from %s to %s (event %d)",
			strings.TrimPrefix(e.Observer.Name, "api/"), b.clock(e.Span.NotBefore), b.clock(e.Span.NotAfter), e.ID))
	}
}

func (b *book) clock(t history.Time) string { return b.objects.clock(Moment{At: t, Known: true}) }

// fault takes one stage of a fault's life in. One that is healed before it is injected is made sure to be gone first.
func (b *book) fault(e *history.Event) {
	f := b.faults[e.Fault.Step]
	if f == nil {
		f = &Fault{Fault: world.Fault{Step: e.Fault.Step, Name: e.Fault.Name,
			Takes: world.Takes([]*history.Event{e}, e.Fault.Step, e.Fault.Name)}}
		b.faults[f.Step] = f
	}
	if f.Node == "" {
		f.Node = e.Fault.Node
	}
	if f.Victim == "" {
		f.Victim = e.Fault.Victim
	}
	switch e.Fault.Stage {
	case history.StageInjected:
		if !f.Injected.Known {
			f.Injected = Moment{At: e.Span.NotBefore, Event: e.ID, Known: true}
		}
		f.injectedEvents = append(f.injectedEvents, e.ID)
	case history.StageConfirmed:
		f.injectedEvents = append(f.injectedEvents, e.ID)
	case history.StageHealed, history.StageConfirmedHealed:
		if f.Injected.Known && !f.Healed.Known {
			f.Healed = Moment{At: e.Span.NotAfter, Event: e.ID, Known: true}
		}
	}
}

// finish says what was not seen, and puts the faults in order.
func (b *book) finish() {
	o := b.objects
	for _, name := range []string{"statefulsets", "pods", "persistentvolumeclaims", "persistentvolumes", "nodes",
		"volumeattachments", "events"} {
		if !b.on[name] {
			o.Unseen(name, name+" were not watched: what they would tell is not known")
		}
	}
	o.Faults = b.listFaults()
}

func (b *book) listFaults() []Fault {
	var out []Fault
	for _, f := range b.faults {
		if f.Injected.Known {
			out = append(out, *f)
		}
	}
	slices.SortFunc(out, func(x, y Fault) int { return x.Step - y.Step })
	return out
}

// At diagnoses every StatefulSet of a trial at a moment.
func At(w *world.World, moment history.Time, bound time.Duration) []Diagnosis {
	o, spells := stretches(w, moment)
	var out []Diagnosis
	for _, key := range o.Sets() {
		d := Diagnose(o, key, bound)
		if s := spells[key]; len(s) > 0 && d.Action != ActionNone {
			d.lasts(o, s[len(s)-1], bound)
		}
		out = append(out, d)
	}
	return out
}

// lasts says since when nothing has moved, from a stretch that ends at the diagnosis.
func (d *Diagnosis) lasts(o *Objects, s stretch, bound time.Duration) {
	if s.key == "" || s.to < o.At {
		return
	}
	d.Since, d.For = o.clock(Moment{At: s.from, Known: true}), o.At.Sub(s.from)
	d.Stuck = d.For >= bound
	if len(d.Blockers) == 0 && d.Stuck && d.Outlook == Transient && d.Reason == reasonIdle {
		d.Outlook, d.Reason = NotKnown, "no pod blocks it, and the controller has not done it for "+Lasting(d.For)
	}
}

// stretch is a time in which the next step of a StatefulSet's controller stayed the same.
type stretch struct {
	from, to history.Time
	key      string
	open     bool
}

// stretches returns the steps of each StatefulSet up to a moment, in order, and what was known then.
func stretches(w *world.World, until history.Time) (*Objects, map[string][]stretch) {
	b := newBook(w)
	all := map[string][]stretch{}
	for i := range w.Events {
		e := &w.Events[i]
		if e.Span.NotAfter > until {
			continue
		}
		b.ripen(all, e.Span.NotAfter)
		b.take(e)
		if e.Kind != history.KindObject || e.Object == nil {
			continue
		}
		b.objects.At = max(b.objects.At, e.Span.NotAfter)
		for _, key := range b.touched(e.Object) {
			all[key] = b.walk(all[key], key)
		}
	}
	b.ripen(all, until)
	for key, list := range all {
		if n := len(list); n > 0 {
			list[n-1].to, list[n-1].open = max(until, list[n-1].from), true
			all[key] = list
		}
	}
	b.objects.At = until
	b.finish()
	return b.objects, all
}

// touched returns the StatefulSets whose next step an object can change.
func (b *book) touched(o *history.Object) []string {
	key := o.Namespace + "/" + o.Name
	switch o.Resource {
	case "statefulsets":
		return []string{key}
	case "pods":
		if i := strings.LastIndexByte(key, '-'); i >= 0 {
			return []string{key[:i]}
		}
	case "events", "persistentvolumeclaims":
		return b.objects.Sets()
	}
	return nil
}

// ripen takes the steps that only the time brought, up to a moment: no fact says that a pod becomes available.
func (b *book) ripen(all map[string][]stretch, to history.Time) {
	for _, key := range keysOf(b.due) {
		if due := b.due[key]; due <= to && due > b.objects.At {
			b.objects.At = due
			all[key] = b.walk(all[key], key)
		}
	}
}

func (b *book) walk(list []stretch, key string) []stretch {
	now := ""
	delete(b.due, key)
	if s := b.objects.sets[key]; s != nil {
		if next := b.objects.view(s).next(); next.action != ActionNone {
			now = next.key()
			for _, w := range next.blockers {
				if w.state == stateNotAvailable && b.due[key] == 0 {
					b.due[key] = b.objects.At.Add(w.pod.unavailableFor(b.objects, s.MinReady))
				}
			}
		}
	}
	n := len(list)
	if n > 0 && list[n-1].key == now {
		return list
	}
	if n > 0 {
		list[n-1].to = b.objects.At
	}
	return append(list, stretch{from: b.objects.At, key: now})
}

// Longest returns the longest time of a trial in which the controller of a StatefulSet had something to do, nothing
// moved, and which lasted for as long as the bound; false when there was none. What came after until is not looked at.
func Longest(w *world.World, until history.Time, bound time.Duration) (Spell, bool) {
	_, all := stretches(w, until)
	var found stretch
	of := ""
	for _, key := range keysOf(all) {
		for _, s := range all[key] {
			if s.key != "" && s.to.Sub(s.from) >= bound && s.to.Sub(s.from) > found.to.Sub(found.from) {
				found, of = s, key
			}
		}
	}
	if of == "" {
		return Spell{}, false
	}
	moment := found.to
	if !found.open {
		moment = found.from + (found.to-found.from)/2 // At its end the blocker is about to go.
	}
	o := FromWorld(w, moment)
	d := Diagnose(o, of, bound)
	d.lasts(o, stretch{from: found.from, to: moment, key: found.key}, 0)
	return Spell{From: o.clock(Moment{At: found.from, Known: true}), To: o.clock(Moment{At: found.to, Known: true}),
		For: found.to.Sub(found.from), Open: found.open, Diagnosis: d}, true
}

// Trialled returns the moment up to which a history tells of the trial: what comes after is that the workload is taken
// away.
func Trialled(h history.History) history.Time {
	for i := range h.Events {
		if p := h.Events[i].Phase; h.Events[i].Kind == history.KindPhase && p != nil && p.Name == history.PhaseEnd {
			return h.Events[i].Span.NotBefore
		}
	}
	return Last(h)
}
