package world

import (
	"iter"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// PodStatus is a pod's status with derived fields. Times are seconds since 1970 by the clock of the pod's node, 0 if
// unknown.
type PodStatus struct {
	corev1.PodStatus

	Running    bool  `json:"-"`
	Over       bool  `json:"-"` // Succeeded or Failed: none of its containers runs any more.
	Ready      bool  `json:"-"`
	Turned     int64 `json:"-"` // When its readiness last changed.
	ReadySince int64 `json:"-"`
	Disrupted  bool  `json:"-"` // Condition DisruptionTarget: an eviction or the like deletes it, not its owner.
}

func (s *PodStatus) complete() {
	s.Running = s.Phase == corev1.PodRunning
	s.Over = s.Phase == corev1.PodSucceeded || s.Phase == corev1.PodFailed
	for _, c := range s.Conditions {
		yes := c.Status == corev1.ConditionTrue
		switch c.Type {
		case corev1.PodReady:
			s.Turned = 0
			if !c.LastTransitionTime.IsZero() {
				s.Turned = c.LastTransitionTime.Unix()
			}
			if yes {
				s.Ready, s.ReadySince = true, s.Turned
			}
		case corev1.DisruptionTarget:
			s.Disrupted = s.Disrupted || yes
		}
	}
}

// SetSpec is a StatefulSet's spec, with what it demands once the API server's defaults are filled in.
type SetSpec struct {
	appsv1.StatefulSetSpec

	Demand    Demand   `json:"-"`
	Templates []string `json:"-"` // Names of the volumeClaimTemplates.
}

// Demand is what a StatefulSet demands of its controller. It is comparable.
type Demand struct {
	Replicas, Start, Partition int
	Unavailable                int  // maxUnavailable, 1 if not set.
	Limited                    bool // maxUnavailable is set, as always since Kubernetes 1.37.
	MinReady                   int64
	HistoryLimit               int
	Strategy                   string // updateStrategy.type: RollingUpdate, OnDelete, Recreate or another.
	Parallel                   bool
	DeleteScaled               bool // persistentVolumeClaimRetentionPolicy.whenScaled is Delete.
	DeleteDeleted              bool // persistentVolumeClaimRetentionPolicy.whenDeleted is Delete.
	Service                    string
}

// Update strategies.
const (
	RollingUpdate = string(appsv1.RollingUpdateStatefulSetStrategyType)
	OnDelete      = string(appsv1.OnDeleteStatefulSetStrategyType)
	Recreate      = "Recreate" // Since v1.37, behind the gate StatefulSetRecreateStrategy.
)

func (s *SetSpec) complete() {
	s.Demand = DemandOf(&s.StatefulSetSpec)
	for _, t := range s.VolumeClaimTemplates {
		s.Templates = append(s.Templates, t.Name)
	}
}

// DemandOf fills in the defaults (k8s.io/kubernetes pkg/apis/apps/v1, SetDefaults_StatefulSet).
func DemandOf(s *appsv1.StatefulSetSpec) Demand {
	d := Demand{Replicas: 1, Unavailable: 1, HistoryLimit: 10, Strategy: RollingUpdate,
		MinReady: int64(s.MinReadySeconds), Service: s.ServiceName,
		Parallel: s.PodManagementPolicy == appsv1.ParallelPodManagement}
	if s.Replicas != nil {
		d.Replicas = int(*s.Replicas)
	}
	if s.Ordinals != nil {
		d.Start = int(s.Ordinals.Start)
	}
	if s.RevisionHistoryLimit != nil {
		d.HistoryLimit = int(*s.RevisionHistoryLimit)
	}
	if s.UpdateStrategy.Type != "" {
		d.Strategy = string(s.UpdateStrategy.Type)
	}
	if r := s.UpdateStrategy.RollingUpdate; r != nil {
		if r.Partition != nil {
			d.Partition = int(*r.Partition)
		}
		if d.Limited = r.MaxUnavailable != nil; d.Limited {
			// A percentage is rounded down; the minimum is 1 (getStatefulSetMaxUnavailable).
			if n, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, d.Replicas, false); err == nil {
				d.Unavailable = max(n, 1)
			}
		}
	}
	if p := s.PersistentVolumeClaimRetentionPolicy; p != nil {
		d.DeleteScaled = p.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		d.DeleteDeleted = p.WhenDeleted == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	}
	return d
}

// Wants reports whether the StatefulSet must have a pod with that ordinal.
func (d *Demand) Wants(ordinal int) bool { return ordinal >= d.Start && ordinal-d.Start < d.Replicas }

// Ordinals yields the ordinals that the StatefulSet must have, MostOrdinals at most.
func (d *Demand) Ordinals() iter.Seq[int] {
	return func(yield func(int) bool) {
		for k := d.Start; d.Wants(k) && k-d.Start < MostOrdinals && yield(k); k++ {
		}
	}
}

// Held reports whether an ordinal is below the partition, so that its pod is created at the current revision. The
// partition counts from the first ordinal (pkg/controller/statefulset, newVersionedStatefulSetPod).
func (d *Demand) Held(ordinal int) bool {
	return d.Strategy == RollingUpdate && ordinal-d.Start < d.Partition
}

// MostOrdinals bounds the ordinals of one StatefulSet that are judged, so that a damaged number in a history cannot
// keep a check busy forever.
const MostOrdinals = 4096

// Images returns the images of containers, in order, separated by spaces.
func Images(containers []corev1.Container) string {
	if len(containers) == 1 {
		return containers[0].Image
	}
	images := make([]string, 0, len(containers))
	for _, c := range containers {
		images = append(images, c.Image)
	}
	return strings.Join(images, " ")
}

// ClaimUse is a pod volume that is backed by a claim.
type ClaimUse struct{ Volume, Claim string }

// ClaimUses returns the claims that a pod uses, in the order of its volumes.
func ClaimUses(spec *corev1.PodSpec) []ClaimUse {
	var all []ClaimUse
	for _, v := range spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			all = append(all, ClaimUse{v.Name, v.PersistentVolumeClaim.ClaimName})
		}
	}
	return all
}

// NodeReady returns a node's Ready condition, zero if it has none.
func NodeReady(n *Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

// OutOfService reports whether a node has the out-of-service taint, which lets Kubernetes force-delete its pods.
func OutOfService(n *Node) bool {
	return slices.ContainsFunc(n.Spec.Taints,
		func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
}
