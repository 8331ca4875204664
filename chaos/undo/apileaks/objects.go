// Package apileaks lists the API objects that a fault can leave behind, as package leaks does for a node.
//
// It lists for every Node whether it is registered, Ready and cordoned, its taints, labels and annotations of faults;
// finalizers of others than Kubernetes; ResourceQuotas and Chaos Mesh experiments with an owner's mark;
// VolumeAttachments without a pod that needs them or whose node is gone; PersistentVolumes that have failed or whose
// deletion is stuck.
package apileaks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
)

// state is a snapshot of the API.
type state struct {
	nodes       []corev1.Node
	pods        []corev1.Pod
	volumes     []corev1.PersistentVolume
	attachments []storagev1.VolumeAttachment
	quotas      []corev1.ResourceQuota
	finalized   []named // Objects of all kinds that may have finalizers.
}

// named is an object by its kind and name, with its finalizers.
type named struct {
	name       string
	finalizers []string
}

// Look lists what is there. Nodes names the cluster's nodes, whether or not the API has a Node for each.
func Look(ctx context.Context, kube kubernetes.Interface, nodes []string) ([]history.Thing, error) {
	s, err := read(ctx, kube)
	if err != nil {
		return nil, err
	}
	ofMesh, err := experiments(ctx, kube)
	return append(s.things(nodes), ofMesh...), err
}

// list lists the objects of a kind in all namespaces and notes their finalizers under the name of the kind.
func list[L runtime.Object](ctx context.Context, s *state, kind string,
	ask func(context.Context, metav1.ListOptions) (L, error),
) (all L, err error) {
	if all, err = ask(ctx, metav1.ListOptions{}); err != nil {
		return all, fmt.Errorf("list every %s: %w", kind, err)
	}
	return all, meta.EachListItem(all, func(o runtime.Object) error {
		m, err := meta.Accessor(o)
		if err != nil {
			return fmt.Errorf("list every %s: %w", kind, err)
		}
		name := m.GetName()
		if m.GetNamespace() != "" {
			name = m.GetNamespace() + "/" + name
		}
		s.finalized = append(s.finalized, named{kind + " " + name, m.GetFinalizers()})
		return nil
	})
}

func read(ctx context.Context, kube kubernetes.Interface) (*state, error) {
	s, core := &state{}, kube.CoreV1()
	nodes, err := list(ctx, s, "node", core.Nodes().List)
	if err != nil {
		return nil, err
	}
	pods, err := list(ctx, s, "pod", core.Pods("").List)
	if err != nil {
		return nil, err
	}
	if _, err = list(ctx, s, "claim", core.PersistentVolumeClaims("").List); err != nil {
		return nil, err
	}
	volumes, err := list(ctx, s, "volume", core.PersistentVolumes().List)
	if err != nil {
		return nil, err
	}
	attachments, err := list(ctx, s, "volume attachment", kube.StorageV1().VolumeAttachments().List)
	if err != nil {
		return nil, err
	}
	if _, err = list(ctx, s, "statefulset", kube.AppsV1().StatefulSets("").List); err != nil {
		return nil, err
	}
	quotas, err := core.ResourceQuotas("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list every quota: %w", err)
	}
	s.nodes, s.pods, s.volumes = nodes.Items, pods.Items, volumes.Items
	s.attachments, s.quotas = attachments.Items, quotas.Items
	return s, nil
}

func (s *state) things(nodes []string) []history.Thing {
	all := []history.Thing{}
	for _, name := range nodes {
		i := slices.IndexFunc(s.nodes, func(n corev1.Node) bool { return n.Name == name })
		if i < 0 {
			all = append(all, history.Thing{Class: history.ThingNode, Name: name, Is: "not registered"})
			continue
		}
		all = append(all, ofNode(&s.nodes[i])...)
	}
	for _, o := range s.finalized {
		for _, f := range o.finalizers {
			if kubernetesOwn(f) {
				continue
			}
			all = append(all, history.Thing{Class: history.ThingFinalizer, Name: f + " on " + o.name})
		}
	}
	for _, q := range s.quotas {
		if owner, ours := undo.FromName(q.Name); ours {
			all = append(all, by(owner, history.Thing{Class: history.ThingQuota, Name: q.Namespace + "/" + q.Name}))
		}
	}
	return append(all, s.storage()...)
}

// by sets the owner of a thing, if it has one.
func by(o undo.Owner, t history.Thing) history.Thing {
	t.Run, t.Step = o.Run, o.Step
	return t
}

