package fault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// The resources whose objects bear marks of faults.
const (
	Nodes          = "nodes"
	ResourceQuotas = "resourcequotas"
)

// MarkedResources returns them all.
func MarkedResources() []string { return []string{Nodes, ResourceQuotas} }

// Marks are the owner's marks on the objects of a resource, and the changes behind them. Timers on the control-plane
// nodes remove them at the deadline, where kubeadm made these; else the watchdog beside the cluster, for which the
// harness's machine must be up.
type Marks struct {
	Env
	Resource string
}

// NodesUnmark reports whether the control-plane nodes of a cluster remove marks.
func NodesUnmark(c clusters.Cluster) bool {
	return len(c.Capabilities().Lacks([]string{clusters.CanStaticPods, clusters.CanSystemd})) == 0
}

// Undo returns the tasks that remove the marks.
func (m Marks) Undo(ctx context.Context) ([]undo.Task, error) {
	if NodesUnmark(m.Cluster) {
		return m.OnControlPlane(ctx, undo.RemoveMarks(m.Owner, m.Resource))
	}
	if m.Watchdog == nil {
		return nil, fmt.Errorf("remove marks from %s: kubeadm made no control-plane node, and there is no watchdog",
			m.Resource)
	}
	return []undo.Task{{Marks: m.Resource}}, nil
}

// Heal removes the marks.
func (m Marks) Heal(ctx context.Context) error {
	if NodesUnmark(m.Cluster) {
		return m.CarryOutOnControlPlane(ctx)
	}
	_, err := Unmark(ctx, m.Kube, &m.Owner, m.Resource)
	return err
}

// How often and how long Unmark tries again: another writer was faster, or the API server does not answer.
const unmarkEvery, unmarkBound = 500 * time.Millisecond, 20 * time.Second

// Unmark removes the selected owners' marks from the objects of resources through the API server, and returns what it
// did.
func Unmark(ctx context.Context, kube kubernetes.Interface, only undo.Only, resources ...string) (did []string,
	err error,
) {
	left := slices.Clone(resources)
	what := "marks to be removed from " + strings.Join(left, ", ")
	err = await.Until(ctx, what, unmarkEvery, unmarkBound, func(ctx context.Context) (_ bool, _ string, failed error) {
		left = slices.DeleteFunc(left, func(resource string) bool {
			now, err := undo.Unmark(ctx, API(kube), only, resource)
			did, failed = append(did, now...), cmp.Or(failed, err)
			return err == nil
		})
		return len(left) == 0, "", failed
	})
	return did, err
}

// HealCluster is undo.Cluster for the nodes of a cluster, and removes the marks that no node does.
func HealCluster(ctx context.Context, c clusters.Cluster, nodes []clusters.Node, kube kubernetes.Interface,
	only undo.Only,
) ([]undo.Report, error) {
	reports, err := undo.Cluster(ctx, nodes, only)
	if NodesUnmark(c) {
		return reports, err
	}
	did, failed := Unmark(ctx, kube, only, MarkedResources()...)
	return append(reports, undo.Report{Node: "API server", Did: did}), errors.Join(err, failed)
}

// API returns the API server as undos need it, through a client of it.
func API(kube kubernetes.Interface) undo.API { return client{kube} }

type client struct{ kube kubernetes.Interface }

// callBound bounds each call.
const callBound = 5 * time.Second

func (c client) List(ctx context.Context, resource string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	switch resource { // The objects of a list have no kind of their own.
	case Nodes:
		list, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			list.Items[i].Kind = "Node"
		}
		return json.Marshal(list)
	case ResourceQuotas:
		list, err := c.kube.CoreV1().ResourceQuotas("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			list.Items[i].Kind = "ResourceQuota"
		}
		return json.Marshal(list)
	}
	return nil, fmt.Errorf("resource %q bears no marks", resource)
}

func (c client) Delete(ctx context.Context, resource, namespace, name string) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	if resource != ResourceQuotas {
		return fmt.Errorf("no fault makes %s", resource)
	}
	err := c.kube.CoreV1().ResourceQuotas(namespace).Delete(ctx, name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c client) PatchNode(ctx context.Context, name string, patch []byte) error {
	ctx, cancel := context.WithTimeout(ctx, callBound)
	defer cancel()
	_, err := c.kube.CoreV1().Nodes().Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}
