package audit

import (
	_ "embed" // The list of changes.
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// The minor versions that gates.yaml knows: the changes of each but the oldest against the one before.
const (
	oldestMinor = 33
	newestMinor = 37
)

// gatesYAML is made from versioned_feature_list.yaml of Kubernetes v1.37.0 by
//
//	go test ./e2e/certify/audit -run TestGatesAreThoseOfKubernetes -update
//
//go:embed gates.yaml
var gatesYAML []byte

// The kinds of change.
const (
	changeFlip = "flip" // The default is another one.
	changeLock = "lock" // The default can no longer be changed; it may have been flipped before.
	changeNew  = "new"  // The gate is new, and on.
)

// gateChange is what a minor version changes about a feature gate. A gate that is flipped and locked at once is a flip.
type gateChange struct {
	Gate    string `json:"gate"`
	Minor   int    `json:"minor"`
	Change  string `json:"change"`
	Default bool   `json:"default"`
	Locked  bool   `json:"locked,omitempty"`
}

// changesOf returns the gates that an upgrade changes, in the order of their names.
func changesOf(u Upgrade) ([]gateChange, error) {
	if u.from < oldestMinor || u.to > newestMinor {
		return nil, fmt.Errorf("the feature gates of v1.%d to v1.%d are not known; known are v1.%d to v1.%d",
			u.from, u.to, oldestMinor, newestMinor)
	}
	var all []gateChange
	if err := yaml.UnmarshalStrict(gatesYAML, &all); err != nil {
		return nil, fmt.Errorf("read gates.yaml: %w", err)
	}
	return slices.DeleteFunc(all, func(c gateChange) bool { return u.from == u.to || c.Minor != u.to }), nil
}

// concern says what a gate changes for data, and for which objects.
type concern struct {
	effect  string
	objects func(*state) []Object
}

// concerned returns the gates that are about StatefulSets and storage. The others are listed only.
func concerned() map[string]concern {
	return map[string]concern{
		"CSIServiceAccountTokenSecrets": {
			"drivers can get service account tokens as secrets instead of in the volume's context",
			func(s *state) []Object {
				return objectsWhere(s.Drivers, "CSIDriver",
					func(d *storagev1.CSIDriver) bool { return len(d.Spec.TokenRequests) > 0 })
			},
		},
		"GitRepoVolumeDriver": {"pods with gitRepo volumes do not start", podsWithGitRepo},
		"MaxUnavailableStatefulSet": {
			"a rolling update may take several pods at once, as rollingUpdate.maxUnavailable says (KEP-961)",
			setsWithMaxUnavailable,
		},
		"MemoryQoS": {
			"on cgroup v2 the kubelet sets memory protection and throttling from requests and limits (KEP-2570)",
			setsWithMemory,
		},
		"MutableCSINodeAllocatableCount": {
			"how many volumes a node can take is asked for again while it runs (KEP-4876)",
			func(s *state) []Object {
				return objectsWhere(s.Drivers, "CSIDriver",
					func(d *storagev1.CSIDriver) bool { return d.Spec.NodeAllocatableUpdatePeriodSeconds != nil })
			},
		},
		"SELinuxMount": {
			"volumes are mounted with the pod's SELinux label: two pods of different labels cannot share one any " +
				"more (KEP-1710)",
			podsWithSELinuxMount,
		},
		"StaleControllerConsistencyStatefulSet": {
			"the StatefulSet controller waits until it has read its own writes (KEP-5647)",
			func(s *state) []Object {
				return objectsWhere(s.StatefulSets, "StatefulSet", func(*appsv1.StatefulSet) bool { return true })
			},
		},
		"VolumeAttributesClass": {
			"volumeAttributesClassName of claims is honoured (KEP-3751)",
			func(s *state) []Object {
				return objectsWhere(s.Claims, "PersistentVolumeClaim",
					func(c *corev1.PersistentVolumeClaim) bool { return c.Spec.VolumeAttributesClassName != nil })
			},
		},
	}
}

func podsWithGitRepo(s *state) []Object {
	return objectsWhere(s.Pods, "Pod", func(p *corev1.Pod) bool {
		return slices.ContainsFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.GitRepo != nil })
	})
}

func setsWithMaxUnavailable(s *state) []Object {
	return objectsWhere(s.StatefulSets, "StatefulSet", func(set *appsv1.StatefulSet) bool {
		update := set.Spec.UpdateStrategy.RollingUpdate
		return update != nil && update.MaxUnavailable != nil && update.MaxUnavailable.String() != "1"
	})
}

// setsWithMemory returns the StatefulSets that ask for memory: without a request and a limit nothing is set.
func setsWithMemory(s *state) []Object {
	return objectsWhere(s.StatefulSets, "StatefulSet", func(set *appsv1.StatefulSet) bool {
		return withData(set) && slices.ContainsFunc(set.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
			return !c.Resources.Requests.Memory().IsZero() || !c.Resources.Limits.Memory().IsZero()
		})
	})
}

// podsWithSELinuxMount returns the pods whose volumes' drivers mount with a label, if the pod's policy leaves it so.
func podsWithSELinuxMount(s *state) []Object {
	return objectsWhere(s.Pods, "Pod", func(p *corev1.Pod) bool {
		if context := p.Spec.SecurityContext; ended(p) || context != nil && context.SELinuxChangePolicy != nil &&
			*context.SELinuxChangePolicy == corev1.SELinuxChangePolicyRecursive {
			return false
		}
		return slices.ContainsFunc(s.volumesOf(p), func(v *corev1.PersistentVolume) bool {
			if v.Spec.CSI == nil || s.drivers[v.Spec.CSI.Driver] == nil {
				return false
			}
			mounts := s.drivers[v.Spec.CSI.Driver].Spec.SELinuxMount
			return mounts != nil && *mounts
		})
	})
}

// objectsWhere names the objects that a condition holds for.
func objectsWhere[T any, P interface {
	*T
	metav1.Object
}](all []T, kind string, holds func(P) bool) []Object {
	var found []Object
	for one := range each(all) {
		if holds(P(one)) {
			found = append(found, object(kind, P(one)))
		}
	}
	return found
}