func ofNode(n *corev1.Node) []history.Thing {
	var all []history.Thing
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	if !ready {
		all = append(all, history.Thing{Class: history.ThingNode, Name: n.Name, Is: "not Ready"})
	}
	cordon, _ := undo.FromName(n.Annotations[undo.Cordon])
	if n.Spec.Unschedulable {
		all = append(all, by(cordon, history.Thing{Class: history.ThingCordon, Name: "of node " + n.Name}))
	}
	for _, t := range n.Spec.Taints {
		thing := history.Thing{Class: history.ThingTaint, Name: "of node " + n.Name, Is: t.ToString()}
		switch t.Key {
		case corev1.TaintNodeUnschedulable:
			thing = by(cordon, thing)
		case corev1.TaintNodeOutOfService:
			owner, _ := undo.FromName(n.Annotations[undo.OutOfService])
			thing = by(owner, thing)
		}
		all = append(all, thing)
	}
	for _, key := range slices.Sorted(maps.Keys(n.Labels)) {
		all = append(all, history.Thing{Class: history.ThingLabel, Name: key + " of node " + n.Name, Is: n.Labels[key]})
	}
	for _, key := range slices.Sorted(maps.Keys(n.Annotations)) {
		if strings.HasPrefix(key, undo.APIPrefix) {
			owner, _ := undo.FromName(n.Annotations[key])
			all = append(all, by(owner, history.Thing{
				Class: history.ThingAnnotation, Name: key + " of node " + n.Name, Is: n.Annotations[key],
			}))
		}
	}
	return all
}

// kubernetesOwn reports whether a finalizer is Kubernetes' or a CSI sidecar's.
func kubernetesOwn(finalizer string) bool {
	domain, _, qualified := strings.Cut(finalizer, "/")
	switch {
	case !qualified:
		return finalizer == metav1.FinalizerDeleteDependents || finalizer == metav1.FinalizerOrphanDependents
	case domain == "kubernetes.io", strings.HasSuffix(domain, ".kubernetes.io"), strings.HasSuffix(domain, ".k8s.io"):
		return true
	}
	return domain == "external-attacher" || domain == "external-provisioner"
}

// storage lists attachments that no pod needs, and stuck volumes.
func (s *state) storage() []history.Thing {
	var all []history.Thing
	for _, a := range s.attachments {
		pv := ""
		if a.Spec.Source.PersistentVolumeName != nil {
			pv = *a.Spec.Source.PersistentVolumeName
		}
		t := history.Thing{Class: history.ThingAttachment, Name: fmt.Sprintf("of %s to node %s", pv, a.Spec.NodeName)}
		switch {
		case !slices.ContainsFunc(s.nodes, func(n corev1.Node) bool { return n.Name == a.Spec.NodeName }):
			t.Is = "there is no such node"
		case !s.needed(pv, a.Spec.NodeName):
			t.Is = "no pod there needs it"
		default:
			continue
		}
		all = append(all, t)
	}
	for _, v := range s.volumes {
		deletes := v.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimDelete
		released := v.Status.Phase == corev1.VolumeReleased && deletes
		switch {
		case v.Status.Phase == corev1.VolumeFailed, released, v.DeletionTimestamp != nil:
			is := string(v.Status.Phase)
			if v.DeletionTimestamp != nil {
				is += ", being deleted"
			}
			all = append(all, history.Thing{Class: history.ThingVolume, Name: v.Name, Is: is})
		}
	}
	return all
}

// needed reports whether a pod on the node has a claim that is bound to the volume.
func (s *state) needed(pv, node string) bool {
	i := slices.IndexFunc(s.volumes, func(v corev1.PersistentVolume) bool { return v.Name == pv })
	if i < 0 || s.volumes[i].Spec.ClaimRef == nil {
		return false
	}
	ref := s.volumes[i].Spec.ClaimRef
	return slices.ContainsFunc(s.pods, func(p corev1.Pod) bool {
		return p.Namespace == ref.Namespace && p.Spec.NodeName == node &&
			slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool {
				return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == ref.Name
			})
	})
}

// MeshGroup and MeshVersion are those of Chaos Mesh's API.
const (
	MeshGroup   = "chaos-mesh.org"
	MeshVersion = "v1alpha1"
)

// MeshKinds are the Chaos Mesh resources that faults create.
func MeshKinds() []string {
	return []string{"iochaos", "networkchaos", "podchaos", "stresschaos", "timechaos"}
}

// experiments lists the Chaos Mesh objects with our label; none if there is no Chaos Mesh.
func experiments(ctx context.Context, kube kubernetes.Interface) ([]history.Thing, error) {
	version := MeshGroup + "/" + MeshVersion
	served, err := kube.Discovery().ServerResourcesForGroupVersion(version)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ask the API server for %s: %w", version, err)
	}
	var all []history.Thing
	for _, r := range served.APIResources {
		if !slices.Contains(MeshKinds(), r.Name) {
			continue
		}
		data, err := kube.Discovery().RESTClient().Get().AbsPath("apis", MeshGroup, MeshVersion, r.Name).
			Param("labelSelector", undo.OwnerLabel).DoRaw(ctx)
		var list metav1.PartialObjectMetadataList
		if err == nil {
			err = json.Unmarshal(data, &list)
		}
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", r.Name, err)
		}
		for _, o := range list.Items {
			owner, _ := undo.FromName(o.Labels[undo.OwnerLabel])
			name := fmt.Sprintf("%s %s/%s", r.Kind, o.Namespace, o.Name)
			t := history.Thing{Class: history.ThingExperiment, Name: name}
			if o.DeletionTimestamp != nil {
				t.Is = "being deleted"
			}
			all = append(all, by(owner, t))
		}
	}
	return all, nil
}
