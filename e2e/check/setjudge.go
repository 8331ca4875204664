package check

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// eventLag is how long after a deletion the controller's Event about it may come.
const eventLag = 5 * time.Second

// setJudge is the state that the checks of StatefulSets share.
type setJudge struct {
	*ruling
	objects *world.Objects
	sets    *world.Sets
	watch   *world.Watch
	until   history.Time // Later events no longer belong to the trial.
	planned *world.Set   // The StatefulSet of the plan.
	set     *world.Set   // The StatefulSet being judged.

	hurts      []history.Span     // When the control plane was hurt, and CacheLag after it.
	placements map[placement]bool // Cache of allows.
}

// ofSets completes a check that judges each recorded StatefulSet, sorted by key, from the facts of the given observers.
func ofSets(c Check, observers []string, each func(*setJudge)) Check {
	c.judge = func(r *ruling) {
		j := newSetJudge(r)
		j.sawObjects(j.sets.LastFact(), observers...)
		for _, j.set = range j.sets.Seen() {
			each(j)
		}
	}
	return c
}

func newSetJudge(r *ruling) *setJudge {
	w, name := r.world, r.trial.Plan.Workload.StatefulSet
	j := &setJudge{ruling: r, objects: w.Objects(), sets: w.Sets(), watch: w.Watch(), until: r.trial.LookedUntil(),
		planned: w.Sets().Named(name), placements: map[placement]bool{}}
	if len(j.planned.Versions) == 0 {
		r.unknown("StatefulSet %s was never seen", name)
	}
	for _, set := range j.sets.Seen() {
		if p := set.Released; p != nil {
			j.unknown("somebody took %s out of %s, by its labels or its owner, at %s: nothing is judged from then on",
				p.Name(), set, j.when(p.Event))
			j.until = min(j.until, p.Event.Span.NotBefore-1)
		}
	}
	j.readHurts()
	return j
}

// sawObjects adds a reason for each observer that never ran, was blind up to until, or recorded events out of order. A
// gap after the last fact of a StatefulSet hides nothing.
func (j *setJudge) sawObjects(until history.Time, observers ...string) {
	for _, name := range observers {
		resource := strings.TrimPrefix(name, "api/")
		j.watched("what it would have told is missing", name)
		if i := slices.IndexFunc(j.watch.Gaps[name],
			func(g history.Span) bool { return g.NotBefore <= until }); i >= 0 {
			gap := j.watch.Gaps[name][i]
			j.unknown("the observer %s was blind from %s to %s", name, j.clock(gap.NotBefore), j.clock(gap.NotAfter))
		}
		strange, jumbled := j.objects.Disorder(resource)
		if strange > 0 {
			j.unknown("%d events of %s have no content or no place in the order", strange, resource)
		}
		if jumbled > 0 {
			j.unknown("%d events of %s came twice, or after one with a higher resourceVersion: the record is not "+
				"what the API server sent", jumbled, resource)
		}
	}
}

// blind reports whether the watch of pods or StatefulSets was blind at some time in [from, to].
func (j *setJudge) blind(from, to history.Time) bool {
	return j.watch.Blind(from, to, world.PodsObserver, world.SetsObserver)
}

// when renders the time at which an event became known.
func (j *setJudge) when(e *history.Event) string { return j.clock(e.Span.NotAfter) }

// late reports whether an event came after the trial was over.
func (j *setJudge) late(e *history.Event) bool { return e.Span.NotBefore > j.until }

// walk calls step for the states of a StatefulSet's pods in order; now holds the previous state of each ordinal.
func (j *setJudge) walk(step func(p *world.PodState, now map[int]*world.PodState)) {
	now := map[int]*world.PodState{}
	for _, p := range j.set.States {
		if j.late(p.Event) {
			continue
		}
		step(p, now)
		now[p.Life.Ordinal] = p
	}
}

// replay calls version for the versions of a StatefulSet, and pod for the states of its pods, by resourceVersion.
func (j *setJudge) replay(version func(*world.StatefulSet), pod func(*world.PodState)) {
	i, states := 0, j.set.States
	for _, st := range j.set.Versions {
		for ; i < len(states) && states[i].Version < st.Version; i++ {
			pod(states[i])
		}
		version(st)
	}
	for _, p := range states[i:] {
		pod(p)
	}
}

// viewSince returns how old the state may have been that a controller acted on at a time: CacheLag before, or more if a
// fault hurt the control plane then, since a request sent before the fault may be carried out after it.
func (r *ruling) viewSince(at history.Span) history.Time {
	since := at.NotBefore.Add(-world.CacheLag)
	for _, l := range r.trial.Faults {
		active, ok := l.Active()
		if ok && active.PossiblyOverlaps(history.Between(since, at.NotAfter)) && r.trial.HurtsControl(l) {
			since = min(since, active.NotBefore.Add(-world.CacheLag))
		}
	}
	return since
}

// acted returns the versions of the StatefulSet that a controller may have acted on when it changed a pod, newest
// first.
func (j *setJudge) acted(p *world.PodState) []*world.StatefulSet {
	return j.set.Around(p.Version, j.viewSince(p.Event.Span))
}

