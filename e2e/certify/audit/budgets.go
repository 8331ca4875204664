package audit

import (
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/seatrial/seatrial/e2e/world"
)

// budgetRules look at what a drain may take away.
func budgetRules() []Rule {
	const drain = "Safely Drain a Node (docs/tasks/administer-cluster/safely-drain-node/)"
	return []Rule{
		{
			Name:   "budget-missing",
			Looks:  "a StatefulSet of several replicas has no PodDisruptionBudget",
			Why:    "two nodes drained at once, or a drain during a failure, can take away the majority of a database",
			Source: "Specifying a Disruption Budget (docs/tasks/run-application/configure-pdb/)",
			Fix:    "give it a PodDisruptionBudget with maxUnavailable: 1",
			Needs:  []Part{Budgets, StatefulSets},
			find:   budgetMissing,
		},
		{
			Name:  "budget-blocks",
			Looks: "a PodDisruptionBudget allows no eviction although its pods are healthy",
			Why: "the drain of a node never ends; pods that are then deleted by force can write beside their " +
				"successors",
			Source: drain,
			Fix: "allow one disruption (maxUnavailable: 1) with two replicas or more; for a single replica, agree " +
				"on a time",
			Needs: []Part{Budgets, Pods},
			find:  budgetBlocks,
		},
		{
			Name:  "budgets-overlap",
			Looks: "several PodDisruptionBudgets cover one pod",
			Why: "the API server refuses every eviction of such a pod with an error: the drain of its node never " +
				"ends",
			Source: "API-initiated Eviction (docs/concepts/scheduling-eviction/api-eviction/)",
			Fix:    "change the selectors so that one budget covers each pod",
			Needs:  []Part{Budgets, Pods},
			find:   budgetsOverlap,
		},
	}
}

func budgetMissing(r *ruling) {
	selectors := map[string][]labels.Selector{} // By namespace.
	for b := range each(r.Budgets) {
		selectors[b.Namespace] = append(selectors[b.Namespace], selectorOf(b))
	}
	for set := range each(r.StatefulSets) {
		covers := func(s labels.Selector) bool { return s.Matches(labels.Set(set.Spec.Template.Labels)) }
		replicas := world.DemandOf(&set.Spec).Replicas
		if replicas > 1 && !slices.ContainsFunc(selectors[set.Namespace], covers) {
			r.found(Warning, []Object{setObject(set)}, "%s of %d replicas has no PodDisruptionBudget", setObject(set),
				replicas)
		}
	}
}

func budgetBlocks(r *ruling) {
	for b := range each(r.Budgets) {
		expected := len(r.covered(b))
		current := b.Status.ObservedGeneration == b.Generation
		if current && b.Status.ExpectedPods > 0 {
			expected = int(b.Status.ExpectedPods)
		}
		if expected == 0 {
			continue // It blocks nothing.
		}
		budget := object("PodDisruptionBudget", b)
		where := []Object{budget}
		healthy := b.Status.CurrentHealthy >= b.Status.ExpectedPods
		failed := syncFailed(b)
		switch why := blocksAlways(b, expected); {
		case why != "":
			r.found(Danger, where, "%s refuses every eviction of its %d pods: %s", budget, expected, why)
		case failed != "":
			r.found(Danger, where, "%s refuses every eviction of its %d pods: its controller fails: %s", budget,
				expected, failed)
		case !current:
			r.unseen("%s: its controller has not seen its last change", budget)
		case b.Status.DisruptionsAllowed == 0 && healthy:
			r.found(Danger, where, "%s allows no disruption although all of its %d pods are healthy", budget, expected)
		case b.Status.DisruptionsAllowed == 0:
			r.found(Warning, where, "%s allows no disruption now: %d of its %d pods are healthy", budget,
				b.Status.CurrentHealthy, expected)
		}
	}
}

// blocksAlways says why a budget never allows an eviction, empty if it does.
func blocksAlways(b *policyv1.PodDisruptionBudget, expected int) string {
	scaled := func(v *intstr.IntOrString) int {
		n, err := intstr.GetScaledValueFromIntOrPercent(v, expected, true)
		if err != nil {
			return -1
		}
		return n
	}
	if v := b.Spec.MaxUnavailable; v != nil && scaled(v) == 0 {
		return "maxUnavailable is " + v.String()
	}
	if v := b.Spec.MinAvailable; v != nil && scaled(v) >= expected {
		return "minAvailable is " + v.String()
	}
	return ""
}

// syncFailed returns the error of a budget's controller, empty without one.
func syncFailed(b *policyv1.PodDisruptionBudget) string {
	for _, c := range b.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			return c.Message
		}
	}
	return ""
}

func budgetsOverlap(r *ruling) {
	pods := map[string][]string{} // The names of the budgets → their pods.
	where := map[string][]Object{}
	var order []string
	for p := range each(r.Pods) {
		if len(r.budgetOf[p]) < 2 {
			continue
		}
		var over []string
		var objects []Object
		for _, b := range r.budgetOf[p] {
			over = append(over, b.Name)
			objects = append(objects, object("PodDisruptionBudget", b))
		}
		id := p.Namespace + ": " + strings.Join(over, " and ")
		if pods[id] == nil {
			order = append(order, id)
		}
		pods[id], where[id] = append(pods[id], p.Name), objects
	}
	for _, id := range order {
		r.found(Danger, where[id], "PodDisruptionBudgets of namespace %s are over the same pods: "+
			"%s", id, names(pods[id]))
	}
}
