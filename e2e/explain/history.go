package explain

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// At diagnoses every StatefulSet of a trial at a moment. Bound is how long a pod has to block before that is called
// stuck.
func At(w *world.World, moment history.Time, bound time.Duration) []Diagnosis {
	k, steps := stretches(w, moment)
	var out []Diagnosis
	for _, s := range there(k, k.StatefulSets) {
		d := diagnose(k, s.Key(), bound)
		if list := steps[s.Key()]; len(list) > 0 && d.Action != ActionNone {
			d.lasts(k, list[len(list)-1], bound)
		}
		out = append(out, d)
	}
	return out
}

// Now diagnoses the StatefulSet "namespace/name" of a cluster as it is now. The world tells of its objects, each seen
// once, at the moment now in nanoseconds since 1970; an observer "api/RESOURCE" tells in its detail why objects of a
// resource could not be read.
func Now(w *world.World, now time.Time, key string, bound time.Duration) Diagnosis {
	return diagnose(newKnown(w, history.Time(now.UnixNano()), true), key, bound)
}

// lasts says since when nothing has moved, from a stretch that ends at the diagnosis.
func (d *Diagnosis) lasts(k *known, s stretch, bound time.Duration) {
	if s.key == "" || s.to < k.at {
		return
	}
	d.Since, d.For = k.clock(atTime(s.from)), k.at.Sub(s.from)
	d.Stuck = d.For >= bound
	if len(d.Blockers) == 0 && d.Stuck && d.Outlook == Transient && d.Reason == reasonIdle {
		d.Outlook, d.Reason = NotKnown, "no pod blocks it, and the controller has not done it for "+Lasting(d.For)
	}
}

// stretch is a time in which the next step of a StatefulSet's controller stayed the same.
type stretch struct {
	from, to history.Time
	key      string // Of the step; empty when there was nothing to do.
	open     bool
}

// walker follows the next steps of controllers through a history.
type walker struct {
	*known
	all map[string][]stretch    // By StatefulSet, in order.
	due map[string]history.Time // When a pod that is waited for becomes available, by StatefulSet.
}

// stretches returns the steps of each StatefulSet up to a moment, in order, and what was known then.
func stretches(w *world.World, until history.Time) (*known, map[string][]stretch) {
	b := &walker{newKnown(w, until, false), map[string][]stretch{}, map[string]history.Time{}}
	b.at = 0
	for _, e := range w.Of(history.KindObject) {
		if e.Span.NotAfter > until {
			continue
		}
		b.ripen(e.Span.NotAfter)
		b.at = max(b.at, e.Span.NotAfter)
		for _, key := range b.touched(e.Object) {
			b.walk(key)
		}
	}
	b.ripen(until)
	for _, list := range b.all {
		list[len(list)-1].to, list[len(list)-1].open = max(until, list[len(list)-1].from), true
	}
	b.at = until
	return b.known, b.all
}

// touched returns the StatefulSets whose next step an object can change.
func (b *walker) touched(o *history.Object) []string {
	switch o.Resource {
	case "statefulsets":
		return []string{world.Key(o.Namespace, o.Name)}
	case "pods":
		if name, _, ok := world.OrdinalOf(o.Name); ok {
			return []string{world.Key(o.Namespace, name)}
		}
	case "events", "persistentvolumeclaims":
		return slices.Sorted(maps.Keys(b.StatefulSets.ByKey))
	}
	return nil
}

// ripen takes the steps that only the time brought, up to a moment: no fact says that a pod becomes available.
func (b *walker) ripen(to history.Time) {
	keys := slices.SortedFunc(maps.Keys(b.due), func(x, y string) int {
		return cmp.Or(cmp.Compare(b.due[x], b.due[y]), cmp.Compare(x, y))
	})
	for _, key := range keys {
		if due := b.due[key]; due <= to && due > b.at {
			b.at = due
			b.walk(key)
		}
	}
}

// walk notes the next step of a StatefulSet's controller, if it is another than before.
func (b *walker) walk(key string) {
	now := ""
	delete(b.due, key)
	if s := b.StatefulSets.At(key, b.at); s != nil {
		v := b.view(s)
		if next := v.next(); next.action != ActionNone {
			now = next.key()
			for _, w := range next.blockers {
				if w.state == stateNotAvailable && b.due[key] == 0 {
					b.due[key] = b.at.Add(w.pod.unavailableFor(v.set.MinReady))
				}
			}
		}
	}
	list := b.all[key]
	if n := len(list); n > 0 {
		if list[n-1].key == now {
			return
		}
		list[n-1].to = b.at
	}
	b.all[key] = append(list, stretch{from: b.at, key: now})
}

// Spells returns the times of a trial in which the controller of a StatefulSet had something to do, nothing moved, and
// which lasted for as long as the bound: the longest most of them, in the order of time, and how many there are in all.
// Those that ended before since are left out, and what came after until is not looked at.
func Spells(w *world.World, since, until history.Time, bound time.Duration, most int) (longest []Spell, all int) {
	type long struct {
		stretch
		of string
	}
	var found []long
	_, steps := stretches(w, until)
	for _, key := range slices.Sorted(maps.Keys(steps)) {
		for _, s := range steps[key] {
			if s.key != "" && s.to.Sub(s.from) >= bound && s.to > since {
				found = append(found, long{s, key})
			}
		}
	}
	all = len(found)
	slices.SortStableFunc(found, func(a, b long) int { return cmp.Compare(b.to-b.from, a.to-a.from) })
	found = found[:min(all, most)]
	slices.SortStableFunc(found, func(a, b long) int { return cmp.Compare(a.from, b.from) })
	for _, s := range found {
		moment := s.to
		if !s.open {
			moment = s.from + (s.to-s.from)/2 // At its end the blocker is about to go.
		}
		k := newKnown(w, moment, false)
		d := diagnose(k, s.of, bound)
		d.lasts(k, stretch{from: s.from, to: moment, key: s.key}, 0)
		longest = append(longest, Spell{From: k.clock(atTime(s.from)), To: k.clock(atTime(s.to)), For: s.to.Sub(s.from),
			Open: s.open, Diagnosis: d})
	}
	return longest, all
}

// Longest returns the longest of Spells; false when there is none.
func Longest(w *world.World, until history.Time, bound time.Duration) (Spell, bool) {
	if list, _ := Spells(w, 0, until, bound, 1); len(list) > 0 {
		return list[0], true
	}
	return Spell{}, false
}
