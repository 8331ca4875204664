package audit

import (
	"iter"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// state is a cluster with its objects joined, once for all rules.
type state struct {
	Cluster
	upgrade  Upgrade
	claims   map[types.NamespacedName]*corev1.PersistentVolumeClaim
	drivers  map[string]*storagev1.CSIDriver
	nodes    map[string]*corev1.Node
	podsOn   map[string][]*corev1.Pod // By node.
	podsOf   map[Object][]*corev1.Pod // By controller.
	volumes  map[string]*corev1.PersistentVolume
	budgetOf map[*corev1.Pod][]*policyv1.PodDisruptionBudget
	claimsOf map[types.NamespacedName][]*corev1.PersistentVolumeClaim // Those of a StatefulSet's templates.
}

func newState(c Cluster, u Upgrade) *state {
	s := &state{
		Cluster: c, upgrade: u,
		claims:   map[types.NamespacedName]*corev1.PersistentVolumeClaim{},
		drivers:  map[string]*storagev1.CSIDriver{},
		nodes:    map[string]*corev1.Node{},
		podsOn:   map[string][]*corev1.Pod{},
		podsOf:   map[Object][]*corev1.Pod{},
		volumes:  map[string]*corev1.PersistentVolume{},
		budgetOf: map[*corev1.Pod][]*policyv1.PodDisruptionBudget{},
		claimsOf: map[types.NamespacedName][]*corev1.PersistentVolumeClaim{},
	}
	for d := range each(c.Drivers) {
		s.drivers[d.Name] = d
	}
	for n := range each(c.Nodes) {
		s.nodes[n.Name] = n
	}
	for v := range each(c.Volumes) {
		s.volumes[v.Name] = v
	}
	for claim := range each(c.Claims) {
		s.claims[key(claim)] = claim
	}
	for p := range each(c.Pods) {
		s.podsOn[p.Spec.NodeName] = append(s.podsOn[p.Spec.NodeName], p)
		s.podsOf[ownerOf(p)] = append(s.podsOf[ownerOf(p)], p)
	}
	for b := range each(c.Budgets) {
		for _, p := range s.covered(b) {
			s.budgetOf[p] = append(s.budgetOf[p], b)
		}
	}
	s.joinClaims()
	return s
}

// joinClaims finds the claims of each StatefulSet by their names, TEMPLATE-SET-ORDINAL: those of pods that are gone
// hold data too.
func (s *state) joinClaims() {
	sets := map[types.NamespacedName]types.NamespacedName{} // The claim's name without ordinal → the StatefulSet.
	for set := range each(s.StatefulSets) {
		for _, template := range set.Spec.VolumeClaimTemplates {
			sets[types.NamespacedName{Namespace: set.Namespace, Name: template.Name + "-" + set.Name}] = key(set)
		}
	}
	for claim := range each(s.Claims) {
		cut := strings.LastIndexByte(claim.Name, '-')
		if cut < 0 || strings.Trim(claim.Name[cut+1:], "0123456789") != "" {
			continue
		}
		if set, ok := sets[types.NamespacedName{Namespace: claim.Namespace, Name: claim.Name[:cut]}]; ok {
			s.claimsOf[set] = append(s.claimsOf[set], claim)
		}
	}
}

// each ranges over pointers to the elements of a slice: API objects are large.
func each[T any](all []T) iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for i := range all {
			if !yield(&all[i]) {
				return
			}
		}
	}
}

func key(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// ownerOf returns the controller of a pod, or the pod itself if it has none.
func ownerOf(p *corev1.Pod) Object {
	c := metav1.GetControllerOfNoCopy(p)
	if c == nil {
		return object("Pod", p)
	}
	return Object{c.Kind, p.Namespace, c.Name}
}

// covered returns the pods that a budget is over, without those that have ended.
func (s *state) covered(b *policyv1.PodDisruptionBudget) []*corev1.Pod {
	selector := selectorOf(b)
	var pods []*corev1.Pod
	for p := range each(s.Pods) {
		if p.Namespace == b.Namespace && !ended(p) && selector.Matches(labels.Set(p.Labels)) {
			pods = append(pods, p)
		}
	}
	return pods
}

// selectorOf returns a budget's selector. The API server refuses selectors that cannot be read.
func selectorOf(b *policyv1.PodDisruptionBudget) labels.Selector {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

// volumesOf returns the bound volumes of a pod, by the name of the claim.
func (s *state) volumesOf(p *corev1.Pod) []*corev1.PersistentVolume {
	var volumes []*corev1.PersistentVolume
	for _, v := range p.Spec.Volumes {
		var name string
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = p.Name + "-" + v.Name
		default:
			continue
		}
		claim := s.claims[types.NamespacedName{Namespace: p.Namespace, Name: name}]
		if claim != nil && s.volumes[claim.Spec.VolumeName] != nil {
			volumes = append(volumes, s.volumes[claim.Spec.VolumeName])
		}
	}
	return volumes
}

// ended reports whether a pod is Succeeded or Failed.
func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
}

// running reports whether a container of the pod runs: then its volumes are mounted.
func running(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.ContainerStatuses,
		func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

// ready reports whether a pod is Ready.
func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// withData reports whether a StatefulSet keeps data in claims.
func withData(set *appsv1.StatefulSet) bool {
	return len(set.Spec.VolumeClaimTemplates) > 0 || slices.ContainsFunc(set.Spec.Template.Spec.Volumes,
		func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil })
}

func object(kind string, o metav1.Object) Object { return Object{kind, o.GetNamespace(), o.GetName()} }

func setObject(set *appsv1.StatefulSet) Object { return object("StatefulSet", set) }
