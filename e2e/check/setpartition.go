package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/e2e/world"
)

// SetPartition judges at which revision each pod is made, and that it keeps it. That a pod below the partition is ended
// by the StatefulSet itself is a breach too: it is to be left alone, and a partition above the last ordinal leaves all.
//
// The status tells which revisions are current and update; the controller acts before it writes, and from a cache, so
// every name that it may have known counts.
func SetPartition() Check {
	return Check{
		Name: "set-partition",
		Promise: "Every pod is made at, and keeps, the revision that the partition gives its ordinal: below it the " +
			"current one, from it on the update revision.",
		Source: "Kubernetes documentation, StatefulSets, Partitioned rolling updates; " +
			"k8s.io/api apps/v1, RollingUpdateStatefulSetStrategy; kubernetes/kubernetes issue 119685",
		Applies: partitions,
		Judge:   judgeSetPartition,
	}
}

type parting struct {
	*setJudge
	set   *setLife
	below int
}

func judgeSetPartition(h *world.World) Result {
	return judgeSets(h, "revisions of pods", SetPartition().Promise, []string{world.PodsObserver, world.SetsObserver},
		func(j *setJudge, set *setLife) {
			d := &parting{setJudge: j, set: set}
			j.walk(set, d.step)
			j.ruling.note("%s: %d pods made below a partition", set, d.below)
		})
}

func (d *parting) step(p *podState, now map[int]*podState) {
	if old := now[p.pod.ordinal]; old != nil && old.pod == p.pod {
		d.keeps(p, old)
	}
	switch {
	case p.made():
		d.made(p)
	case p.asked():
		d.ended(p)
	}
}

// made holds that a new pod has the revision of its side of the partition.
func (d *parting) made(p *podState) {
	since := d.since(p.Event.Span)
	states := wanting(d.set.around(p.Version, since), p.pod.ordinal)
	if !every(states, func(st *world.StatefulSet) bool { return st.Spec.Demand.Strategy == world.RollingUpdate }) {
		return // Which ordinals are wanted is SetPolicy's.
	}
	held := func(st *world.StatefulSet) bool { return st.Spec.Demand.Held(p.pod.ordinal) }
	var allowed []string
	side := "from the partition on"
	if slices.ContainsFunc(states, held) {
		allowed = d.set.currentRevisions(p.Version, p.Event.Span, since)
		side = "below the partition"
	}
	if !every(states, held) {
		allowed = append(allowed, d.set.updateRevisions(d.watch, p.Version, p.Event.Span, since)...)
	} else {
		d.below++
	}
	switch {
	case len(allowed) == 0:
		d.ruling.unknown("at which revision pod %s was to be made at %s is not known: the status names "+
			"none", p.pod.name,
			d.clock(p.Event))
		return
	case d.watch.blindTo(since, p.Event.Span.NotAfter.Add(cacheLag)):
		return // Judged by what may be half of it; the gap is told of.
	}
	d.ruling.evidence++
	if !slices.Contains(allowed, p.revision) {
		d.blame(p, fmt.Sprintf("Pod %s, %s of %d, was made at %s at revision %q, not %s.", p.pod.name, side,
			states[0].Spec.Demand.Partition, d.clock(p.Event), p.revision, strings.Join(allowed, " or ")))
	}
}

// keeps holds that a pod stays what it was made as: nothing but its maker may say at which revision it is, and below
// the partition it never runs the images of the update.
func (d *parting) keeps(p, old *podState) {
	if p.Guessed() || old.Guessed() {
		return
	}
	if old.revision != p.revision {
		d.blame(p, fmt.Sprintf("Pod %s was made at revision %q and was at %q at %s: %s.", p.pod.name, old.revision,
			p.revision, d.clock(p.Event), d.sideOf(p)), old)
		return
	}
	if old.images() == p.images() || old.images() == "" || p.images() == "" {
		return
	}
	since := d.since(p.Event.Span)
	held := every(
		d.set.around(p.Version, since),
		func(st *world.StatefulSet) bool { return st.Spec.Demand.Held(p.pod.ordinal) },
	)
	for _, name := range d.set.updateRevisions(d.watch, p.Version, p.Event.Span, since) {
		if held && name != p.revision && d.watch.imagesOf(d.set, name) == p.images() {
			d.blame(p, fmt.Sprintf("Pod %s, below the partition and made at revision %q, ran the images of the "+
				"update revision %q from %s on: %s.", p.pod.name, p.revision, name, d.clock(p.Event), p.images()), old)
		}
	}
}

func (d *parting) sideOf(p *podState) string {
	st := d.set.at(p.Version)
	switch {
	case st == nil:
		return "its StatefulSet was not known then"
	case st.Spec.Demand.Held(p.pod.ordinal):
		return fmt.Sprintf("it is below the partition of %d", st.Spec.Demand.Partition)
	}
	return fmt.Sprintf("the partition was %d", st.Spec.Demand.Partition)
}

// ended holds that the StatefulSet leaves the pods below the partition alone. It ends one of them only when it has
// failed, to make it anew.
func (d *parting) ended(p *podState) {
	states := d.set.around(p.Version, d.since(p.Event.Span))
	held := every(states, func(st *world.StatefulSet) bool {
		return st.Spec.Demand.Held(p.pod.ordinal) && st.Spec.Demand.Wants(p.pod.ordinal) && !st.Deleting()
	})
	if !held || p.Status.Over || p.Status.Disrupted {
		return
	}
	d.ruling.evidence++
	if d.byController(p) {
		d.blame(p, fmt.Sprintf("Pod %s, below the partition of %d, was ended by its StatefulSet at %s.", p.pod.name,
			states[0].Spec.Demand.Partition, d.clock(p.Event)))
	}
}
