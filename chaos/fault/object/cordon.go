package object

import (
	"context"
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

// changeBound is how long others may be quicker in changing a Node, again and again.
const changeBound = 10 * time.Second

// changeNode changes the victim's Node, again when somebody else did so in between. It asks again for the Node while
// the API server does not answer. An update that is not answered is an error: nobody knows whether it was carried out.
// Change is called with nil if there is no Node.
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

// awaitNode waits until the victim's Node is as wanted.
func awaitNode(ctx context.Context, env fault.Env, what string, bound time.Duration,
	is func(*corev1.Node) (string, error),
) ([]fault.Fact, error) {
	return fault.Until(ctx, what, every, bound, fault.Judged(env, env.ReadNode, is))
}

// mark is something that is set on the victim's Node together with an annotation that says whose it is. It is taken
// away if it bears our mark, and never otherwise; the control plane does it when the harness does not.
type mark struct {
	fault.Env
	annotation string
	what       string // How a Node is that has it, for example "unschedulable".
	taint      string // The key of the taint that belongs to it.
	set        func(*corev1.Node)
	isSet      func(*corev1.Node) bool
	foreign    bool // It was there before.
}

// Undo has the control plane undo it.
func (m *mark) Undo(ctx context.Context) ([]undo.Task, error) {
	return undo.OnControlPlane(ctx, m.Cluster, undo.RemoveMarks(m.Owner, "nodes"))
}

// Inject sets it with the annotation in one update.
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

// Confirm shows it, and the taint.
func (m *mark) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q to be %s and tainted", m.Node.Name(), m.what)
	return awaitNode(ctx, m.Env, what, actBound, m.marked)
}

// state tells what there is of it.
func (m *mark) state(node *corev1.Node) string {
	_, tainted := taintOf(node, m.taint)
	return fmt.Sprintf("%s is %t, tainted %t, mark %q", m.what, m.isSet(node), tainted, node.Annotations[m.annotation])
}

// marked judges whether the Node has all of it.
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

// Held looks once.
func (m *mark) Held(ctx context.Context) ([]fault.Fact, error) {
	return fault.Judged(m.Env, m.ReadNode, m.marked)(ctx)
}

func (m *mark) Heal(ctx context.Context) error { return m.CarryOutOnControlPlane(ctx) }

// ConfirmHealed shows that nothing of it is there. What was there before stays.
func (m *mark) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q not to be %s any more", m.Node.Name(), m.what)
	return awaitNode(ctx, m.Env, what, actBound, func(node *corev1.Node) (string, error) {
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

// Cordon sets spec.unschedulable of the victim's Node, for which the node lifecycle controller adds a taint.
func Cordon() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "cordon",
		Summary: "Makes the victim's node unschedulable; its pods go on.",
		Shown:   "spec.unschedulable is true, and the Node has the taint that the control plane adds for it.",
		Healed:  "It is uncordoned if it bears our mark; neither the field nor the taint is set.",
		Needs:   []string{"api", "systemd"},
		// What kubectl drain begins with; a pod that comes back must come up elsewhere.
		Takes:    []plan.Part{plan.PartSchedulable},
		Upstream: "kubernetes.io/docs/reference/labels-annotations-taints",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return cordon(env), nil })
}

func cordon(env fault.Env) *mark {
	return &mark{
		Env: env, annotation: undo.Cordon, what: "unschedulable", taint: corev1.TaintNodeUnschedulable,
		set:   func(node *corev1.Node) { node.Spec.Unschedulable = true },
		isSet: func(node *corev1.Node) bool { return node.Spec.Unschedulable },
	}
}
