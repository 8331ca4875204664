package check

import (
	"fmt"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/history"
)

// cacheLag is how old the state that a controller acted on may be before it is held against it: controllers read from a
// cache that a watch keeps, so a pod that lost its readiness a moment ago may still count as ready.
const cacheLag = 2 * time.Second

// Order judges in which order the StatefulSet made and ended its pods.
//
// Created pods are judged one by one: at that resourceVersion every pod of a lower ordinal is Running and Ready. Ended
// pods are judged when it was the scaling that ended them: no pod of a higher ordinal is left then, neither its object
// nor, where processes were watched, any process of it. A pod whose ordinal the StatefulSet still wants was ended by
// something else, as was one that carries the condition DisruptionTarget: there is no promise about these.
func Order() Check {
	return Check{
		Name:    "order",
		Promise: "The StatefulSet makes pods in order, each once all before it are Ready, and ends them in reverse.",
		Source: "Kubernetes documentation, StatefulSets, Deployment and Scaling Guarantees; " +
			"the order of resourceVersions is that of KEP-5504",
		Applies: inOrder,
		Judge:   judgeOrder,
	}
}

// inOrder reports that the StatefulSet promises an order; one that is Parallel does not. Where the plan cannot be
// read, it does.
func inOrder(h history.History) bool {
	s, err := setScene(h)
	return err != nil || !s.plan.Workload.Parallel
}

// ordering walks the pods' states in their order.
type ordering struct {
	scene   *scene
	ruling  *ruling
	watch   *podWatch
	now     map[int]*podState // The latest state of each ordinal, deleted ones included.
	gone    map[string]*history.Event
	made    map[int]bool
	ended   int
	spared  int          // Ended pods that were not the scaling's.
	arrived history.Time // When the state before this one became known.
}

func judgeOrder(h history.History) Result {
	r := newRuling("creations and scale-downs of pods")
	s, err := setScene(h)
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	o := &ordering{
		scene: s, ruling: r, watch: readPods(h, s.plan.Workload.StatefulSet),
		now: map[int]*podState{}, gone: lastProcesses(h), made: map[int]bool{},
	}
	o.judgeWatch()
	for _, p := range o.watch.pods {
		o.step(p)
	}
	o.judgeAmounts()
	return r.result()
}

// lastProcesses returns, for each pod, the end of its process that ended last.
func lastProcesses(h history.History) map[string]*history.Event {
	gone := map[string]*history.Event{}
	for i := range h.Events {
		e := &h.Events[i]
		if e.Kind != history.KindProcess || e.Process == nil || e.Process.Action != history.ProcessGone ||
			e.Process.PodUID == "" {
			continue
		}
		if old := gone[e.Process.PodUID]; old == nil || e.Span.NotBefore > old.Span.NotBefore {
			gone[e.Process.PodUID] = e
		}
	}
	return gone
}

func (o *ordering) judgeWatch() {
	for _, name := range []string{podsObserver, setsObserver} {
		if !o.watch.on[name] {
			o.ruling.unknown("the observer %s was never on: creations and deletions may be missing", name)
		}
	}
	if len(o.watch.sets) == 0 {
		o.ruling.unknown("StatefulSet %s was never seen", o.scene.plan.Workload.StatefulSet)
	}
	if o.watch.strange > 0 {
		o.ruling.unknown("%d events of pods or of the StatefulSet have no content or no place in the order",
			o.watch.strange)
	}
	if slices.ContainsFunc(o.watch.sets, func(s *setState) bool { return s.parallel }) {
		o.ruling.unknown("the StatefulSet's podManagementPolicy is Parallel: it promises no order")
	}
}

// step takes one state of one pod in.
func (o *ordering) step(p *podState) {
	old := o.now[p.ordinal]
	same := old != nil && old.uid == p.uid && !old.deleted
	if same && !p.ok() {
		p.lost = old.lost
		if old.ok() {
			p.lost = p.event
		}
	}
	set := o.watch.setAt(p.version)
	if p.guessed {
		o.ruling.unknown("pod %s ended while the API watch was blind: when, and in which order, is not known", p.name)
		o.now[p.ordinal] = p
		return
	}
	if !same && !p.deleted {
		switch {
		case p.event.Object.Verb != history.VerbAdded:
			o.ruling.unknown("pod %s was there when it was first seen, at %s: its creation was missed",
				p.name, o.scene.clock(p.event.Span.NotAfter))
		case set == nil:
			o.ruling.unknown("pod %s was created at resourceVersion %d, before the StatefulSet was known", p.name,
				p.version)
		case !set.parallel:
			o.judgeCreation(p, set)
		}
	}
	if p.deleting && (!same || !old.deleting) {
		o.judgeDeletion(p, set)
	}
	o.now[p.ordinal] = p
	o.arrived = max(o.arrived, p.event.Span.NotAfter)
}

