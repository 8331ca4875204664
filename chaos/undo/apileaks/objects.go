// Package apileaks lists the API objects that a fault can leave behind; package leaks does the same for a node.
//
// It lists of every Node whether it is registered and Ready, its taints, its labels, and whether it is cordoned;
// annotations that faults leave; finalizers of others than Kubernetes; ResourceQuotas and Chaos Mesh experiments that
// bear an owner mark; VolumeAttachments that no pod on their node needs, or whose node is gone; PersistentVolumes that
// have failed, or that should be deleted and are not.
package apileaks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
)

// state is what there is at one look.
type state struct {
	nodes       []corev1.Node
	pods        []corev1.Pod
	claims      []corev1.PersistentVolumeClaim
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

func (s *state) add(resource string, m metav1.ObjectMeta) {
	name := m.Name
	if m.Namespace != "" {
		name = m.Namespace + "/" + name
	}
	s.finalized = append(s.finalized, named{resource + " " + name, m.Finalizers})
}

// Look lists what there is. Nodes are the names of the cluster's nodes, whether or not the API has a Node of each.
func Look(ctx context.Context, kube kubernetes.Interface, nodes []string) ([]history.Thing, error) {
	s, err := read(ctx, kube)
	if err != nil {
		return nil, err
	}
	ofMesh, err := experiments(ctx, kube)
	return append(s.things(nodes), ofMesh...), err
}

func read(ctx context.Context, kube kubernetes.Interface) (*state, error) {
	all, s := metav1.ListOptions{}, &state{}
	core, storage := kube.CoreV1(), kube.StorageV1()
	nodes, err := core.Nodes().List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	pods, err := core.Pods("").List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	claims, err := core.PersistentVolumeClaims("").List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list persistentvolumeclaims: %w", err)
	}
	volumes, err := core.PersistentVolumes().List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list persistentvolumes: %w", err)
	}
	attachments, err := storage.VolumeAttachments().List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list volumeattachments: %w", err)
	}
	quotas, err := core.ResourceQuotas("").List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list resourcequotas: %w", err)
	}
	sets, err := kube.AppsV1().StatefulSets("").List(ctx, all)
	if err != nil {
		return nil, fmt.Errorf("list statefulsets: %w", err)
	}
	s.nodes, s.pods, s.claims, s.volumes = nodes.Items, pods.Items, claims.Items, volumes.Items
	s.attachments, s.quotas = attachments.Items, quotas.Items
	for _, o := range s.nodes {
		s.add("node", o.ObjectMeta)
	}
	for _, o := range s.pods {
		s.add("pod", o.ObjectMeta)
	}
	for _, o := range s.claims {
		s.add("claim", o.ObjectMeta)
	}
	for _, o := range s.volumes {
		s.add("volume", o.ObjectMeta)
	}
	for _, o := range s.attachments {
		s.add("volume attachment", o.ObjectMeta)
	}
	for _, o := range sets.Items {
		s.add("statefulset", o.ObjectMeta)
	}
	return s, nil
}

// things lists what counts, class by class.
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

// by gives a thing its owner, if it has one.
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

// kubernetesOwn reports whether a finalizer is one of Kubernetes itself, or of the sidecars of CSI drivers.
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

// storage lists the attachments that nobody needs, and the volumes that are stuck.
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
