package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// NodeDelete deletes the victim's Node object, on condition of its uid, while the machine runs on. Its kubelet and its
// pods are not told; 40 s later the pod garbage collector takes the pods of a Node that is not there out of the API.
//
// The kubelet registers again when it starts, so it is restarted if it does not by itself. Labels, annotations and
// taints that it does not bring back are put back. Its pod range may be another than before: that is told.
func NodeDelete() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "node-delete",
		Summary: "Deletes the Node object of the victim's node; the machine and its pods go on.",
		Shown:   "The API server has no Node of that uid.",
		Healed: "The kubelet registers anew, restarted if it must be; labels, annotations and taints are put back; " +
			"the Node has another uid, is Ready, and has a pod range and its CSI drivers.",
		Needs:    []string{"api", "systemd"},
		Outlasts: true, // Behind a partition nothing can register.
		// Volumes of a Node that is gone are detached, whatever it still has mounted.
		Takes:    []plan.Part{plan.PartObject},
		Upstream: "k/k#61832",
	}, func(spec plan.Fault, env fault.Env) (fault.Fault, error) {
		d := &nodeDelete{Env: env}
		if spec.Outlast { // How long the one around it takes is not known here.
			d.longer = outlastLife
		}
		return d, nil
	})
}

// The bounds of Heal, within the guard's own.
const (
	selfBound     = 3 * time.Second  // For a kubelet that registers by itself.
	registerBound = 20 * time.Second // For one that was restarted; about 3 s on an idle machine.
	backBound     = time.Minute      // For Ready, the pod range and the CSI drivers.
)

// outlastLife is how much longer a Node may be gone that waits for the fault around it.
const outlastLife = 15 * time.Minute

type nodeDelete struct {
	fault.Env
	before    *corev1.Node // Nil until Undo has read it.
	drivers   []string     // CSI drivers of before.
	longer    time.Duration
	restarted bool
}

// Undo notes the Node. The control plane gives it back what it had, once the victim has restarted its kubelet.
func (d *nodeDelete) Undo(ctx context.Context) ([]undo.Task, error) {
	var err error
	if d.before, err = lookNode(ctx, d.Env); err != nil {
		return nil, err
	}
	if d.before == nil {
		return nil, fmt.Errorf("delete Node %q: it is not there", d.Node.Name())
	}
	was := undo.NodeWas{
		Name: d.before.Name, UID: string(d.before.UID), Labels: d.before.Labels, Annotations: d.before.Annotations,
	}
	for _, t := range d.before.Spec.Taints {
		was.Taints = append(was.Taints, undo.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	restore, err := undo.RestoreNode(was)
	if err != nil {
		return nil, err
	}
	tasks, err := undo.OnControlPlane(ctx, d.Cluster, restore)
	if err != nil {
		return nil, err
	}
	register := undo.Command("systemctl", "restart", "kubelet")
	i := slices.IndexFunc(tasks, func(t undo.Task) bool { return t.Node.Name() == d.Node.Name() })
	if i < 0 {
		tasks = append(tasks, undo.Task{Node: d.Node, Actions: []undo.Action{register}})
	} else {
		tasks[i].Actions = []undo.Action{register, restore}
	}
	for i := range tasks {
		tasks[i].Longer = d.longer
	}
	return tasks, nil
}

// Inject deletes the Node that was noted.
func (d *nodeDelete) Inject(ctx context.Context) error {
	if d.before == nil {
		return errors.New("no Node was noted: Undo notes it first")
	}
	var err error
	if d.drivers, err = d.registered(ctx); err != nil {
		return err
	}
	err = d.Kube.CoreV1().Nodes().Delete(ctx, d.before.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &d.before.UID},
	})
	if err != nil {
		return fmt.Errorf("delete Node %q: %w", d.before.Name, err)
	}
	return nil
}

// registered returns the CSI drivers of the node, in order.
func (d *nodeDelete) registered(ctx context.Context) ([]string, error) {
	node, err := d.Kube.StorageV1().CSINodes().Get(ctx, d.Node.Name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get CSINode %q: %w", d.Node.Name(), err)
	}
	var names []string
	for _, driver := range node.Spec.Drivers {
		names = append(names, driver.Name)
	}
	slices.Sort(names)
	return names, nil
}

// Confirm shows that it is gone.
func (d *nodeDelete) Confirm(ctx context.Context) ([]fault.Fact, error) {
	if d.before == nil {
		return nil, errors.New("no Node was deleted yet")
	}
	what := fmt.Sprintf("Node %q (uid %s) to be gone from the API", d.before.Name, d.before.UID)
	return awaitNode(ctx, d.Env, what, actBound, func(node *corev1.Node) (string, string) {
		switch {
		case node == nil:
			return fmt.Sprintf("the API server has no Node %q any more; its uid was %s", d.before.Name,
				d.before.UID), ""
		case node.UID != d.before.UID:
			return fmt.Sprintf("the API server has no Node %q with uid %s any more, but one with uid %s", node.Name,
				d.before.UID, node.UID), ""
		}
		return "", fmt.Sprintf("it is there, with finalizers %q", node.Finalizers)
	})
}

