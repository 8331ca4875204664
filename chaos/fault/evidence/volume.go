package evidence

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/fault"
)

// VolumeHandle returns what the CSI driver calls the volume that a claim of a StatefulSet's pod is bound to. The pod
// need not be there: the controller names a claim <template>-<pod>.
func VolumeHandle(ctx context.Context, kube kubernetes.Interface, namespace, pod string) (string, error) {
	claims, err := kube.CoreV1().PersistentVolumeClaims(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", fmt.Errorf("list claims of namespace %q: %w", namespace, err)
	}
	seen := "it has no claim"
	for _, claim := range claims.Items {
		if !strings.HasSuffix(claim.Name, "-"+pod) {
			continue
		}
		if claim.Spec.VolumeName == "" {
			seen = fmt.Sprintf("its claim %q is %s", claim.Name, claim.Status.Phase)
			continue
		}
		pv, err := kube.CoreV1().PersistentVolumes().Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		if err != nil {
			return "", fmt.Errorf("get PersistentVolume %q: %w", claim.Spec.VolumeName, err)
		}
		if pv.Spec.CSI != nil {
			return pv.Spec.CSI.VolumeHandle, nil
		}
		seen = fmt.Sprintf("PersistentVolume %q has no CSI driver", pv.Name)
	}
	return "", fmt.Errorf("find the volume of pod %q: %s", pod, seen)
}

// Volume is a volume of a pod of the workload.
type Volume struct {
	Pod string
	PV  string // Name of the PersistentVolume.
}

// VolumesOn returns the volumes of the workload's pods on the victim that have not ended, in the order of the pods'
// names.
func VolumesOn(ctx context.Context, env fault.Env) ([]Volume, error) {
	pods, err := env.Kube.CoreV1().Pods(env.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list pods of namespace %q: %w", env.Namespace, err)
	}
	claims, err := env.Kube.CoreV1().PersistentVolumeClaims(env.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list claims of namespace %q: %w", env.Namespace, err)
	}
	bound := map[string]string{}
	for _, c := range claims.Items {
		bound[c.Name] = c.Spec.VolumeName
	}
	var volumes []Volume
	for _, p := range pods.Items {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if ended || p.Spec.NodeName != env.Node.Name() {
			continue
		}
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim == nil {
				continue
			}
			pv := bound[v.PersistentVolumeClaim.ClaimName]
			if pv == "" {
				return nil, fmt.Errorf("find the volumes of pod %q: its claim %q is bound to none", p.Name,
					v.PersistentVolumeClaim.ClaimName)
			}
			volumes = append(volumes, Volume{Pod: p.Name, PV: pv})
		}
	}
	slices.SortFunc(volumes, func(a, b Volume) int {
		return cmp.Or(cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.PV, b.PV))
	})
	return volumes, nil
}
