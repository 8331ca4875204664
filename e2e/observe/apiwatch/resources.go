package apiwatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
)

// scope says of which namespace a resource is watched.
type scope int

const (
	scopeCluster scope = iota // The resource has no namespace.
	scopeTrial                // The namespace of the trial.
	scopeLeases               // The namespace in which the kubelets renew their leases.
)

// leaseNamespace is k8s.io/api core/v1 NamespaceNodeLease.
const leaseNamespace = "kube-node-lease"

// resource is one resource that is watched.
type resource struct {
	schema.GroupVersionResource
	scope scope
}

// resources lists what is watched, in the order of the alphabet.
func resources() []resource {
	in := func(group, name string, s scope) resource {
		return resource{schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}, s}
	}
	return []resource{
		in("apps", "controllerrevisions", scopeTrial),
		in("", "events", scopeTrial),
		in("coordination.k8s.io", "leases", scopeLeases),
		in("", "nodes", scopeCluster),
		in("", "persistentvolumeclaims", scopeTrial),
		in("", "persistentvolumes", scopeCluster),
		in("", "pods", scopeTrial),
		in("apps", "statefulsets", scopeTrial),
		in("storage.k8s.io", "storageclasses", scopeCluster),
		in("storage.k8s.io", "volumeattachments", scopeCluster),
	}
}

// source is what is needed of the API for one resource.
type source interface {
	List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}

func (r resource) source(client dynamic.Interface, namespace string) source {
	all := client.Resource(r.GroupVersionResource)
	switch r.scope {
	case scopeTrial:
		return all.Namespace(namespace)
	case scopeLeases:
		return all.Namespace(leaseNamespace)
	}
	return all
}
