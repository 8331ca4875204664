package check

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// PDBHonoured judges every eviction of a pod of the StatefulSet against how many of the others were Running and Ready.
// A pod counts as healthy as long as the disruption controller, which reads from a cache, may have taken it for
// healthy; but one that was evicted while it was healthy does not, since the API server itself takes it off the budget.
// A pod that is Pending or has ended may be evicted whatever the budget says (canIgnorePDB).
func PDBHonoured() Check {
	return Check{
		Name: "pdb-honoured",
		When: Continuous,
		Promise: "No running pod is evicted unless at least the budget's minAvailable of the others are Running and " +
			"Ready.",
		Source: "Kubernetes documentation, Specifying a Disruption Budget; KEP-85; " +
			"k8s.io/kubernetes pkg/registry/core/pod/storage, checkAndDecrement",
		Unit:    "evictions of pods of the StatefulSet",
		Applies: func(p plan.Plan) bool { return p.Workload.MinAvailable > 0 },
		judge:   judgePDBHonoured,
	}
}

func judgePDBHonoured(r *ruling) {
	watch := r.world.Watch()
	r.watched("who was evicted is not known", world.PodsObserver)
	set := r.world.Sets().Named(r.trial.Plan.Workload.StatefulSet)
	least := r.trial.Plan.Workload.MinAvailable
	for _, life := range r.world.Pods().All {
		p := life.Asked
		if life.Set != set || p == nil || p.Event.Span.NotBefore > r.trial.LookedUntil() {
			continue
		}
		at, since := r.clock(p.Event.Span.NotAfter), r.viewSince(p.Event.Span)
		switch {
		case p.Guessed():
			r.unknown("%s ended while the observer %s was blind: whether it was evicted is not known", life.Name,
				world.PodsObserver)
			continue
		case !evicted(p):
			continue
		case watch.Blind(since, p.Event.Span.NotAfter, world.PodsObserver):
			r.unknown("%s was evicted at %s, and the observer %s was blind then", life.Name, at, world.PodsObserver)
			continue
		case !p.Status.Running:
			r.note("%s was evicted at %s while it was %s: the budget does not count it", life.Name, at, p.Status.Phase)
			continue
		}
		r.judged(life.Name)
		healthy, perhaps, events := r.others(set, life, p, since)
		r.note("%s was evicted at %s, %s Ready", life.Name, at, were(healthy, "other"))
		if perhaps < least {
			r.violation(Finding{Subject: life.Name, Node: life.Node, Events: leading([]int64{p.Event.ID}, events),
				Span: history.Span{NotBefore: since, NotAfter: p.Event.Span.NotAfter}}, "%s was evicted at %s while "+
				"%s Running and Ready, and the budget's minAvailable is %d.", life.Name, at,
				were(healthy, "other"), least)
		}
	}
}

// others counts the other pods that were healthy when life was evicted, and those that the disruption controller may
// have taken for healthy.
func (r *ruling) others(set *world.Set, life *world.PodLife, p *world.PodState, since history.Time) (
	healthy, perhaps int, events []int64,
) {
	might := map[string]bool{} // By name: a pod and its replacement count once.
	for _, other := range set.Pods {
		state := other.Before(p.Version)
		if other.Name == life.Name || state == nil {
			continue
		}
		events = append(events, state.Event.ID)
		if state.Healthy() && !state.Deleting() {
			healthy++
		}
		asked := other.Asked
		counted := asked != nil && asked.Version < p.Version && asked.Healthy() && evicted(asked)
		if !counted && !state.Down(since) {
			might[other.Name] = true
		}
	}
	return healthy, len(might), events
}

// evicted reports whether the Eviction API requested a pod's deletion.
func evicted(p *world.PodState) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue &&
			c.Reason == "EvictionByEvictionAPI"
	})
}
