package object

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// NodeDelete deletes the victim's Node object, on condition of its uid, while the machine runs on. Its kubelet and its
// pods are not told; 40 s later the pod garbage collector takes the pods of a Node that is not there out of the API.
//
// The kubelet registers when it starts, so it is restarted. Labels, annotations and taints that it does not bring back
// are put back. Its pod range may be another than before: that is told.
func NodeDelete() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "node-delete",
		Summary: "Deletes the Node object of the victim's node; the machine and its pods go on.",
		Shown:   "The API server has no Node of that uid.",
		Healed: "The kubelet is restarted and registers anew; labels, annotations and taints are put back; " +
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

// backBound is how long the Node may take until it is Ready, and has its pod range and its CSI drivers.
const backBound = time.Minute

// outlastLife is how much longer a Node may be gone that waits for the fault around it.
const outlastLife = 15 * time.Minute

type nodeDelete struct {
	fault.Env
	before  *corev1.Node // Nil until Undo has read it.
	drivers []string     // CSI drivers of before.
	longer  time.Duration
}

// Undo notes the Node. The control plane gives it back what it had, once the victim has restarted its kubelet.
func (d *nodeDelete) Undo(ctx context.Context) ([]undo.Task, error) {
	var err error
	if d.before, err = d.ReadNode(ctx); err != nil {
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
	node, err = fault.Optional(fmt.Sprintf("CSINode %q", d.Node.Name()), node, err)
	if err != nil || node == nil {
		return nil, err
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
	return awaitNode(ctx, d.Env, what, actBound, func(node *corev1.Node) (string, error) {
		switch {
		case node == nil:
			return fmt.Sprintf("the API server has no Node %q any more; its uid was %s", d.before.Name,
				d.before.UID), nil
		case node.UID != d.before.UID:
			return fmt.Sprintf("the API server has no Node %q with uid %s any more, but one with uid %s", node.Name,
				d.before.UID, node.UID), nil
		}
		return "", fault.NotYet("it is there, with finalizers %q", node.Finalizers)
	})
}

// Heal has the victim restart its kubelet, so that it registers, and the control plane put back what is missing then.
func (d *nodeDelete) Heal(ctx context.Context) error {
	return errors.Join(d.CarryOut(ctx), d.CarryOutOnControlPlane(ctx))
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
func (d *nodeDelete) back(node *corev1.Node) (string, error) {
	if node == nil {
		return "", fault.NotYet("there is none")
	}
	ready, text := fault.NodeIsReady(node)
	if !ready || node.Spec.PodCIDR == "" {
		return "", fault.NotYet("Ready is %s, pod range %q", text, node.Spec.PodCIDR)
	}
	now := strings.Join(node.Spec.PodCIDRs, ", ")
	sentence := fmt.Sprintf("Node %q is Ready with uid %s and the pod range %s", node.Name, node.UID, now)
	if d.before == nil {
		return sentence, nil
	}
	gone := append(undo.Missing(node.Labels, d.before.Labels), undo.Missing(node.Annotations, d.before.Annotations)...)
	for _, taint := range missingTaints(node, d.before) {
		gone = append(gone, "the taint "+taint.ToString())
	}
	if len(gone) > 0 {
		return "", fault.NotYet("it lacks %s", strings.Join(gone, ", "))
	}
	if node.UID == d.before.UID {
		return sentence + ": it was never deleted", nil
	}
	if was := strings.Join(d.before.Spec.PodCIDRs, ", "); was != now {
		sentence += fmt.Sprintf("; the range was %s before, and pods of then keep their addresses", was)
	} else {
		sentence += ", as before"
	}
	return sentence, nil
}

// driversBack waits for the CSI drivers of before, when there were any.
func (d *nodeDelete) driversBack(ctx context.Context) ([]fault.Fact, error) {
	if len(d.drivers) == 0 {
		return nil, nil
	}
	want := strings.Join(d.drivers, ", ")
	return fault.Until(ctx, "CSI drivers "+want+" to be registered again", every, backBound,
		fault.Judged(d.Env, d.registered, func(now []string) (string, error) {
			if slices.ContainsFunc(d.drivers, func(name string) bool { return !slices.Contains(now, name) }) {
				return "", fault.NotYet("registered are %q", now)
			}
			return "the CSI drivers of before are registered: " + want, nil
		}))
}
