package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Order judges in which order the StatefulSet made and ended its pods.
//
// Created pods are judged one by one: at that resourceVersion every pod of a lower ordinal is Running and Ready, and
// has been for minReadySeconds. Ended pods are judged when it was the scaling that ended them: no pod of a higher
// ordinal is left then, neither its object nor, where processes were watched, any process of it, and every pod of a
// lower ordinal that is to stay is Running and Ready. A pod whose ordinal the StatefulSet still wants was ended by
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
func inOrder(h *world.World) bool {
	s, err := h.Trial()
	return err != nil || !s.Plan.Workload.Parallel
}

// ordering walks the states of one StatefulSet's pods in their order.
type ordering struct {
	*setJudge
	set     *setLife
	now     map[int]*podState // The latest state of each ordinal, deleted ones included.
	gone    map[string]*history.Event
	made    map[int]bool
	ended   int
	spared  int          // Ended pods that were not the scaling's.
	arrived history.Time // When the state before this one became known.
}

func judgeOrder(h *world.World) Result {
	r := newRuling("creations and scale-downs of pods")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	w := world.Memo(h, readSets)
	j := &setJudge{world: h, scene: s, watch: w, ruling: r, promise: Order().Promise,
		planned: w.planned(s.Plan.Workload.StatefulSet)}
	judgeOrderSight(j)
	sets := w.judged()
	if !slices.Contains(sets, j.planned) {
		sets = append(sets, j.planned)
	}
	for _, set := range sets {
		o := &ordering{setJudge: j, set: set, now: map[int]*podState{}, gone: h.LastProcesses(), made: map[int]bool{}}
		for _, p := range set.pods {
			o.step(p)
		}
		if set == j.planned {
			o.judgeAmounts()
		}
	}
	return r.result()
}

func judgeOrderSight(j *setJudge) {
	w, r := j.watch, j.ruling
	for _, name := range []string{world.PodsObserver, world.SetsObserver} {
		if !w.on[name] {
			r.unknown("the observer %s was never on: creations and deletions may be missing", name)
		}
	}
	if len(j.planned.sets) == 0 {
		r.unknown("StatefulSet %s was never seen", j.scene.Plan.Workload.StatefulSet)
	}
	if n := w.strange["pods"] + w.strange["statefulsets"]; n > 0 {
		r.unknown("%d events of pods or of the StatefulSet have no content or no place in the order", n)
	}
	if n := w.jumbled["pods"] + w.jumbled["statefulsets"]; n > 0 {
		r.unknown("%d events of pods or of the StatefulSet came twice, or after one with a higher resourceVersion", n)
	}
	if slices.ContainsFunc(j.planned.sets, func(s *world.StatefulSet) bool { return s.Spec.Demand.Parallel }) {
		r.unknown("the StatefulSet's podManagementPolicy is Parallel: it promises no order")
	}
}

// step takes one state of one pod in.
func (o *ordering) step(p *podState) {
	l := p.pod
	old := o.now[l.ordinal]
	same := old != nil && old.pod == l && !old.Deleted()
	set := o.set.at(p.Version)
	if p.Guessed() {
		o.ruling.unknown("pod %s ended while the API watch was blind: when, and in which order, is not known", l.name)
		o.now[l.ordinal] = p
		return
	}
	if !same && !p.Deleted() {
		switch {
		case p.Event.Object.Verb != history.VerbAdded:
			o.ruling.unknown("pod %s was there when it was first seen, at %s: its creation was missed",
				l.name, o.clock(p.Event))
		case set == nil:
			o.ruling.unknown("pod %s was created at resourceVersion %d, before the StatefulSet was known", l.name,
				p.Version)
		case !l.owned:
			o.ruling.unknown("pod %s was created at %s by something else than the "+
				"StatefulSet", l.name, o.clock(p.Event))
		case !set.Spec.Demand.Parallel:
			o.judgeCreation(p, set)
		}
	}
	if p.Deleting() && (!same || !old.Deleting()) {
		o.judgeDeletion(p, set)
	}
	o.now[l.ordinal] = p
	o.arrived = max(o.arrived, p.Event.Span.NotAfter)
}

// judgeCreation holds that all predecessors are Running and Ready.
func (o *ordering) judgeCreation(p *podState, set *world.StatefulSet) {
	o.ruling.evidence++
	o.made[p.pod.ordinal] = true
	first := min(max(set.Spec.Demand.Start, 0), p.pod.ordinal)
	for k := first; k < min(p.pod.ordinal, first+mostOrdinals); k++ {
		before := o.now[k]
		if before != nil && before.ok() {
			if o.watch.blindTo(before.Event.Span.NotAfter, p.Event.Span.NotAfter) {
				o.blind(p, k)
			}
			if o.early(p, before, p.pod.created) {
				return
			}
			continue
		}
		if o.unsure(before, p) {
			o.blind(p, k)
			continue
		}
		if before != nil && before.lost != nil && before.lost.Span.NotAfter > o.since(p.Event.Span) {
			o.ruling.unknown("pod %s was created at a time that may be less than %s after %s had lost its "+
				"readiness: the controller may not have known of it", p.pod.name, cacheLag, before.pod.name)
			continue
		}
		o.blame(p, fmt.Sprintf("Pod %s was created at %s although %s-%d was %s.", p.pod.name, o.clock(p.Event),
			o.set.name, k, before.describe()), before)
		return // The first predecessor is the one that counts.
	}
}