// Heal brings the Node back and puts back what is missing of it.
func (d *nodeDelete) Heal(ctx context.Context) error {
	node, err := lookNode(ctx, d.Env)
	if err != nil {
		return err
	}
	if node == nil {
		if err := d.register(ctx); err != nil {
			return err
		}
	}
	if d.before == nil { // It was not deleted here; what it had before is not known.
		return nil
	}
	return changeNode(ctx, d.Env, func(node *corev1.Node) (bool, error) {
		if node == nil {
			return false, fmt.Errorf("put back what Node %q had: it is gone again", d.Node.Name())
		}
		return restore(node, d.before), nil
	})
}

// register waits for the kubelet to register, and restarts it if it does not.
func (d *nodeDelete) register(ctx context.Context) error {
	name := d.Node.Name()
	there := func(node *corev1.Node) (string, string) {
		if node == nil {
			return "", "there is none"
		}
		return "registered", ""
	}
	_, err := awaitNode(ctx, d.Env, fmt.Sprintf("kubelet to register Node %q by itself", name), selfBound, there)
	if !errors.Is(err, await.ErrTimeout) {
		return err
	}
	if _, err := clusters.Run(ctx, d.Node, "systemctl", "restart", "kubelet"); err != nil {
		return fmt.Errorf("restart the kubelet, so that it registers: %w", err)
	}
	d.restarted = true
	_, err = awaitNode(ctx, d.Env, fmt.Sprintf("restarted kubelet to register Node %q", name), registerBound, there)
	return err
}

// restore puts back what a Node had before and has not now, and reports whether that was anything.
func restore(node, before *corev1.Node) bool {
	changed := false
	for _, key := range undo.Missing(node.Labels, before.Labels) {
		if node.Labels == nil {
			node.Labels = map[string]string{}
		}
		node.Labels[key], changed = before.Labels[key], true
	}
	for _, key := range undo.Missing(node.Annotations, before.Annotations) {
		annotate(node, key, before.Annotations[key])
		changed = true
	}
	for _, taint := range missingTaints(node, before) {
		node.Spec.Taints, changed = append(node.Spec.Taints, taint), true
	}
	return changed
}

// missingTaints are the taints of before that a Node does not have now, but those that the control plane brings back.
func missingTaints(node, before *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(before.Spec.Taints), func(t corev1.Taint) bool {
		_, has := taintOf(node, t.Key)
		return has || !undo.Returns(t.Key)
	})
}

// ConfirmHealed shows a Node that is as the one before, but for its uid.
func (d *nodeDelete) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q to be registered again, Ready, and with a pod range", d.Node.Name())
	there := func(ctx context.Context) ([]fault.Fact, error) { return awaitNode(ctx, d.Env, what, backBound, d.back) }
	return fault.All(ctx, there, d.driversBack)
}

// back gives a sentence for a Node that is.
func (d *nodeDelete) back(node *corev1.Node) (sentence, state string) {
	if node == nil {
		return "", "there is none"
	}
	ready, text := readyOf(node)
	if !ready || node.Spec.PodCIDR == "" {
		return "", fmt.Sprintf("Ready is %s, pod range %q", text, node.Spec.PodCIDR)
	}
	now := strings.Join(node.Spec.PodCIDRs, ", ")
	sentence = fmt.Sprintf("Node %q is Ready with uid %s and the pod range %s", node.Name, node.UID, now)
	if d.before == nil {
		return sentence, ""
	}
	gone := append(undo.Missing(node.Labels, d.before.Labels), undo.Missing(node.Annotations, d.before.Annotations)...)
	for _, taint := range missingTaints(node, d.before) {
		gone = append(gone, "the taint "+taint.ToString())
	}
	if len(gone) > 0 {
		return "", "it lacks " + strings.Join(gone, ", ")
	}
	if node.UID == d.before.UID {
		return sentence + ": it was never deleted", ""
	}
	if was := strings.Join(d.before.Spec.PodCIDRs, ", "); was != now {
		sentence += fmt.Sprintf("; the range was %s before, and pods of then keep their addresses", was)
	} else {
		sentence += ", as before"
	}
	if d.restarted {
		sentence += "; its kubelet was restarted to register it"
	}
	return sentence, ""
}

// driversBack waits for the CSI drivers of before, when there were any.
func (d *nodeDelete) driversBack(ctx context.Context) ([]fault.Fact, error) {
	if len(d.drivers) == 0 {
		return nil, nil
	}
	want := strings.Join(d.drivers, ", ")
	return fault.Until(ctx, "CSI drivers "+want+" to be registered again", every, backBound,
		func(ctx context.Context) ([]fault.Fact, string, error) {
			begin := d.Clock()
			now, err := d.registered(ctx)
			if err != nil {
				return nil, "", err
			}
			if slices.ContainsFunc(d.drivers, func(name string) bool { return !slices.Contains(now, name) }) {
				return nil, fmt.Sprintf("registered are %q", now), nil
			}
			return d.Saw(begin, "the CSI drivers of before are registered: %s", want), "", nil
		})
}
