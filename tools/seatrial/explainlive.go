package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/explain"
	"github.com/seatrial/seatrial/e2e/world"
)

// liveBound bounds all requests to a live cluster.
const liveBound = 30 * time.Second

func splitSet(set string) (namespace, name string, err error) {
	namespace, name, ok := strings.Cut(set, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return "", "", badArguments("--statefulset %q is not valid; give NAMESPACE/NAME, for example default/mysql",
			set)
	}
	return namespace, name, nil
}

// live explains a StatefulSet of a running cluster.
func (f *explainFlags) live(ctx context.Context) (explained, error) {
	namespace, name, err := splitSet(f.set)
	if err != nil {
		return explained{}, err
	}
	config, err := clientConfig(f.kubeconfig, "")
	if err != nil {
		return explained{}, err
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return explained{}, fmt.Errorf("make a client of the cluster: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, liveBound)
	defer cancel()
	now := time.Now()
	w, err := askCluster(ctx, kube, namespace, name, now)
	if err != nil {
		return explained{}, err
	}
	return explained{StatefulSets: []explain.Diagnosis{explain.Now(w, now, f.set, f.bound)}}, nil
}

// askCluster returns the world as the API server shows it now. What may not be read is said to be missing; without the
// StatefulSet and its pods there is nothing to say.
func askCluster(
	ctx context.Context, kube kubernetes.Interface, namespace, name string, now time.Time,
) (*world.World, error) {
	var facts []history.Event
	watch := func(resource string, state history.ObserverState, detail string) {
		facts = append(facts, history.Event{Kind: history.KindObserver, Span: history.At(history.Time(now.UnixNano())),
			Observer: &history.Observer{Name: "api/" + resource, State: state, Detail: detail}})
	}
	see := func(resource string, obj runtime.Object) error {
		e, err := objectFact(resource, obj, now)
		facts = append(facts, e)
		return err
	}
	set, err := kube.AppsV1().StatefulSets(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, badArguments("--statefulset: there is no StatefulSet %q in namespace %q", name, namespace)
	}
	if err != nil {
		return nil, fmt.Errorf("read StatefulSet %q in namespace %q: %w", name, namespace, err)
	}
	if err := see("statefulsets", set); err != nil {
		return nil, err
	}
	for _, l := range listings(kube, namespace) {
		list, err := l.list(ctx, metav1.ListOptions{})
		if err != nil && l.resource == "pods" {
			return nil, fmt.Errorf("list pods in namespace %q: %w", namespace, err)
		}
		if err != nil {
			watch(l.resource, history.ObserverLoss, fmt.Sprintf("%s could not be read: %v", l.resource, err))
			continue
		}
		watch(l.resource, history.ObserverOn, "listed")
		each := func(obj runtime.Object) error { return see(l.resource, obj) }
		if err := meta.EachListItem(list, each); err != nil {
			return nil, fmt.Errorf("read %s: %w", l.resource, err)
		}
	}
	return world.New(history.History{Events: facts}), nil
}

// listing is one kind of objects that a diagnosis is made from.
type listing struct {
	resource string
	list     func(context.Context, metav1.ListOptions) (runtime.Object, error)
}

// listings returns them all, in the order of their names.
func listings(kube kubernetes.Interface, namespace string) []listing {
	core, storage := kube.CoreV1(), kube.StorageV1()
	return []listing{
		{"events", lists(core.Events(namespace).List)},
		{"leases", lists(kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).List)},
		{"nodes", lists(core.Nodes().List)},
		{"persistentvolumeclaims", lists(core.PersistentVolumeClaims(namespace).List)},
		{"persistentvolumes", lists(core.PersistentVolumes().List)},
		{"pods", lists(core.Pods(namespace).List)},
		{"volumeattachments", lists(storage.VolumeAttachments().List)},
	}
}

// lists turns a typed list call into one of any objects.
func lists[L runtime.Object](
	call func(context.Context, metav1.ListOptions) (L, error),
) func(context.Context, metav1.ListOptions) (runtime.Object, error) {
	return func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) { return call(ctx, opts) }
}

// objectFact returns the fact that shows an object, as the API server would send it.
func objectFact(resource string, obj runtime.Object, now time.Time) (history.Event, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return history.Event{}, fmt.Errorf("read %s: %w", resource, err)
	}
	raw, err := json.Marshal(obj)
	if err != nil {
		return history.Event{}, fmt.Errorf("encode %s %q: %w", resource, m.GetName(), err)
	}
	return history.Event{Kind: history.KindObject, Span: history.At(history.Time(now.UnixNano())),
		Object: &history.Object{Verb: history.VerbListed, Resource: resource, Namespace: m.GetNamespace(),
			Name: m.GetName(), UID: string(m.GetUID()), ResourceVersion: m.GetResourceVersion(), Raw: raw}}, nil
}
