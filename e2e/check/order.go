package check

import (
	"iter"
	"maps"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Order judges the order in which the StatefulSet creates and deletes its pods.
//
// When a pod is created, every pod of a lower ordinal must be Running and Ready, and have been for minReadySeconds, at
// that resourceVersion. When a pod is scaled down, no pod of a higher ordinal may be left (neither its object nor, if
// processes were watched, any of its processes), and every pod of a lower ordinal that stays must be Running and Ready.
// A deleted pod whose ordinal the StatefulSet still wants, that has the condition DisruptionTarget, or that the plan
// deletes, was deleted by something else: there is no promise about it.
func Order() Check {
	return Check{
		Name:    "order",
		When:    Continuous,
		Promise: "The StatefulSet makes pods in order, each once all before it are Ready, and ends them in reverse.",
		Source: "Kubernetes documentation, StatefulSets, Deployment and Scaling Guarantees; " +
			"the order of resourceVersions is that of KEP-5504",
		// A Parallel StatefulSet promises no order.
		Applies: func(p plan.Plan) bool { return !p.Workload.Parallel },
		Unit:    "creations and scale-downs of pods",
		judge:   judgeOrder,
	}
}

// ordering walks the states of one StatefulSet's pods in order.
type ordering struct {
	*setJudge
	now     map[int]*world.PodState   // The latest state of each ordinal, deleted ones included.
	gone    map[string]*world.Process // By pod uid: the process that ended last.
	made    map[int]bool
	ended   int
	spared  int          // Pods that were not deleted by scaling down.
	deleted int          // Those of spared that were to be scaled away, and that a step of the plan deleted.
	arrived history.Time // When the previous state became known.
}

func judgeOrder(r *ruling) {
	j := newSetJudge(r)
	j.judgeOrderSeen()
	gone := map[string]*world.Process{}
	for _, p := range r.world.Containers().Processes {
		if old := gone[p.Pod]; p.Ended && (old == nil || p.To > old.To) {
			gone[p.Pod] = p
		}
	}
	sets := j.sets.Seen()
	if !slices.Contains(sets, j.planned) {
		sets = append(sets, j.planned)
	}
	for _, j.set = range sets {
		o := &ordering{setJudge: j, now: map[int]*world.PodState{}, gone: gone, made: map[int]bool{}}
		for _, p := range j.set.States {
			if out := j.set.Released; out != nil && p.Version >= out.Version {
				break
			}
			o.step(p)
		}
		if j.set == j.planned {
			o.judgeAmounts()
		}
	}
}

// judgeOrderSeen adds a reason for everything that hides the order. Gaps are not among them: a gap counts only between
// two states that are compared.
func (j *setJudge) judgeOrderSeen() {
	j.watched("creations and deletions may be missing", world.PodsObserver, world.SetsObserver)
	if n := j.objects.Pods.Strange + j.objects.StatefulSets.Strange; n > 0 {
		j.unknown("%d events of pods or of the StatefulSet have no content or no place in the order", n)
	}
	if n := j.objects.Pods.Jumbled + j.objects.StatefulSets.Jumbled; n > 0 {
		j.unknown("%d events of pods or of the StatefulSet came twice, or after one with a higher resourceVersion", n)
	}
	if slices.ContainsFunc(j.planned.Versions, func(s *world.StatefulSet) bool { return s.Spec.Demand.Parallel }) {
		j.unknown("the StatefulSet's podManagementPolicy is Parallel: it promises no order")
	}
}

// step judges the next state of a pod.
func (o *ordering) step(p *world.PodState) {
	l := p.Life
	old, set := o.now[l.Ordinal], o.set.At(p.Version)
	same := old != nil && old.Life == l && !old.Deleted()
	o.now[l.Ordinal] = p
	if p.Guessed() {
		o.unknown("pod %s ended while the API watch was blind: when, and in which order, is not known", l.Name)
		return
	}
	if !same && !p.Deleted() {
		x, setup := o.trial.Plan.Workload.External, o.trial.Phase(history.PhaseSetup).End
		switch listed := p.Event.Object.Verb == history.VerbListed; {
		case old == nil && listed && x != nil && x.Namespace != "" && setup != nil &&
			p.Event.Span.NotBefore <= setup.Span.NotAfter:
			o.made[l.Ordinal] = true // The StatefulSet existed before the trial.
		case p.Event.Object.Verb != history.VerbAdded:
			o.unknown("pod %s was there when it was first seen, at %s: its creation was missed", l.Name,
				o.when(p.Event))
		case set == nil:
			o.unknown("pod %s was created at resourceVersion %d, before the StatefulSet was known", l.Name, p.Version)
		case !set.Spec.Demand.Parallel:
			o.judgeCreation(p, set)
		}
	}
	if p.Deleting() && (!same || !old.Deleting()) {
		o.judgeDeletion(p, set)
	}
	o.arrived = max(o.arrived, p.Event.Span.NotAfter)
}

// judgeCreation demands that all predecessors are Running and Ready.
func (o *ordering) judgeCreation(p *world.PodState, set *world.StatefulSet) {
	o.evidence++
	o.made[p.Life.Ordinal] = true
	for k := range predecessors(p, set) {
		before := o.now[k]
		switch {
		case before != nil && before.Healthy():
			if o.blind(before.Event.Span.NotAfter, p.Event.Span.NotAfter) {
				o.lost(p, k)
			}
			if o.early(p, before, world.Seconds(&p.Meta.CreationTimestamp)) {
				return
			}
		case o.unsure(before, p):
			o.lost(p, k)
		case before != nil && before.Lost != nil && before.Lost.Span.NotAfter > o.viewSince(p.Event.Span):
			o.unknown("pod %s was created at a time that may be less than %s after %s had lost its "+
				"readiness: the controller may not have known of it", p.Life.Name, world.CacheLag, before.Life.Name)
		default:
			o.blame(p, before, "Pod %s was created at %s although %s-%d was %s.", p.Life.Name, o.when(p.Event),
				o.set.Name, k, before.Describe())
			return // One violation per pod is enough.
		}
	}
}

// predecessors yields the ordinals below a pod's, from the StatefulSet's first on, MostOrdinals at most.
func predecessors(p *world.PodState, set *world.StatefulSet) iter.Seq[int] {
	first := min(max(set.Spec.Demand.Start, 0), p.Life.Ordinal)
	return func(yield func(int) bool) {
		for k := first; k < min(p.Life.Ordinal, first+world.MostOrdinals) && yield(k); k++ {
		}
	}
}

// early demands that a Ready predecessor has been Ready for minReadySeconds. It reports whether that was violated.
func (o *ordering) early(p, before *world.PodState, stamp int64) bool {
	states := o.acted(p)
	if !every(states, func(st *world.StatefulSet) bool { return before.Waiting(st.Spec.Demand.MinReady, stamp) }) {
		return false
	}
	did := "created"
	if p.Deleting() {
		did = "ended by scaling down"
	}
	o.blame(p, before, "Pod %s was %s at %s although %s had been Ready for less than the %d s of minReadySeconds.",
		p.Life.Name, did, o.when(p.Event), before.Life.Name, states[0].Spec.Demand.MinReady)
	return true
}

// judgeDeletion demands, for a pod deleted by scaling down, that all successors are gone and all predecessors healthy.
func (o *ordering) judgeDeletion(p *world.PodState, set *world.StatefulSet) {
	l := p.Life
	switch {
	case set == nil:
		o.unknown("pod %s was ended at resourceVersion %d, before the StatefulSet was known", l.Name, p.Version)
		return
	case set.Spec.Demand.Parallel:
		return
	case set.Deleting() || p.Status.Disrupted || set.Spec.Demand.Wants(l.Ordinal):
		o.spared++
		return
	case o.byPlan(p) && !o.byController(p):
		o.spared++
		o.deleted++
		return
	}
	o.evidence++
	o.ended++
	for _, k := range slices.Backward(slices.Sorted(maps.Keys(o.now))) {
		after := o.now[k]
		if k <= l.Ordinal || set.Spec.Demand.Wants(k) {
			continue // A higher ordinal is still wanted if ordinals.start was raised.
		}
		last := o.gone[after.Life.UID]
		switch {
		case !after.Deleted() && o.unsure(after, p):
			o.lost(p, k)
		case !after.Deleted():
			o.blame(p, after, "Pod %s was ended by scaling down at %s although %s was still %s.", l.Name,
				o.when(p.Event), after.Life.Name, after.Describe())
			return
		case last != nil && last.To > p.Event.Span.NotAfter && !o.forced(after):
			o.breaks("pod "+l.Name, p.Event.Span, []int64{p.Event.ID, after.Event.ID, last.Events[len(last.Events)-1]},
				"Pod %s was ended by scaling down at %s although %s (pid %d) of %s still ran on %s, at least until %s.",
				l.Name, o.when(p.Event), last.Name, last.Pid, after.Life.Name, last.Node, o.clock(last.To))
			return
		}
	}
	o.judgePredecessors(p, set)
}

// byPlan reports whether a step of the plan that deletes the pod, a fault or not, may have run when its end was asked
// for.
func (o *ordering) byPlan(p *world.PodState) bool {
	fault := func(l world.Fault) bool { return l.Victim == p.Name() && slices.Contains(l.Takes, plan.PartPod) }
	return o.hits(p, fault) ||
		slices.ContainsFunc(o.trial.Plan.AllSteps(), func(st plan.Step) bool {
			return st.Do == plan.ActionDeletePod && st.Ordinal != nil && *st.Ordinal == p.Life.Ordinal &&
				p.Life.Set == o.planned && o.trial.Ran(st.N, p.Event.Span)
		})
}

// forced reports whether a pod's object was removed before its node reported that its containers had ended: whoever
// force-deleted it is responsible for what still ran. Since Kubernetes 1.27 the kubelet sets the phase Succeeded or
// Failed before the object goes.
func (o *ordering) forced(p *world.PodState) bool {
	if p.Status.Disrupted {
		return true
	}
	before := p.Life.Before(p.Life.End.Version)
	return before != nil && before.Spec.NodeName != "" && !before.Status.Over && !p.Status.Over
}

// judgePredecessors demands that a scale-down waits for every pod of a lower ordinal that stays.
func (o *ordering) judgePredecessors(p *world.PodState, set *world.StatefulSet) {
	for k := range predecessors(p, set) {
		before := o.now[k]
		switch {
		case !set.Spec.Demand.Wants(k):
			return
		case before != nil && before.Healthy():
			if o.early(p, before, p.EndAsked()) {
				return
			}
		case o.unsure(before, p):
			o.lost(p, k)
		case before.Down(o.viewSince(p.Event.Span)):
			o.blame(p, before, "Pod %s was ended by scaling down at %s although %s-%d was %s.", p.Life.Name,
				o.when(p.Event), o.set.Name, k, before.Describe())
			return
		}
	}
}

// unsure reports whether a gap lies between the last known state of a pod (of any pod, if known is nil) and p.
func (o *ordering) unsure(known, p *world.PodState) bool {
	from := o.arrived
	if known != nil {
		from = known.Event.Span.NotAfter
	}
	return o.blind(from, p.Event.Span.NotAfter)
}

func (o *ordering) lost(p *world.PodState, k int) {
	o.unknown("the API watch was blind between what it knew of %s-%d and the change of %s at %s",
		o.set.Name, k, p.Life.Name, o.when(p.Event))
}

// judgeAmounts demands that as many creations and scale-downs were judged as the plan makes.
func (o *ordering) judgeAmounts() {
	s := o.trial
	start := 0
	if len(o.set.Versions) > 0 {
		start = max(o.set.Versions[0].Spec.Demand.Start, 0)
	}
	for k := range s.Plan.Workload.Replicas {
		if !o.made[start+k] {
			o.unknown("the creation of %s-%d was never judged", s.Plan.Workload.StatefulSet, start+k)
		}
	}
	want, replicas := 0, s.Plan.Workload.Replicas
	for _, st := range s.Plan.AllSteps() {
		if st.Do == plan.ActionScale && st.Replicas != nil {
			want += max(replicas-*st.Replicas, 0)
			replicas = *st.Replicas
		}
	}
	if o.ended+o.deleted < want {
		o.unknown("the plan scales %s away, the end of %d was judged", plan.Count(want, "pod"), o.ended)
	}
	o.note("%s created, %d scaled away, %d ended by something else", plan.Count(len(o.made), "pod"), o.ended, o.spared)
}