// judgeCreation holds that all predecessors are Running and Ready.
func (o *ordering) judgeCreation(p *podState, set *setState) {
	o.ruling.evidence++
	o.made[p.ordinal] = true
	for k := min(max(set.start, 0), p.ordinal); k < p.ordinal; k++ {
		before := o.now[k]
		if before != nil && before.ok() {
			if o.watch.gapBetween(before.event.Span.NotAfter, p.event.Span.NotAfter) {
				o.blind(p, k)
			}
			continue
		}
		if o.unsure(before, p) {
			o.blind(p, k)
			continue
		}
		if before != nil && before.lost != nil && p.event.Span.NotBefore.Sub(before.lost.Span.NotAfter) < cacheLag {
			o.ruling.unknown("pod %s was created at a time that may be less than %s after %s had lost its readiness: "+
				"the controller may not have known of it", p.name, cacheLag, before.name)
			continue
		}
		o.blame(p, before, fmt.Sprintf("Pod %s was created at %s although %s-%d was %s.", p.name,
			o.scene.clock(p.event.Span.NotAfter), o.scene.plan.Workload.StatefulSet, k, before.describe()))
		return // The first predecessor is the one that counts.
	}
}

// judgeDeletion holds, for a pod that the scaling ended, that all successors are gone.
func (o *ordering) judgeDeletion(p *podState, set *setState) {
	switch {
	case set == nil:
		o.ruling.unknown("pod %s was ended at resourceVersion %d, before the StatefulSet was known", p.name,
			p.version)
		return
	case set.parallel:
		return
	case set.deleting || p.disrupted || p.ordinal >= set.start && p.ordinal-set.start < set.replicas:
		o.spared++
		return
	}
	o.ruling.evidence++
	o.ended++
	for _, k := range o.successors(p.ordinal) {
		after := o.now[k]
		if !after.deleted {
			if o.unsure(after, p) {
				o.blind(p, k)
				continue
			}
			o.blame(p, after, fmt.Sprintf("Pod %s was ended by scaling down at %s although %s was still %s.", p.name,
				o.scene.clock(p.event.Span.NotAfter), after.name, after.describe()))
			return
		}
		if e := o.gone[after.uid]; e != nil && e.Span.NotBefore > p.event.Span.NotAfter {
			o.blame(p, after,
				fmt.Sprintf("Pod %s was ended by scaling down at %s although %s (pid %d) of %s still ran on %s, "+
					"at least until %s.", p.name, o.scene.clock(p.event.Span.NotAfter), e.Process.Name, e.Process.PID,
					after.name,
					e.Process.Node, o.scene.clock(e.Span.NotBefore)), e.ID)
			return
		}
	}
}

// successors returns the known ordinals above k, the highest first.
func (o *ordering) successors(k int) []int {
	var above []int
	for n := range o.now {
		if n > k {
			above = append(above, n)
		}
	}
	slices.Sort(above)
	slices.Reverse(above)
	return above
}

// unsure reports that a gap lies between what is known of a pod (or of anything, for one that is not known) and p.
func (o *ordering) unsure(known, p *podState) bool {
	from := o.arrived
	if known != nil {
		from = known.event.Span.NotAfter
	}
	return o.watch.gapBetween(from, p.event.Span.NotAfter)
}

func (o *ordering) blind(p *podState, k int) {
	o.ruling.unknown("the API watch was blind between what it knew of %s-%d and the change of %s at %s",
		o.scene.plan.Workload.StatefulSet, k, p.name, o.scene.clock(p.event.Span.NotAfter))
}

func (o *ordering) blame(p, other *podState, sentence string, more ...int64) {
	span := p.event.Span
	events := append([]int64{p.event.ID}, more...)
	if other != nil {
		events = append(events, other.event.ID)
	}
	o.ruling.breach(Finding{
		Promise: Order().Promise, Sentence: sentence, Subject: "pod " + p.name, Span: span, Events: events,
		Faults: o.scene.faultsIn(span),
	})
}

// describe says in words what a pod is; it takes nil, for a pod that is not there.
func (p *podState) describe() string {
	switch {
	case p == nil || p.deleted:
		return "not there"
	case p.deleting:
		return "terminating"
	case !p.running:
		return "not Running"
	case !p.ready:
		return "Running and not Ready"
	}
	return "there"
}

// judgeAmounts demands the creations and scale-downs that the plan calls for.
func (o *ordering) judgeAmounts() {
	s := o.scene
	start := 0
	if len(o.watch.sets) > 0 {
		start = max(o.watch.sets[0].start, 0)
	}
	for k := range s.plan.Workload.Replicas {
		if !o.made[start+k] {
			o.ruling.unknown("the creation of %s-%d was never judged", s.plan.Workload.StatefulSet, start+k)
		}
	}
	want, replicas := 0, s.plan.Workload.Replicas
	for _, st := range s.plan.AllSteps() {
		if st.Do == plan.ActionScale && st.Replicas != nil {
			want += max(replicas-*st.Replicas, 0)
			replicas = *st.Replicas
		}
	}
	if o.ended < want {
		o.ruling.unknown("the plan scales %d pods away, the end of %d was judged", want, o.ended)
	}
	o.ruling.note("%d pods created, %d scaled away, %d ended by something else", len(o.made), o.ended, o.spared)
}
