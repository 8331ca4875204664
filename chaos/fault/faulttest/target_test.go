package faulttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// Target is a real cluster with the agent on every node.
type Target struct {
	Cluster  clusters.Cluster
	Kube     kubernetes.Interface
	RunID    string
	Watchdog undo.Watchdog // Of faults that take a whole node away; nil when there are none among them.
	Clock    func() history.Time
	Log      *slog.Logger
	On       string // The worker that the victim's pod must be on; any when empty.
	Claims   bool   // The pod that the victim is chosen by has a volume of its own.
	// Class is the class of that volume, which is there already; when it is empty, volumes without a file system of
	// their own are made.
	Class string
	// Before, when set, makes the cluster fit for the next check, before its pods are looked at.
	Before func(ctx context.Context) error
}

// The workload of OnCluster: a pod that does nothing, to choose a victim by.
const (
	namespace = "seatrial-faulttest"
	anchor    = "anchor"
)

// Pairs reports whether it is a fault between two pods.
func Pairs(def fault.Definition) bool { return slices.Contains(def.Params, "peer") }

// OnCluster runs all checks of the definitions on a real cluster, one after the other, on the worker that happens to
// run a pod of its own making, and takes the pod away again. A fault takes one to four minutes.
func OnCluster(ctx context.Context, definitions []fault.Definition, t Target) (err error) {
	defer func() {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
		defer cancel()
		err = errors.Join(err, t.RemoveAnchors(gone))
	}()
	var beside *Target
	if slices.ContainsFunc(definitions, Pairs) {
		if t, beside, err = t.pair(ctx); err != nil {
			return err
		}
	}
	if err := t.MakeAnchor(ctx); err != nil {
		return err
	}
	var errs []error
	for _, def := range definitions {
		b, err := t.bench(def, beside)
		if err != nil {
			return errors.Join(append(errs, err)...)
		}
		begin := t.Clock()
		err = Conform(ctx, def, b)
		t.Log.Info("conformance", "fault", def.Name, "took", t.Clock().Sub(begin), "error", err)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// pair returns the target with its anchor on one worker, and another with an anchor of its own on another worker, for
// faults between two.
func (t Target) pair(ctx context.Context) (Target, *Target, error) {
	nodes, err := t.Cluster.Nodes(ctx)
	if err != nil {
		return t, nil, fmt.Errorf("list nodes: %w", err)
	}
	nodes = slices.DeleteFunc(nodes, func(n clusters.Node) bool { return n.Role() != clusters.RoleWorker })
	if len(nodes) < 2 {
		return t, nil, fmt.Errorf("find two workers for faults between two: there are %d", len(nodes))
	}
	beside := t
	t.On, beside.On = nodes[0].Name(), nodes[1].Name()
	return t, &beside, beside.MakeAnchor(ctx)
}

// bench is a bench whose victim is the worker that runs the anchor. Beside has the other side of faults between two.
func (t Target) bench(def fault.Definition, beside *Target) (Bench, error) {
	b := Bench{
		Env:  fault.Env{RunID: t.RunID + "-" + def.Name},
		Spec: plan.Fault{Name: def.Name, Hold: plan.Duration(3 * time.Second)},
	}
	if def.Storage != "" {
		return b, fmt.Errorf("try fault %q: the anchor pod has no volume of storage %q", def.Name, def.Storage)
	}
	b.Spec.Params = def.Example
	b.Before = func(ctx context.Context) (fault.Env, error) { return t.Fit(ctx, b.Env.RunID) }
	if !Pairs(def) {
		return b, nil
	}
	b.Before = func(ctx context.Context) (fault.Env, error) {
		env, err := t.Fit(ctx, b.Env.RunID)
		if err != nil {
			return env, err
		}
		other, err := beside.Fit(ctx, b.Env.RunID)
		env.Peer, env.PeerNode = other.Pod, other.Node
		return env, err
	}
	return b, nil
}

// anchorName is the name of the StatefulSet that the victim's pod is of.
func (t Target) anchorName() string {
	if t.On == "" {
		return anchor
	}
	return anchor + "-" + t.On
}

// Fit waits until the anchor, which a fault may have made anew elsewhere, its node, and all pods there are Ready, and
// returns what a fault of a run is made with.
func (t Target) Fit(ctx context.Context, run string) (fault.Env, error) {
	env := fault.Env{
		Cluster: t.Cluster, Kube: t.Kube, Pod: t.anchorName() + "-0", Namespace: namespace, RunID: run, Clock: t.Clock,
		Log: t.Log, Watchdog: t.Watchdog,
	}
	if t.Before != nil {
		if err := t.Before(ctx); err != nil {
			return env, err
		}
	}
	nodes, err := t.Cluster.Nodes(ctx)
	if err != nil {
		return env, fmt.Errorf("list nodes: %w", err)
	}
	err = await.Until(ctx, "anchor and all pods beside it to be Ready", time.Second, 4*time.Minute,
		func(ctx context.Context) (bool, string, error) {
			p, err := t.Kube.CoreV1().Pods(namespace).Get(ctx, env.Pod, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			if again, err := t.renewed(ctx, p); again || err != nil {
				return false, "its claim is being deleted", err
			}
			env.Node = nil
			for _, n := range nodes {
				if n.Name() == p.Spec.NodeName {
					env.Node = n
				}
			}
			if env.Node == nil || p.DeletionTimestamp != nil {
				return false, fmt.Sprintf("the anchor is %s on node %q, being deleted: %t", p.Status.Phase,
					p.Spec.NodeName, p.DeletionTimestamp != nil), nil
			}
			pods, err := env.PodsOn(ctx)
			if err != nil {
				return false, "", err
			}
			for _, q := range pods {
				if !fault.Ready(&q) {
					return false, q.Namespace + "/" + q.Name + " is not", nil
				}
			}
			return true, "", nil
		})
	if err != nil {
		return env, err
	}
	_, err = env.NodeReady(2 * time.Minute)(ctx)
	return env, err
}

// MakeAnchor makes a StatefulSet of one pod from an image that every node has.
func (t Target) MakeAnchor(ctx context.Context) error {
	image, err := t.pauseImage(ctx)
	if err != nil {
		return err
	}
	one := int32(1)
	grace := int64(1)
	labels := map[string]string{"app": t.anchorName()}
	var selector map[string]string
	if t.On != "" {
		selector = map[string]string{corev1.LabelHostname: t.On}
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err = t.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %q: %w", namespace, err)
	}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: t.anchorName()},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: t.anchorName(),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: selector, TerminationGracePeriodSeconds: &grace,
					Containers: []corev1.Container{
						{Name: anchor, Image: image, ImagePullPolicy: corev1.PullIfNotPresent},
					},
				},
			},
		},
	}
	if t.Claims {
		if err := t.withClaim(ctx, set); err != nil {
			return err
		}
	}
	_, err = t.Kube.AppsV1().StatefulSets(namespace).Create(ctx, set, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make StatefulSet %q: %w", t.anchorName(), err)
	}
	return nil
}

// pauseImage finds the image that the kubelet keeps sandboxes in: every node has one.
func (t Target) pauseImage(ctx context.Context) (string, error) {
	nodes, err := t.Kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes.Items {
		for _, image := range n.Status.Images {
			for _, name := range image.Names {
				if strings.Contains(name, "/pause:") {
					return name, nil
				}
			}
		}
	}
	return "", errors.New("find an image for the anchor pod: no node reports a pause image")
}

// RemoveAnchors takes away what MakeAnchor made, of all targets on the cluster, and waits until it is gone: nothing can
// be made in a namespace that is just ending.
func (t Target) RemoveAnchors(ctx context.Context) error {
	namespaces := t.Kube.CoreV1().Namespaces()
	err := namespaces.Delete(ctx, namespace, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete namespace %q: %w", namespace, err)
	}
	return await.Until(ctx, "namespace "+namespace+" to be gone", 500*time.Millisecond, 2*time.Minute,
		func(ctx context.Context) (bool, string, error) {
			now, err := namespaces.Get(ctx, namespace, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true, "", nil
			}
			return false, string(now.Status.Phase), err
		})
}
