package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// SetPartition judges at which revision each pod is made, and that it keeps it. That a pod below the partition is ended
// by the StatefulSet itself is a violation too: it is to be left alone, and a partition above the last ordinal leaves
// all.
//
// The status tells which revisions are current and update; the controller acts before it writes, and from a cache, so
// every name that it may have known counts.
func SetPartition() Check {
	return ofSets(Check{
		Name: "set-partition",
		Promise: "Every pod is made at, and keeps, the revision that the partition gives its ordinal: below it the " +
			"current one, from it on the update revision.",
		Source: "Kubernetes documentation, StatefulSets, Partitioned rolling updates; " +
			"k8s.io/api apps/v1, RollingUpdateStatefulSetStrategy; kubernetes/kubernetes issue 119685",
		Unit:    "revisions of pods",
		Applies: planned(func(p plan.Plan) bool { return !onDelete(p) }),
	}, []string{world.PodsObserver, world.SetsObserver}, judgeSetPartition)
}

type parting struct {
	*setJudge
	below int
}

func judgeSetPartition(j *setJudge) {
	d := &parting{setJudge: j}
	j.walk(d.step)
	j.note("%s: %d pods made below a partition", j.set, d.below)
}

func (d *parting) step(p *world.PodState, now map[int]*world.PodState) {
	if old := now[p.Life.Ordinal]; old != nil && old.Life == p.Life {
		d.keeps(p, old)
	}
	switch {
	case p.Made():
		d.made(p)
	case p.AskedToEnd():
		d.ended(p)
	}
}

// made holds that a new pod has the revision of its side of the partition.
func (d *parting) made(p *world.PodState) {
	since := d.known(p.Event.Span)
	states := wanting(d.set.Around(p.Version, since), p.Life.Ordinal)
	if !every(states, rolling) {
		return // Which ordinals are wanted is SetPolicy's.
	}
	held := func(st *world.StatefulSet) bool { return st.Spec.Demand.Held(p.Life.Ordinal) }
	var allowed []string
	side := "from the partition on"
	if slices.ContainsFunc(states, held) {
		allowed = d.set.CurrentRevisions(p.Version, p.Event.Span, since)
		side = "below the partition"
	}
	if !every(states, held) {
		allowed = append(allowed, d.set.UpdateRevisions(p.Version, p.Event.Span, since)...)
	} else {
		d.below++
	}
	switch {
	case len(allowed) == 0:
		d.unknown("at which revision pod %s was to be made at %s is not known: the status names none", p.Life.Name,
			d.when(p.Event))
		return
	case d.blind(since, p.Event.Span.NotAfter.Add(world.CacheLag)):
		return // Judged by what may be half of it; the gap is told of.
	}
	d.evidence++
	if !slices.Contains(allowed, p.Revision) {
		d.blame(p, fmt.Sprintf("Pod %s, %s of %d, was made at %s at revision %q, not %s.", p.Life.Name, side,
			states[0].Spec.Demand.Partition, d.when(p.Event), p.Revision, strings.Join(allowed, " or ")))
	}
}

// keeps holds that a pod stays what it was made as: nothing but its maker may say at which revision it is, and below
// the partition it never runs the images of the update.
func (d *parting) keeps(p, old *world.PodState) {
	if p.Guessed() || old.Guessed() {
		return
	}
	if old.Revision != p.Revision {
		d.blame(p, fmt.Sprintf("Pod %s was made at revision %q and was at %q at %s: %s.", p.Life.Name, old.Revision,
			p.Revision, d.when(p.Event), d.sideOf(p)), old)
		return
	}
	if old.Images() == p.Images() || old.Images() == "" || p.Images() == "" {
		return
	}
	since := d.known(p.Event.Span)
	held := every(d.acted(p), func(st *world.StatefulSet) bool { return st.Spec.Demand.Held(p.Life.Ordinal) })
	for _, name := range d.set.UpdateRevisions(p.Version, p.Event.Span, since) {
		if held && name != p.Revision && d.set.ImagesOf(name) == p.Images() {
			d.blame(p, fmt.Sprintf("Pod %s, below the partition and made at revision %q, ran the images of the "+
				"update revision %q from %s on: %s.", p.Life.Name, p.Revision, name, d.when(p.Event), p.Images()), old)
		}
	}
}

func (d *parting) sideOf(p *world.PodState) string {
	st := d.set.At(p.Version)
	switch {
	case st == nil:
		return "its StatefulSet was not known then"
	case st.Spec.Demand.Held(p.Life.Ordinal):
		return fmt.Sprintf("it is below the partition of %d", st.Spec.Demand.Partition)
	}
	return fmt.Sprintf("the partition was %d", st.Spec.Demand.Partition)
}

// ended holds that the StatefulSet leaves the pods below the partition alone. It ends one of them only when it has
// failed, to make it anew.
func (d *parting) ended(p *world.PodState) {
	states := d.acted(p)
	held := every(states, func(st *world.StatefulSet) bool {
		return st.Spec.Demand.Held(p.Life.Ordinal) && keeps(st, p.Life.Ordinal)
	})
	if !held || p.Status.Over || p.Status.Disrupted {
		return
	}
	d.evidence++
	if d.byController(p) {
		d.blame(p, fmt.Sprintf("Pod %s, below the partition of %d, was ended by its StatefulSet at %s.", p.Life.Name,
			states[0].Spec.Demand.Partition, d.when(p.Event)))
	}
}
