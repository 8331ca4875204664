package faulttest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/evidence"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/history"
)

// Target is a real cluster with the agent on every node.
type Target struct {
	Cluster clusters.Cluster
	Kube    kubernetes.Interface
	RunID   string
	Clock   func() history.Time
	Log     *slog.Logger
}

// The workload of OnCluster: a pod that does nothing, to choose a victim by.
const (
	namespace = "seatrial-faulttest"
	anchor    = "anchor"
)

// OnCluster runs all checks of the definitions on a real cluster, one after the other, on the worker that happens to
// run a pod of its own making, and takes the pod away again. A fault takes one to four minutes.
func OnCluster(ctx context.Context, definitions []fault.Definition, t Target) (err error) {
	defer func() {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		err = errors.Join(err, t.removeAnchor(gone))
	}()
	if err := t.makeAnchor(ctx); err != nil {
		return err
	}
	var errs []error
	for _, def := range definitions {
		b, err := t.bench(ctx, def)
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

// bench waits for the anchor and takes its node for the victim.
func (t Target) bench(ctx context.Context, def fault.Definition) (Bench, error) {
	b := Bench{
		Env: fault.Env{
			Cluster: t.Cluster, Kube: t.Kube, Pod: anchor + "-0", Namespace: namespace,
			RunID: t.RunID + "-" + def.Name, Clock: t.Clock, Log: t.Log,
		},
		Spec: plan.Fault{Name: def.Name, Hold: plan.Duration(3 * time.Second)},
	}
	nodes, err := t.Cluster.Nodes(ctx)
	if err != nil {
		return b, fmt.Errorf("list nodes: %w", err)
	}
	err = await.Until(ctx, "anchor pod to be scheduled", time.Second, 2*time.Minute,
		func(ctx context.Context) (bool, string, error) {
			p, err := t.Kube.CoreV1().Pods(namespace).Get(ctx, b.Env.Pod, metav1.GetOptions{})
			if err != nil {
				return false, "", err
			}
			for _, n := range nodes {
				if n.Name() == p.Spec.NodeName {
					b.Env.Node = n
				}
			}
			return b.Env.Node != nil, fmt.Sprintf("it is %s on node %q", p.Status.Phase, p.Spec.NodeName), nil
		})
	b.Before = func(ctx context.Context) error { return t.fit(ctx, b.Env) }
	return b, err
}

// fit waits until the victim and all pods on it are Ready.
func (t Target) fit(ctx context.Context, env fault.Env) error {
	if _, err := evidence.NodeReady(ctx, env, 2*time.Minute); err != nil {
		return err
	}
	return await.Until(ctx, "pods of the victim to be Ready", time.Second, 2*time.Minute,
		func(ctx context.Context) (bool, string, error) {
			pods, err := evidence.PodsOn(ctx, env)
			if err != nil {
				return false, "", err
			}
			found := false
			for _, p := range pods {
				if !p.Ready {
					return false, p.Namespace + "/" + p.Name + " is not", nil
				}
				found = found || p.Namespace == namespace
			}
			return found, "the anchor is not there", nil
		})
}

// makeAnchor makes a StatefulSet of one pod from an image that every node has.
func (t Target) makeAnchor(ctx context.Context) error {
	image, err := t.pauseImage(ctx)
	if err != nil {
		return err
	}
	one := int32(1)
	grace := int64(1)
	labels := map[string]string{"app": anchor}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	_, err = t.Kube.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make namespace %q: %w", namespace, err)
	}
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: anchor},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &one, Selector: &metav1.LabelSelector{MatchLabels: labels}, ServiceName: anchor,
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: &grace,
					Containers: []corev1.Container{
						{Name: anchor, Image: image, ImagePullPolicy: corev1.PullIfNotPresent},
					},
				},
			},
		},
	}
	_, err = t.Kube.AppsV1().StatefulSets(namespace).Create(ctx, set, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("make StatefulSet %q: %w", anchor, err)
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

func (t Target) removeAnchor(ctx context.Context) error {
	err := t.Kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