// readHurts reads when a fault that hurts the control plane, or its upgrade, was active or ended less than CacheLag
// before.
func (j *setJudge) readHurts() {
	for _, st := range j.trial.Plan.AllSteps() {
		at := j.trial.StepPhase(st.N)
		if st.Upgrade == nil || st.Upgrade.Node != plan.UpgradeControlPlane || at.Begin == nil {
			continue
		}
		hurt := history.Span{NotBefore: at.Begin.Span.NotBefore, NotAfter: world.Forever}
		if at.End != nil {
			hurt.NotAfter = at.End.Span.NotAfter.Add(world.CacheLag)
		}
		j.hurts = append(j.hurts, hurt)
	}
	for _, l := range j.trial.Faults {
		hurt, ok := l.Active()
		if !ok || !j.trial.HurtsControl(l) {
			continue
		}
		if hurt.NotAfter != world.Forever {
			hurt.NotAfter = hurt.NotAfter.Add(world.CacheLag)
		}
		j.hurts = append(j.hurts, hurt)
	}
}

// well returns the parts of span in which the control plane was not hurt. One that follows a hurt may begin with a
// controller that has to be started again, and to become the leader.
func (j *setJudge) well(span history.Span) []history.Span { return world.Holes(span, j.hurts, nil) }

// explained reports whether something other than the StatefulSet is known to have ended the pod: it had failed or was
// evicted, its node was lost, a fault was active on it or on its node, or a step of the plan deletes it.
func (j *setJudge) explained(p *world.PodState) bool {
	if p.Status.Disrupted || p.Status.Over {
		return true
	}
	if n := j.objects.Nodes.Latest(p.Spec.NodeName); n != nil && n.Deleted() {
		return true
	}
	its := func(l world.Fault) bool { return l.Node != "" && l.Node == p.Spec.NodeName || l.Victim == p.Name() }
	return j.hits(p, its) || slices.ContainsFunc(j.trial.Plan.AllSteps(), func(st plan.Step) bool {
		ends := st.Do == plan.ActionDeleteSet ||
			slices.ContainsFunc(j.trial.Faults, func(l world.Fault) bool { return l.Step == st.N && its(l) }) ||
			(st.Do == plan.ActionDeletePod || st.Do == plan.ActionDeleteClaim) &&
				st.Ordinal != nil && *st.Ordinal == p.Life.Ordinal
		return ends && j.trial.Ran(st.N, p.Event.Span)
	})
}

// hits reports whether a fault of some kind was active when a state of a pod was stored.
func (j *setJudge) hits(p *world.PodState, kind func(world.Fault) bool) bool {
	return slices.ContainsFunc(j.trial.Faults, func(l world.Fault) bool {
		active, ok := l.Active()
		return ok && active.PossiblyOverlaps(p.Event.Span) && kind(l)
	})
}

// byController reports whether an Event shows that the StatefulSet controller ended the pod; the controller emits it
// afterwards. The Event proves nothing if it may be about a later pod of the name, or if a fault ended the pod then.
func (j *setJudge) byController(p *world.PodState) bool {
	if j.hits(p, func(l world.Fault) bool { return l.Victim == p.Name() && slices.Contains(l.Takes, plan.PartPod) }) {
		return false
	}
	asked, later := p.Event.Span, world.Forever
	for _, l := range p.Life.Set.ByOrdinal[p.Life.Ordinal] {
		if l.Asked != nil && l.Asked.Version > p.Version {
			later = l.Asked.Event.Span.NotBefore
			break
		}
	}
	return slices.ContainsFunc(j.sets.Deletions(p.Life.Namespace, p.Name()), func(said history.Span) bool {
		return said.NotAfter >= asked.NotBefore && said.NotBefore <= asked.NotAfter.Add(eventLag) &&
			said.NotAfter < later
	})
}

// blame adds a violation about a pod, proven by a state of it and, unless nil, by one of another pod.
func (j *setJudge) blame(p, other *world.PodState, format string, args ...any) {
	events := []int64{p.Event.ID}
	if other != nil {
		events = append(events, other.Event.ID)
	}
	j.breaks("pod "+p.Life.Name, p.Event.Span, events, format, args...)
}

// breaks adds a violation.
func (j *setJudge) breaks(subject string, span history.Span, events []int64, format string, args ...any) {
	j.violation(Finding{Subject: subject, Span: span, Events: events}, format, args...)
}

// follows adds a reason if two successive versions of one name show that the record is incomplete: they contradict each
// other or, by what the caller has found, their content does. Old is nil at the first version.
func follows[S, T any](j *setJudge, kind string, old, now *world.Object[S, T], content string) {
	if what := cmp.Or(contradicts(old, now), content); what != "" {
		j.unknown("%s %s (uid %s) at %s makes an impossible transition: %s", kind, now.Name(), now.UID(),
			j.when(now.Event), what)
	}
}

