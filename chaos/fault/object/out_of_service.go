package object

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// OutOfService returns the fault that tells the control plane that the victim's node is shut down, whether it is or
// not: its pods are deleted, and its volumes are detached at once.
//
// What: the taint node.kubernetes.io/out-of-service=nodeshutdown:NoExecute on the Node, with an annotation that says
// whose it is.
//
// Shown: the taint is there. On a node that is not Ready, the control plane has also taken the victim's pod out of
// the API; on one that is Ready, its pods are only evicted, each with its own grace, and what became of it is told.
//
// Healed: the taint is taken away if our annotation is there, and is not there. A timer on the control plane does it
// when nobody heals it.
func OutOfService() fault.Definition {
	return fault.Definition{
		Name:    "out-of-service",
		Summary: "Taints the victim's node out of service, as is done for one that is known to be off.",
		Shown:   "The taint is there; if the node is not Ready, the API server has the victim's pod no more.",
		Healed:  "The taint is taken away if it bears our mark, and is not there.",
		Needs:   []string{"api", "systemd"},
		// Non-graceful node shutdown: pods are forced out, and volumes detached without waiting.
		Takes:    []plan.Part{plan.PartService},
		Upstream: "KEP-2268, k/k#61832",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			o := &outOfService{victim: victim{env: env}, armed: armedFor(step, env)}
			return o, o.owner.Check()
		},
	}
}

// collectBound is how long the pod garbage collector may take: it looks every 20 s, and first the pod is evicted.
const collectBound = 50 * time.Second

type outOfService struct {
	victim
	armed
	foreign bool // Somebody else had done it before.
}

// Inject notes which pod is the victim, and taints the Node.
func (o *outOfService) Inject(ctx context.Context) error {
	if _, err := o.find(ctx); err != nil {
		return err
	}
	return changeNode(ctx, o.env, func(node *corev1.Node) (bool, error) {
		if node == nil {
			return false, fmt.Errorf("there is no Node %q", o.env.Node.Name())
		}
		if _, o.foreign = taintOf(node, corev1.TaintNodeOutOfService); o.foreign {
			return false, fmt.Errorf("taint Node %q: it is out of service already, with mark %q; take that away first",
				node.Name, node.Annotations[undo.OutOfService])
		}
		annotate(node, undo.OutOfService, o.owner.Name())
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{
			Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
		})
		return true, nil
	})
}

// Confirm shows the taint and what became of the pod.
func (o *outOfService) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q to be tainted out of service", o.env.Node.Name())
	tainted, err := awaitNode(ctx, o.env, what, actBound, o.tainted)
	if err != nil {
		return nil, err
	}
	node, err := lookNode(ctx, o.env)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return nil, fmt.Errorf("there is no Node %q any more", o.env.Node.Name())
	}
	ready, text := readyOf(node)
	what = fmt.Sprintf("%s to be taken out of the API (Ready of its node is %s)", &o.victim, text)
	pod, err := o.await(ctx, what, collectBound, func(pod *corev1.Pod) (string, string) {
		if gone := o.gone(pod); gone != "" {
			return fmt.Sprintf("%s; Ready of its node is %s", gone, text), ""
		}
		state := "is not being deleted"
		if pod.DeletionTimestamp != nil {
			state = "is being deleted"
		}
		if ready { // Nobody forces the pods of such a node out.
			return fmt.Sprintf("%s %s; Ready of its node is %s", &o.victim, state, text), ""
		}
		return "", "it " + state
	})
	if err != nil {
		return []fault.Fact{tainted}, err
	}
	return []fault.Fact{tainted, pod}, nil
}

// tainted gives a sentence for a Node that is.
func (o *outOfService) tainted(node *corev1.Node) (sentence, state string) {
	if node == nil {
		return "", "there is none"
	}
	taint, ok := taintOf(node, corev1.TaintNodeOutOfService)
	if !ok || node.Annotations[undo.OutOfService] != o.owner.Name() {
		return "", fmt.Sprintf("out of service is %t, mark %q", ok, node.Annotations[undo.OutOfService])
	}
	return fmt.Sprintf("Node %q has the taint %s", node.Name, taint.ToString()), ""
}

// Held looks once.
func (o *outOfService) Held(ctx context.Context) ([]fault.Fact, error) {
	return heldNode(ctx, o.env, o.tainted)
}

// Heal takes away what bears our mark.
func (o *outOfService) Heal(ctx context.Context) error {
	return changeNode(ctx, o.env, func(node *corev1.Node) (bool, error) {
		if node == nil || node.Annotations[undo.OutOfService] != o.owner.Name() {
			return false, nil
		}
		delete(node.Annotations, undo.OutOfService)
		node.Spec.Taints = without(node.Spec.Taints, corev1.TaintNodeOutOfService)
		return true, nil
	})
}

// ConfirmHealed shows that it is gone.
func (o *outOfService) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("taint of Node %q to be gone", o.env.Node.Name())
	fact, err := awaitNode(ctx, o.env, what, actBound, func(node *corev1.Node) (string, string) {
		if node == nil {
			return "", "there is no Node"
		}
		by := node.Annotations[undo.OutOfService]
		_, tainted := taintOf(node, corev1.TaintNodeOutOfService)
		switch {
		case by == o.owner.Name() || tainted && !o.foreign:
			return "", fmt.Sprintf("out of service is %t, mark %q", tainted, by)
		case tainted:
			return fmt.Sprintf("Node %q does not bear our mark; it was out of service before", node.Name), ""
		}
		return fmt.Sprintf("Node %q is not tainted out of service", node.Name), ""
	})
	if err != nil {
		return nil, err
	}
	return []fault.Fact{fact}, nil
}
