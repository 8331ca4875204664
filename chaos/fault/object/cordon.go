package object

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// Cordon returns the fault that takes the victim's node out of scheduling; what runs there goes on.
//
// What: spec.unschedulable of the Node, with an annotation that says whose it is.
//
// Shown: it is set, and the node lifecycle controller has added the taint that belongs to it.
//
// Healed: it is unset if our annotation is there, and never otherwise; neither it nor the taint is there. A timer on
// the control plane does it when nobody heals it.
func Cordon() fault.Definition {
	return fault.Definition{
		Name:    "cordon",
		Summary: "Makes the victim's node unschedulable; its pods go on.",
		Shown:   "spec.unschedulable is true, and the Node has the taint that the control plane adds for it.",
		Healed:  "It is taken back if it bears our mark; neither the field nor the taint is set.",
		Needs:   []string{"api", "systemd"},
		// What kubectl drain begins with; a pod that comes back must come up elsewhere.
		Takes:    []plan.Part{plan.PartSchedulable},
		Upstream: "kubernetes.io/docs/reference/labels-annotations-taints",
		New: func(spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			c := &cordon{env: env, armed: armedFor(step, env)}
			return c, c.owner.Check()
		},
	}
}

type cordon struct {
	env fault.Env
	armed
	foreign bool // Somebody else had done it before.
}

// Inject sets the field and the mark in one update.
func (c *cordon) Inject(ctx context.Context) error {
	return changeNode(ctx, c.env, func(node *corev1.Node) (bool, error) {
		if node == nil {
			return false, fmt.Errorf("there is no Node %q", c.env.Node.Name())
		}
		if c.foreign = node.Spec.Unschedulable; c.foreign {
			return false, fmt.Errorf("cordon Node %q: it is unschedulable already, with mark %q; uncordon it first",
				node.Name, node.Annotations[undo.Cordon])
		}
		annotate(node, undo.Cordon, c.owner.Name())
		node.Spec.Unschedulable = true
		return true, nil
	})
}

// Confirm shows the field and the taint.
func (c *cordon) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q to be unschedulable and tainted", c.env.Node.Name())
	fact, err := awaitNode(ctx, c.env, what, actBound, c.cordoned)
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}

// cordoned gives a sentence for a Node that is.
func (c *cordon) cordoned(node *corev1.Node) (sentence, state string) {
	if node == nil {
		return "", "there is none"
	}
	taint, tainted := taintOf(node, corev1.TaintNodeUnschedulable)
	if !node.Spec.Unschedulable || !tainted || node.Annotations[undo.Cordon] != c.owner.Name() {
		return "", fmt.Sprintf("unschedulable is %t, tainted %t, mark %q", node.Spec.Unschedulable, tainted,
			node.Annotations[undo.Cordon])
	}
	return fmt.Sprintf("Node %q is unschedulable and has the taint %s", node.Name, taint.ToString()), ""
}

// Held looks once.
func (c *cordon) Held(ctx context.Context) ([]fault.Fact, error) {
	return heldNode(ctx, c.env, c.cordoned)
}

// Heal uncordons what bears our mark.
func (c *cordon) Heal(ctx context.Context) error {
	return changeNode(ctx, c.env, func(node *corev1.Node) (bool, error) {
		if node == nil || node.Annotations[undo.Cordon] != c.owner.Name() {
			return false, nil
		}
		delete(node.Annotations, undo.Cordon)
		node.Spec.Unschedulable = false
		return true, nil
	})
}

// ConfirmHealed shows that neither is there.
func (c *cordon) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q to be schedulable again", c.env.Node.Name())
	fact, err := awaitNode(ctx, c.env, what, actBound, func(node *corev1.Node) (string, string) {
		if node == nil {
			return "", "there is none"
		}
		by := node.Annotations[undo.Cordon]
		_, tainted := taintOf(node, corev1.TaintNodeUnschedulable)
		switch {
		case by == c.owner.Name() || !c.foreign && (node.Spec.Unschedulable || tainted):
			return "", fmt.Sprintf("unschedulable is %t, tainted %t, mark %q", node.Spec.Unschedulable, tainted, by)
		case c.foreign:
			return fmt.Sprintf("Node %q does not bear our mark; it was unschedulable before", node.Name), ""
		}
		return fmt.Sprintf("Node %q is schedulable and has no taint that says otherwise", node.Name), ""
	})
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}
