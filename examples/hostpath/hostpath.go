// Package hostpath makes volumes for the examples: kind clusters of Seatrial have no provisioner.
package hostpath

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// Dir is where the volumes of a class are on each node; the kubelet makes it, for root, unless it is there.
func Dir(class string, n int) string { return fmt.Sprintf("/var/lib/%s-%d", class, n) }

// Make makes a StorageClass and that many volumes on each worker, each of that size.
func Make(ctx context.Context, config *rest.Config, class string, volumes int, size string) error {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	late := storagev1.VolumeBindingWaitForFirstConsumer
	_, err = kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: class},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late,
	}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("make StorageClass: %w", err)
	}
	nodes, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{
		LabelSelector: "!node-role.kubernetes.io/control-plane"})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	made := corev1.HostPathDirectoryOrCreate
	for i := range volumes * len(nodes.Items) {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", class, i)}}
		v.Spec.StorageClassName, v.Spec.AccessModes = class, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: Dir(class, i%volumes), Type: &made}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
				Values: []string{nodes.Items[i/volumes].Name},
			}}}},
		}}
		if _, err := kube.CoreV1().PersistentVolumes().Create(ctx, v, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("make volume: %w", err)
		}
	}
	return nil
}
