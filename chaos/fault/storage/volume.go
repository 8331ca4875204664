package storage

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/fault"
)

// volumeHandle returns what the CSI driver calls the volume of the victim's pod: that of its first claim.
func volumeHandle(ctx context.Context, env fault.Env) (string, error) {
	core := env.Kube.CoreV1()
	pod, err := core.Pods(env.Namespace).Get(ctx, env.Pod, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get pod %q: %w", env.Pod, err)
	}
	claim := ""
	for _, v := range pod.Spec.Volumes {
		if v.PersistentVolumeClaim != nil && claim == "" {
			claim = v.PersistentVolumeClaim.ClaimName
		}
	}
	if claim == "" {
		return "", fmt.Errorf("find the volume of pod %q: it has no claim", env.Pod)
	}
	pvc, err := core.PersistentVolumeClaims(env.Namespace).Get(ctx, claim, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get claim %q: %w", claim, err)
	}
	if pvc.Spec.VolumeName == "" {
		return "", fmt.Errorf("find the volume of pod %q: its claim %q is %s, not bound", env.Pod, claim,
			pvc.Status.Phase)
	}
	pv, err := core.PersistentVolumes().Get(ctx, pvc.Spec.VolumeName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get PersistentVolume %q: %w", pvc.Spec.VolumeName, err)
	}
	if pv.Spec.CSI == nil {
		return "", fmt.Errorf("find the volume of pod %q: PersistentVolume %q has no CSI driver", env.Pod, pv.Name)
	}
	return pv.Spec.CSI.VolumeHandle, nil
}
