package evidence

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
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
