package faulttest

import (
	"cmp"
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// claimClass is the class of the anchor's volumes; nobody provisions it.
	claimClass    = "seatrial-faulttest"
	claimTemplate = "data"
	// claimed is how many volumes there are: one that was claimed once is not claimed again.
	claimed = 12
)

// withClaim gives the anchor pod a claim, and creates its volume.
func (t Target) withClaim(ctx context.Context, set *appsv1.StatefulSet) error {
	class, size := cmp.Or(t.Class, claimClass), corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
		ObjectMeta: metav1.ObjectMeta{Name: claimTemplate},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: modes, StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: size},
		},
	}}
	pod := &set.Spec.Template.Spec
	pod.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: claimTemplate, MountPath: "/data"}}
	if t.Class != "" {
		return nil
	}
	for i := range claimed {
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", claimClass, i)},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes: modes, StorageClassName: class, Capacity: size,
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					HostPath: &corev1.HostPathVolumeSource{Path: "/var/local"}},
			},
		}
		_, err := t.Kube.CoreV1().PersistentVolumes().Create(ctx, pv, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("make volume %q: %w", pv.Name, err)
		}
	}
	return nil
}

// renewed deletes the anchor pod if its claim is being deleted, so that both are recreated, and reports whether it did.
func (t Target) renewed(ctx context.Context, pod *corev1.Pod) (bool, error) {
	if !t.Claims {
		return false, nil
	}
	name := claimTemplate + "-" + pod.Name
	claim, err := t.Kube.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	going := claim.DeletionTimestamp != nil
	if !going || pod.DeletionTimestamp != nil {
		return going, nil
	}
	return true, t.Kube.CoreV1().Pods(namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{})
}