// contradicts says what makes the transition between two versions of one name impossible, "" if it is possible.
func contradicts[S, T any](old, now *world.Object[S, T]) string {
	verb := now.Event.Object.Verb
	switch {
	case old != nil && old.UID() != now.UID() && !old.Deleted():
		return "one of its name (uid " + old.UID() + ") had been there, and its end was missed"
	case old == nil || old.UID() != now.UID():
		if verb != history.VerbAdded && verb != history.VerbListed {
			return "its creation was missed"
		}
	case now.Guessed() || old.Guessed():
	case old.Deleted():
		return "it had ended"
	case old.Deleting() && !now.Deleting():
		return "its end had been asked for, and was not"
	case now.Meta.Generation < old.Meta.Generation:
		return "it is of an earlier generation"
	}
	return ""
}

// every reports whether there is at least one state and is holds for all of them.
func every(states []*world.StatefulSet, is func(*world.StatefulSet) bool) bool {
	return len(states) > 0 && !slices.ContainsFunc(states, func(st *world.StatefulSet) bool { return !is(st) })
}

// wanting returns the versions of acted that want the pod: a controller that created it acted on one of them.
func (j *setJudge) wanting(p *world.PodState) []*world.StatefulSet {
	return slices.DeleteFunc(j.acted(p), func(st *world.StatefulSet) bool { return !keeps(st, p.Life.Ordinal) })
}

// keeps reports whether a StatefulSet wants an ordinal and is not being deleted.
func keeps(st *world.StatefulSet, ordinal int) bool {
	return st.Spec.Demand.Wants(ordinal) && !st.Deleting()
}

// rolling reports whether the update strategy is RollingUpdate.
func rolling(st *world.StatefulSet) bool { return st.Spec.Demand.Strategy == world.RollingUpdate }

// recreating reports whether the update strategy is Recreate.
func recreating(st *world.StatefulSet) bool { return st.Spec.Demand.Strategy == world.Recreate }

// updates counts the steps of a plan that change the pod template.
func updates(p plan.Plan) (n int) {
	for _, st := range p.AllSteps() {
		if st.Do == plan.ActionUpdate || st.Do == plan.ActionRollback {
			n++
		}
	}
	return n
}

// rollouts counts the steps of a plan after which a rolling update must replace a pod.
func rollouts(p plan.Plan) int {
	replicas, partition, pending, n := p.Workload.Replicas, p.Workload.Partition, false, 0
	for _, st := range p.AllSteps() {
		switch st.Do {
		case plan.ActionScale:
			if st.Replicas != nil {
				replicas = *st.Replicas
			}
			continue
		case plan.ActionUpdate, plan.ActionRollback:
			pending = true
		case plan.ActionPartition:
			partition = 0
			if st.Partition != nil {
				partition = *st.Partition
			}
		default:
			continue
		}
		if pending && partition < replicas {
			n++
		}
	}
	return n
}

// onDelete reports whether the plan's update strategy is OnDelete.
func onDelete(p plan.Plan) bool { return p.Workload.Strategy() == plan.StrategyOnDelete }

// local reports whether the plan puts the workload on local volumes.
func local(p plan.Plan) bool { return p.Workload.StorageName() == plan.StorageLocal }

// claimAt returns a claim at a resourceVersion, nil if none was seen or it was gone.
func (j *setJudge) claimAt(key string, version uint64) *world.Claim {
	if c := j.objects.Claims.AtVersion(key, version); c != nil && !c.Deleted() {
		return c
	}
	return nil
}

// volumeAt returns a volume at a resourceVersion, or its first version if it was seen only later; nil if never.
func (j *setJudge) volumeAt(name string, version uint64) *world.Volume {
	if v := j.objects.Volumes.AtVersion(name, version); v != nil {
		return v
	}
	if all := j.objects.Volumes.ByKey[name]; len(all) > 0 {
		return all[0]
	}
	return nil
}

// bound reports whether a claim is Bound.
func bound(c *world.Claim) bool { return c.Status.Phase == corev1.ClaimBound }

// owns reports whether a uid is among an object's ownerReferences.
func owns(uid string, m *metav1.ObjectMeta) bool {
	return slices.ContainsFunc(m.OwnerReferences,
		func(ref metav1.OwnerReference) bool { return string(ref.UID) == uid })
}

// placement is a volume's required node affinity and a node.
type placement struct {
	affinity *corev1.NodeSelector
	node     string
}

// allows reports whether a volume's node affinity allows a node, by the node's last labels or, if none were seen, its
// host name. A selector that cannot be parsed allows every node.
func (j *setJudge) allows(v *world.Volume, node string) bool {
	if v.Spec.NodeAffinity == nil || v.Spec.NodeAffinity.Required == nil {
		return true
	}
	at := placement{v.Spec.NodeAffinity.Required, node}
	fits, known := j.placements[at]
	if !known {
		labels := map[string]string{corev1.LabelHostname: node}
		for _, n := range j.objects.Nodes.ByKey[node] {
			if n.Meta.Labels != nil {
				labels = n.Meta.Labels
			}
		}
		match, err := nodeaffinity.NewLazyErrorNodeSelector(at.affinity).
			Match(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, Labels: labels}})
		fits = err != nil || match
		j.placements[at] = fits
	}
	return fits
}
