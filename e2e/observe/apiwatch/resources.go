package apiwatch

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

// leaseNamespace is k8s.io/api core/v1 NamespaceNodeLease, where the kubelets renew their leases.
const leaseNamespace = "kube-node-lease"

// resource is a watched resource. Its namespace is empty if the resource has none.
type resource struct {
	schema.GroupVersionResource
	namespace string
}

// resources lists what is watched, in alphabetical order, for a trial in that namespace.
func resources(trial string) []resource {
	in := func(group, name, namespace string) resource {
		return resource{schema.GroupVersionResource{Group: group, Version: "v1", Resource: name}, namespace}
	}
	return []resource{
		in("apps", "controllerrevisions", trial),
		in("", "events", trial),
		in("coordination.k8s.io", "leases", leaseNamespace),
		in("", "nodes", ""),
		in("", "persistentvolumeclaims", trial),
		in("", "persistentvolumes", ""),
		in("", "pods", trial),
		in("apps", "statefulsets", trial),
		in("storage.k8s.io", "storageclasses", ""),
		in("storage.k8s.io", "volumeattachments", ""),
	}
}

// source is the API of one resource.
type source interface {
	List(ctx context.Context, opts metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, opts metav1.ListOptions) (watch.Interface, error)
}
