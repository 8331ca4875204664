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

// OutOfService taints the victim's Node with node.kubernetes.io/out-of-service=nodeshutdown:NoExecute, whether its
// machine is off or not: its pods are deleted, and its volumes are detached at once. On a Ready node, pods are only
// evicted with their own grace period; the facts tell what became of the victim's.
func OutOfService() fault.Definition {
	return fault.Plain(fault.Definition{
		Name: "out-of-service",
		Summary: "Taints the victim's node out of service, as an administrator does for a node that is known to be " +
			"off.",
		Shown:  "The taint is set; if the node is not Ready, the victim's pod is gone from the API.",
		Healed: "The taint is removed if it bears our mark, and is gone.",
		Needs:  []string{"api"},
		// Non-graceful node shutdown: pods are deleted and volumes detached without waiting.
		Takes:    []plan.Part{plan.PartService},
		Upstream: "KEP-2268, k/k#61832",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) {
		taint := corev1.Taint{
			Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute,
		}
		return &outOfService{pod: victim{Env: env}, mark: mark{
			Marks:      fault.Marks{Env: env, Resource: fault.Nodes},
			annotation: undo.OutOfService, what: "out of service", taint: taint.Key,
			set: func(node *corev1.Node) { node.Spec.Taints = append(node.Spec.Taints, taint) },
			isSet: func(node *corev1.Node) bool {
				_, tainted := taintOf(node, taint.Key)
				return tainted
			},
		}}, nil
	})
}

// collectBound is how long the pod garbage collector may take: it runs every 20 s, after the pod's eviction.
const collectBound = 50 * time.Second

type outOfService struct {
	mark
	pod victim
}

func (o *outOfService) Inject(ctx context.Context) error {
	if _, err := o.pod.find(ctx); err != nil {
		return err
	}
	return o.mark.Inject(ctx)
}

func (o *outOfService) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, o.mark.Confirm, o.evicted)
}

// evicted waits until the pod is gone from the API. On a Ready node nothing forces that.
func (o *outOfService) evicted(ctx context.Context) ([]fault.Fact, error) {
	node, err := o.ReadNode(ctx)
	if err != nil {
		return nil, err
	}
	if node == nil {
		return nil, fmt.Errorf("there is no Node %q any more", o.Node.Name())
	}
	ready, text := fault.NodeIsReady(node)
	what := fmt.Sprintf("%s to be taken out of the API (Ready of its node is %s)", &o.pod, text)
	return o.pod.await(ctx, what, collectBound, func(pod *corev1.Pod) (string, error) {
		state := "is not being deleted"
		switch gone := o.pod.gone(pod); {
		case gone != "":
			return fmt.Sprintf("%s; Ready of its node is %s", gone, text), nil
		case pod.DeletionTimestamp != nil:
			state = "is being deleted"
		}
		if ready {
			return fmt.Sprintf("%s %s; Ready of its node is %s", &o.pod, state, text), nil
		}
		return "", fault.NotYet("it %s", state)
	})
}
