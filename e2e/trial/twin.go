package trial

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/e2e/certify/twin"
	"github.com/seatrial/seatrial/fixtures"
)

// furnishedBound is how long all StatefulSets of a twin may take to be Ready.
const furnishedBound = 5 * time.Minute

// Furnish puts the storage and the objects of a twin on a cluster, and waits until every StatefulSet is Ready. What is
// not Ready then is an error that wraps await.ErrTimeout.
func (p *Place) Furnish(ctx context.Context, t twin.Twin, m ClusterOptions) error {
	kube, err := client(ctx, p.Cluster)
	if err != nil {
		return err
	}
	if t.Driver != nil {
		env := fixtures.Env{Cluster: p.Cluster, Kube: kube, RunID: NewRunID(time.Now()), Log: m.Log,
			Builds: fixtures.Builds{CacheDir: m.CacheDir, Progress: m.Progress, Log: m.Log}}
		provisioner, err := installDisks(ctx, env, *t.Driver)
		if err != nil {
			return err
		}
		for _, class := range t.Classes {
			class.Provisioner = provisioner
			classes := kube.StorageV1().StorageClasses() // A published node image has classes of its own.
			err := fixtures.Delete(ctx, classes.Delete, "StorageClass", class.Name)
			if err == nil {
				err = fixtures.Create(ctx, classes.Create, "StorageClass", &class)
			}
			if err != nil {
				return err
			}
		}
	}
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var errs []error
	for _, set := range t.StatefulSets {
		space := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: set.Namespace}}
		errs = append(errs, fixtures.Create(ctx, kube.CoreV1().Namespaces().Create, "Namespace", space),
			standIn(&set, nodes.Items, p.images.Database.Ref),
			fixtures.Create(ctx, kube.AppsV1().StatefulSets(set.Namespace).Create, "StatefulSet", &set))
	}
	for _, b := range t.Budgets {
		errs = append(errs, fixtures.Create(ctx, kube.PolicyV1().PodDisruptionBudgets(b.Namespace).Create,
			"PodDisruptionBudget", &b))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return await.Until(ctx, "the StatefulSets to be Ready", time.Second, furnishedBound,
		func(ctx context.Context) (bool, string, error) { return setsReady(ctx, kube, t.StatefulSets) })
}

// setsReady names the StatefulSets that lack Ready pods.
func setsReady(ctx context.Context, kube kubernetes.Interface, sets []appsv1.StatefulSet) (bool, string, error) {
	state := ""
	for _, set := range sets {
		now, err := kube.AppsV1().StatefulSets(set.Namespace).Get(ctx, set.Name, metav1.GetOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return false, "", err
		}
		if want := ptr.Deref(set.Spec.Replicas, 1); now.Status.ReadyReplicas < want {
			state += fmt.Sprintf("%s/%s has %d Ready pods of %d; ", set.Namespace, set.Name,
				now.Status.ReadyReplicas, want)
		}
	}
	return state == "", state, nil
}