// early holds that a predecessor that is Ready has been so for minReadySeconds.
func (o *ordering) early(p, before *podState, stamp int64) bool {
	states := o.set.around(p.Version, o.since(p.Event.Span))
	if !every(states, func(st *world.StatefulSet) bool { return before.waiting(st.Spec.Demand.MinReady, stamp) }) {
		return false
	}
	did := "created"
	if p.Deleting() {
		did = "ended by scaling down"
	}
	o.blame(p, fmt.Sprintf("Pod %s was %s at %s although %s had been Ready for less than the %d s of minReadySeconds.",
		p.pod.name, did, o.clock(p.Event), before.pod.name, states[0].Spec.Demand.MinReady), before)
	return true
}

// judgeDeletion holds, for a pod that the scaling ended, that all successors are gone and all predecessors healthy.
func (o *ordering) judgeDeletion(p *podState, set *world.StatefulSet) {
	l := p.pod
	switch {
	case set == nil:
		o.ruling.unknown("pod %s was ended at resourceVersion %d, before the StatefulSet was known", l.name, p.Version)
		return
	case set.Spec.Demand.Parallel:
		return
	case set.Deleting() || p.Status.Disrupted || set.Spec.Demand.Wants(l.ordinal):
		o.spared++
		return
	}
	o.ruling.evidence++
	o.ended++
	for _, k := range o.successors(l.ordinal) {
		after := o.now[k]
		if set.Spec.Demand.Wants(k) {
			continue // It is to stay: the StatefulSet now begins at a higher ordinal.
		}
		if !after.Deleted() {
			if o.unsure(after, p) {
				o.blind(p, k)
				continue
			}
			o.blame(p, fmt.Sprintf("Pod %s was ended by scaling down at %s although %s was still %s.", l.name,
				o.clock(p.Event), after.pod.name, after.describe()), after)
			return
		}
		if e := o.gone[after.pod.uid]; e != nil && e.Span.NotBefore > p.Event.Span.NotAfter && !o.forced(after) {
			o.breach("pod "+l.name, p.Event.Span,
				fmt.Sprintf("Pod %s was ended by scaling down at %s although %s (pid %d) of %s still ran on %s, "+
					"at least until %s.", l.name, o.clock(p.Event), e.Process.Name, e.Process.PID, after.pod.name,
					e.Process.Node, o.scene.Clock(e.Span.NotBefore)), p.Event.ID, after.Event.ID, e.ID)
			return
		}
	}
	o.judgePredecessors(p, set)
}

// forced reports that a pod's object was taken away before its node had said that its containers had ended: by one who
// deleted it by force, who answers for what still ran. Since Kubernetes 1.27 the kubelet brings a pod to the phase
// Succeeded or Failed before it lets its object go.
func (o *ordering) forced(p *podState) bool {
	if p.Status.Disrupted {
		return true
	}
	var before *podState
	for _, st := range p.pod.states {
		if st.Deleted() {
			break
		}
		before = st
	}
	return before != nil && before.Spec.NodeName != "" && !before.Status.Over && !p.Status.Over
}

// judgePredecessors holds that a scale-down waits for every pod of a lower ordinal that is to stay.
func (o *ordering) judgePredecessors(p *podState, set *world.StatefulSet) {
	first := max(set.Spec.Demand.Start, 0)
	for k := first; k < min(p.pod.ordinal, first+mostOrdinals) && set.Spec.Demand.Wants(k); k++ {
		before := o.now[k]
		switch {
		case before != nil && before.ok():
			if o.early(p, before, p.endAsked()) {
				return
			}
		case o.unsure(before, p):
			o.blind(p, k)
		case before.fell(o.since(p.Event.Span)):
			o.blame(p, fmt.Sprintf("Pod %s was ended by scaling down at %s although %s-%d was %s.", p.pod.name,
				o.clock(p.Event), o.set.name, k, before.describe()), before)
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
	slices.SortFunc(above, func(a, b int) int { return cmp.Compare(b, a) })
	return above
}

// unsure reports that a gap lies between what is known of a pod (or of anything, for one that is not known) and p.
func (o *ordering) unsure(known, p *podState) bool {
	from := o.arrived
	if known != nil {
		from = known.Event.Span.NotAfter
	}
	return o.watch.blindTo(from, p.Event.Span.NotAfter)
}

func (o *ordering) blind(p *podState, k int) {
	o.ruling.unknown("the API watch was blind between what it knew of %s-%d and the change of %s at %s",
		o.set.name, k, p.pod.name, o.clock(p.Event))
}

// judgeAmounts demands the creations and scale-downs that the plan calls for.
func (o *ordering) judgeAmounts() {
	s := o.scene
	start := 0
	if len(o.set.sets) > 0 {
		start = max(o.set.sets[0].Spec.Demand.Start, 0)
	}
	for k := range s.Plan.Workload.Replicas {
		if !o.made[start+k] {
			o.ruling.unknown("the creation of %s-%d was never judged", s.Plan.Workload.StatefulSet, start+k)
		}
	}
	want, replicas := 0, s.Plan.Workload.Replicas
	for _, st := range s.Plan.AllSteps() {
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
