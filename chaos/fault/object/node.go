package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
)

// changeBound is how long others may be quicker in changing a Node, again and again.
const changeBound = 10 * time.Second

// lookNode returns the victim's Node, nil when there is none.
func lookNode(ctx context.Context, env fault.Env) (*corev1.Node, error) {
	node, err := env.Kube.CoreV1().Nodes().Get(ctx, env.Node.Name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get Node %q: %w", env.Node.Name(), err)
	}
	return node, nil
}

// changeNode changes the victim's Node, again when somebody else did so in between. It waits for an API server that
// does not answer when it asks for the Node; of a change that was sent, nobody knows then what became of it, and that
// is an error. A change that returns false is none; without a Node, it is called with nil.
func changeNode(ctx context.Context, env fault.Env, change func(*corev1.Node) (bool, error)) error {
	what := fmt.Sprintf("change of Node %q to be taken", env.Node.Name())
	return await.Until(ctx, what, 100*time.Millisecond, changeBound, func(ctx context.Context) (bool, string, error) {
		node, err := lookNode(ctx, env)
		if err != nil { // The API server may be back in a moment; nothing was changed yet.
			return false, "", err
		}
		changed, err := change(node)
		if err != nil {
			return false, "", await.Stop(err)
		}
		if !changed {
			return true, "", nil
		}
		_, err = env.Kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			err = await.Stop(fmt.Errorf("update: %w", err))
		}
		return true, "", err
	})
}

// annotate sets an annotation on a Node that may have none.
func annotate(node *corev1.Node, key, value string) {
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[key] = value
}

// awaitNode waits until a look at the Node, nil when there is none, gives a sentence.
func awaitNode(ctx context.Context, env fault.Env, what string, bound time.Duration,
	judge func(*corev1.Node) (sentence, state string),
) (fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, what, every, bound, func(ctx context.Context) (bool, string, error) {
		begin := env.Clock()
		node, err := lookNode(ctx, env)
		if err != nil {
			return false, "", err
		}
		sentence, state := judge(node)
		fact = fault.Fact{Span: history.Between(begin, env.Clock()), Sentence: sentence}
		return sentence != "", state, nil
	})
	return fact, err
}

// heldNode looks once whether a Node is still as it was made.
func heldNode(ctx context.Context, env fault.Env, judge func(*corev1.Node) (sentence, state string)) (
	[]fault.Fact, error,
) {
	begin := env.Clock()
	node, err := lookNode(ctx, env)
	if err != nil {
		return nil, err
	}
	sentence, state := judge(node)
	if sentence == "" {
		return nil, errors.New(state)
	}
	return []fault.Fact{{Span: history.Between(begin, env.Clock()), Sentence: sentence}}, nil
}

func taintOf(node *corev1.Node, key string) (corev1.Taint, bool) {
	i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	if i < 0 {
		return corev1.Taint{}, false
	}
	return node.Spec.Taints[i], true
}

// without returns the taints but those of a key.
func without(taints []corev1.Taint, key string) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(taints), func(t corev1.Taint) bool { return t.Key == key })
}

// readyOf returns the condition Ready and its reason, as "Unknown (NodeStatusUnknown)".
func readyOf(node *corev1.Node) (ready bool, text string) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue, fmt.Sprintf("%s (%s)", c.Status, c.Reason)
		}
	}
	return false, "not said"
}
