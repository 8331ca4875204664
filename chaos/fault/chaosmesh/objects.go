package chaosmesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/seatrial/seatrial/chaos/plan"
)

// forced is the annotation that makes Chaos Mesh give up an object that it cannot recover
// (controllers/common/finalizers: AnnotationCleanFinalizer).
const (
	forced      = "chaos-mesh.chaos-mesh.org/cleanFinalizer"
	forcedValue = "forced"
)

// objects is a client for the objects of one kind in a namespace.
type objects struct {
	client    rest.Interface
	kind      string
	plural    string
	namespace string
}

// status holds the status fields that all experiments share.
type status struct {
	Status v1alpha1.ChaosStatus `json:"status"`
}

func (s status) condition(kind v1alpha1.ChaosConditionType) bool {
	return slices.ContainsFunc(s.Status.Conditions, func(c v1alpha1.ChaosCondition) bool {
		return c.Type == kind && c.Status == "True"
	})
}

// failure returns the last failure that Chaos Mesh reports, empty if there is none.
func (s status) failure() string {
	last := ""
	for _, r := range s.Status.Experiment.Records {
		for _, e := range r.Events {
			if e.Type == v1alpha1.TypeFailed {
				last = fmt.Sprintf("%s of %s: %s", e.Operation, r.Id, e.Message)
			}
		}
	}
	return plan.Printable(last, 300)
}

// injected returns the injected targets, without the container, and the others.
func (s status) injected() (done, left []string) {
	for _, r := range s.Status.Experiment.Records {
		pod := r.Id
		if parts := strings.Split(r.Id, "/"); len(parts) > 2 {
			pod = parts[0] + "/" + parts[1]
		}
		if r.Phase == v1alpha1.Injected {
			done = append(done, pod)
		} else {
			left = append(left, pod)
		}
	}
	slices.Sort(done)
	return slices.Compact(done), left
}

// installed returns the kind's plural, and an error if the cluster does not serve it.
func installed(kube kubernetes.Interface, kind string) (plural string, err error) {
	group := v1alpha1.SchemeGroupVersion.String()
	list, err := kube.Discovery().ServerResourcesForGroupVersion(group)
	if err != nil && !apierrors.IsNotFound(err) {
		return "", fmt.Errorf("ask the API server for %s: %w", group, err)
	}
	if err == nil {
		for _, r := range list.APIResources {
			if r.Kind == kind && !strings.Contains(r.Name, "/") {
				return r.Name, nil
			}
		}
	}
	return "", fmt.Errorf("%w: its API server does not serve %s of %s; install it, or leave the fault out",
		errNotInstalled, kind, group)
}

// errNotInstalled is wrapped by the error for a cluster that does not serve a kind of Chaos Mesh.
var errNotInstalled = errors.New("the cluster has no Chaos Mesh")

func (o objects) path(name ...string) []string {
	return append([]string{
		"apis", v1alpha1.SchemeGroupVersion.Group, v1alpha1.SchemeGroupVersion.Version, "namespaces", o.namespace,
		o.plural,
	}, name...)
}

// create creates an object; the API server refuses unknown fields.
func (o objects) create(ctx context.Context, body []byte) error {
	_, err := o.client.Post().AbsPath(o.path()...).
		Param("fieldValidation", metav1.FieldValidationStrict).
		SetHeader("Content-Type", "application/json").Body(body).DoRaw(ctx)
	if err != nil {
		return fmt.Errorf("create %s: %w", o.kind, err)
	}
	return nil
}

// get returns an object's status, and whether the object exists.
func (o objects) get(ctx context.Context, name string) (status, bool, error) {
	data, err := o.client.Get().AbsPath(o.path(name)...).DoRaw(ctx)
	if apierrors.IsNotFound(err) {
		return status{}, false, nil
	}
	var s status
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return status{}, false, fmt.Errorf("get %s %q: %w", o.kind, name, err)
	}
	return s, true, nil
}

// remove deletes an object. It is no error if the object or its kind does not exist.
func (o objects) remove(ctx context.Context, name string) error {
	_, err := o.client.Delete().AbsPath(o.path(name)...).DoRaw(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %q: %w", o.kind, name, err)
	}
	return nil
}

// force makes Chaos Mesh release an object that it cannot recover.
func (o objects) force(ctx context.Context, name string) error {
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, forced, forcedValue)
	_, err := o.client.Patch(types.MergePatchType).AbsPath(o.path(name)...).Body([]byte(patch)).DoRaw(ctx)
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("force %s %q: %w", o.kind, name, err)
	}
	return nil
}
