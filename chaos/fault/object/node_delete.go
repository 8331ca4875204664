package object

import (
	"cmp"
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

// NodeDelete deletes the victim's Node object by uid while the machine runs on. Its kubelet and pods do not notice;
// after 40 s the pod garbage collector deletes the pods of the missing Node.
//
// The heal restarts the kubelet, which registers at its start, and restores labels, annotations, taints and a cordon,
// which the kubelet does not. The pod range may differ from before; the facts say so.
func NodeDelete() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "node-delete",
		Summary: "Deletes the Node object of the victim's node; the machine and its pods keep running.",
		Shown:   "The API server has no Node of that uid.",
		Healed: "The kubelet is restarted and registers again; labels, annotations and taints are restored; " +
			"the Node has another uid, is Ready, and has a pod range, if it had one, and its CSI drivers.",
		Needs:    []string{"api", "static-pods", "systemd"},
		Outlasts: true, // Nothing can register from behind a partition.
		// Volumes of a deleted Node are detached, even if still mounted.
		Takes:    []plan.Part{plan.PartObject},
		Upstream: "k/k#61832",
	}, func(spec plan.Fault, env fault.Env) (fault.Fault, error) {
		d := &nodeDelete{Env: env}
		if spec.Outlast { // The surrounding fault's duration is unknown here.
			d.longer = outlastLife
		}
		return d, nil
	})
}

// backBound is how long the Node may take to be Ready with its pod range and its CSI drivers.
const backBound = time.Minute

// outlastLife is added to the life of a Node's deletion that outlasts the fault around it.
const outlastLife = 15 * time.Minute

type nodeDelete struct {
	fault.Env
	before  *corev1.Node // Nil until Undo has read it.
	drivers []string     // CSI drivers before the act.
	longer  time.Duration
}

// Undo records the Node. Its tasks restart the victim's kubelet, and restore the Node from the control plane.
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
		Cordoned: cordoned(d.before),
	}
	for _, t := range d.before.Spec.Taints {
		was.Taints = append(was.Taints, undo.Taint{Key: t.Key, Value: t.Value, Effect: string(t.Effect)})
	}
	restore, err := undo.RestoreNode(was)
	if err != nil {
		return nil, err
	}
	tasks, err := d.OnControlPlane(ctx, restore)
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

// registered returns the node's CSI drivers, sorted.
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

// Heal restarts the victim's kubelet, which registers, and restores the rest from the control plane.
func (d *nodeDelete) Heal(ctx context.Context) error {
	return errors.Join(d.CarryOut(ctx), d.CarryOutOnControlPlane(ctx))
}

// missingTaints returns the former taints that a Node lacks, without those that the control plane restores.
func missingTaints(node, before *corev1.Node) []corev1.Taint {
	return slices.DeleteFunc(slices.Clone(before.Spec.Taints), func(t corev1.Taint) bool {
		same := func(n corev1.Taint) bool { return n.MatchTaint(&t) }
		return slices.ContainsFunc(node.Spec.Taints, same) || !undo.Returns(t.Key)
	})
}

// cordoned reports whether a Node was made unschedulable by others than a fault, whose mark is not restored either.
func cordoned(node *corev1.Node) bool {
	return node.Spec.Unschedulable && node.Annotations[undo.Cordon] == ""
}

// ConfirmHealed shows a Node equal to the former one except for its uid.
func (d *nodeDelete) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("Node %q to be registered again, Ready, and with its pod range", d.Node.Name())
	there := func(ctx context.Context) ([]fault.Fact, error) { return awaitNode(ctx, d.Env, what, backBound, d.back) }
	return fault.All(ctx, there, d.driversBack)
}

// back returns a sentence for a Node that is Ready and restored.
func (d *nodeDelete) back(node *corev1.Node) (string, error) {
	if node == nil {
		return "", fault.NotYet("there is none")
	}
	ready, text := fault.NodeIsReady(node)
	// Some network plugins give out addresses by themselves, and no Node has a range.
	if had := d.before != nil && d.before.Spec.PodCIDR != ""; !ready || had && node.Spec.PodCIDR == "" {
		return "", fault.NotYet("Ready is %s, pod range %q", text, node.Spec.PodCIDR)
	}
	now := cmp.Or(strings.Join(node.Spec.PodCIDRs, ", "), "none")
	sentence := fmt.Sprintf("Node %q is Ready with uid %s and the pod range %s", node.Name, node.UID, now)
	if d.before == nil {
		return sentence, nil
	}
	gone := append(undo.Missing(node.Labels, d.before.Labels), undo.Missing(node.Annotations, d.before.Annotations)...)
	for _, taint := range missingTaints(node, d.before) {
		gone = append(gone, "the taint "+taint.ToString())
	}
	if cordoned(d.before) && !node.Spec.Unschedulable {
		gone = append(gone, "its cordon")
	}
	if len(gone) > 0 {
		return "", fault.NotYet("it lacks %s", strings.Join(gone, ", "))
	}
	if node.UID == d.before.UID {
		return sentence + ": it was never deleted", nil
	}
	if was := cmp.Or(strings.Join(d.before.Spec.PodCIDRs, ", "), "none"); was != now {
		sentence += fmt.Sprintf("; the range was %s before, and pods of then keep their addresses", was)
	} else {
		sentence += ", as before"
	}
	return sentence, nil
}

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
