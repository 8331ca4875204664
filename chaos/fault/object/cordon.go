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
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// changeBound is how long a change of a Node may keep losing to other writers.
const changeBound = 10 * time.Second

// changeNode updates the victim's Node and retries after a conflict, or if the Node cannot be read. It does not retry
// an update with another error, since it may have been carried out. Change gets nil if there is no Node.
func changeNode(ctx context.Context, env fault.Env, change func(*corev1.Node) error) error {
	what := fmt.Sprintf("change of Node %q to be taken", env.Node.Name())
	_, err := fault.Until(ctx, what, 100*time.Millisecond, changeBound, func(ctx context.Context) ([]fault.Fact,
		error) {
		node, err := env.ReadNode(ctx)
		if err != nil {
			return nil, err
		}
		if err := change(node); err != nil {
			return nil, await.Stop(err)
		}
		_, err = env.Kube.CoreV1().Nodes().Update(ctx, node, metav1.UpdateOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			err = await.Stop(fmt.Errorf("update: %w", err))
		}
		return nil, err
	})
	return err
}

// awaitNode waits until is returns a sentence for the victim's Node.
func awaitNode(ctx context.Context, env fault.Env, what string, bound time.Duration,
	is func(*corev1.Node) (string, error),
) ([]fault.Fact, error) {
	return fault.Until(ctx, what, every, bound, fault.Judged(env, env.ReadNode, is))
}

// mark is a change of the victim's Node together with an annotation that names its owner. It is reverted only if the
// annotation names us.
type mark struct {
	fault.Marks
	annotation string
	what       string // How the changed Node is called, for example "unschedulable".
	taint      string // The key of the taint that comes with the change.
	set        func(*corev1.Node)
	isSet      func(*corev1.Node) bool
	foreign    bool // The Node was changed before.
}

// Inject makes the change and adds the annotation in one update.
func (m *mark) Inject(ctx context.Context) error {
	return changeNode(ctx, m.Env, func(node *corev1.Node) error {
		if node == nil {
			return fmt.Errorf("there is no Node %q", m.Node.Name())
		}
		if m.foreign = m.isSet(node); m.foreign {
			return fmt.Errorf("change Node %q: it is %s already, with mark %q; undo that first", node.Name,
				m.what,
				node.Annotations[m.annotation])
		}
		if node.Annotations == nil {
			node.Annotations = map[string]string{}
		}
		node.Annotations[m.annotation] = m.Owner.Name()
		m.set(node)
		return nil
	})
}

func (m *mark) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q to be %s and tainted", m.Node.Name(), m.what)
	return awaitNode(ctx, m.Env, what, taintBound, m.marked)
}

// taintBound is how long the controller manager may take to add or remove a taint. One that was started again, as in an
// upgrade, first waits until its lease has run out.
const taintBound = 2 * time.Minute

func (m *mark) state(node *corev1.Node) string {
	_, tainted := taintOf(node, m.taint)
	return fmt.Sprintf("%s is %t, tainted %t, mark %q", m.what, m.isSet(node), tainted, node.Annotations[m.annotation])
}

// marked returns a sentence for a Node with the change, the taint and our mark.
func (m *mark) marked(node *corev1.Node) (string, error) {
	if node == nil {
		return "", fault.NotYet("there is none")
	}
	taint, tainted := taintOf(node, m.taint)
	if !m.isSet(node) || !tainted || node.Annotations[m.annotation] != m.Owner.Name() {
		return "", fault.NotYet("%s", m.state(node))
	}
	return fmt.Sprintf("Node %q is %s and has the taint %s", node.Name, m.what, taint.ToString()), nil
}

// Held checks the change and the mark once, and waits for the taint: a kubelet that registers its Node again, as in an
// upgrade, takes it away until the controller manager adds it anew.
func (m *mark) Held(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q to be tainted, as it is %s", m.Node.Name(), m.what)
	return awaitNode(ctx, m.Env, what, taintBound, func(node *corev1.Node) (string, error) {
		if node == nil {
			return "", await.Stop(errors.New("there is none"))
		}
		if !m.isSet(node) || node.Annotations[m.annotation] != m.Owner.Name() {
			return "", await.Stop(errors.New(m.state(node)))
		}
		return m.marked(node)
	})
}

// ConfirmHealed shows that the change is gone, unless the Node had it before.
func (m *mark) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q not to be %s any more", m.Node.Name(), m.what)
	return awaitNode(ctx, m.Env, what, taintBound, func(node *corev1.Node) (string, error) {
		if node == nil {
			return "", fault.NotYet("there is none")
		}
		_, tainted := taintOf(node, m.taint)
		switch there := m.isSet(node) || tainted; {
		case node.Annotations[m.annotation] == m.Owner.Name() || there && !m.foreign:
			return "", fault.NotYet("%s", m.state(node))
		case there:
			return fmt.Sprintf("Node %q does not bear our mark; it was %s before", node.Name, m.what), nil
		}
		return fmt.Sprintf("Node %q is not %s, and has no taint that says so", node.Name, m.what), nil
	})
}

func taintOf(node *corev1.Node, key string) (corev1.Taint, bool) {
	i := slices.IndexFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	if i < 0 {
		return corev1.Taint{}, false
	}
	return node.Spec.Taints[i], true
}

// Cordon sets spec.unschedulable of the victim's Node; the node lifecycle controller adds a taint.
func Cordon() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "cordon",
		Summary: "Makes the victim's node unschedulable; its pods keep running.",
		Shown:   "spec.unschedulable is true, and the Node has the taint that the control plane adds for it.",
		Healed:  "It is uncordoned if it bears our mark; neither the field nor the taint is set.",
		Needs:   []string{"api"},
		// The first step of kubectl drain; a pod that restarts must be scheduled elsewhere.
		Takes:    []plan.Part{plan.PartSchedulable},
		Upstream: "kubernetes.io/docs/reference/labels-annotations-taints",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return cordon(env), nil })
}

func cordon(env fault.Env) *mark {
	return &mark{
		Marks:      fault.Marks{Env: env, Resource: fault.Nodes},
		annotation: undo.Cordon, what: "unschedulable", taint: corev1.TaintNodeUnschedulable,
		set:   func(node *corev1.Node) { node.Spec.Unschedulable = true },
		isSet: func(node *corev1.Node) bool { return node.Spec.Unschedulable },
	}
}
