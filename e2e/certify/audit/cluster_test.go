package audit

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// testDriver is the CSI driver of all volumes.
const testDriver = "disk.example.com"

// ptr returns a pointer to a value.
func ptr[T any](v T) *T { return &v }

// healthy returns a cluster of three nodes, v1.36.3, with a StatefulSet of three replicas about which nothing is to be
// said but what v1.37 changes.
func healthy() Cluster {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	c := Cluster{
		Version: "v1.36.3", At: now, CertificateEnds: now.AddDate(1, 0, 0),
		Gates: map[string]bool{"MaxUnavailableStatefulSet": false, "SELinuxMount": false},
		Drivers: []storagev1.CSIDriver{{
			ObjectMeta: metav1.ObjectMeta{Name: testDriver}, Spec: storagev1.CSIDriverSpec{AttachRequired: ptr(true)},
		}},
		Budgets: []policyv1.PodDisruptionBudget{budget("mysql", ptr(intstr.FromInt32(1)), nil)},
	}
	set := appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mysql", Generation: 2},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr(int32(3)),
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "mysql"}},
				Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr(int64(60))}},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 2, Replicas: 3, ReadyReplicas: 3, UpdatedReplicas: 3,
			CurrentRevision: "mysql-1", UpdateRevision: "mysql-1"},
	}
	c.StatefulSets = []appsv1.StatefulSet{set}
	for i := range 3 {
		node := fmt.Sprintf("node-%d", i)
		c.Nodes = append(c.Nodes, corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: node},
			Status: corev1.NodeStatus{
				Conditions:      []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
				NodeInfo:        corev1.NodeSystemInfo{KubeletVersion: "v1.36.3"},
				VolumesInUse:    []corev1.UniqueVolumeName{called(i)},
				VolumesAttached: []corev1.AttachedVolume{{Name: called(i)}},
			},
		})
		c.Pods = append(c.Pods, dataPod(i, node),
			systemPod("kube-proxy-"+node, "k8s-app", "kube-proxy", "registry.example.com/kube-proxy:v1.36.3"))
		c.Claims = append(c.Claims, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("data-mysql-%d", i)},
			Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: fmt.Sprintf("pv-%d", i)},
		})
		c.Volumes = append(c.Volumes, corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("pv-%d", i)},
			Spec: corev1.PersistentVolumeSpec{
				AccessModes:                   []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: testDriver, VolumeHandle: fmt.Sprintf("disk-%d", i)}},
			},
		})
		c.Attachments = append(c.Attachments, attachment(i, node, true))
		c.OnNodes = append(c.OnNodes, OnNode{
			Node: node, Gates: map[string]bool{"SELinuxMount": false}, CertificateEnds: now.AddDate(1, 0, 0),
			Mounts: []Mount{{"/", "0:40"}, mountedFor(i), stagedFor(i)},
		})
	}
	for _, name := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
		p := systemPod(name+"-node-0", "component", name, "registry.example.com/"+name+":v1.36.3")
		p.Spec.Containers[0].Command = []string{name, "--disable-force-detach-on-timeout=true"}
		c.Pods = append(c.Pods, p)
	}
	return c
}

// called returns the name of the nth disk in a node's status.
func called(n int) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(fmt.Sprintf("kubernetes.io/csi/%s^disk-%d", testDriver, n))
}

func attachment(n int, node string, attached bool) storagev1.VolumeAttachment {
	return storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("csi-%d-%s", n, node)},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr(fmt.Sprintf("pv-%d", n))}},
		Status: storagev1.VolumeAttachmentStatus{Attached: attached},
	}
}

// mountedFor is the volume of the nth pod, mounted for it.
func mountedFor(n int) Mount {
	return Mount{fmt.Sprintf("/var/lib/kubelet/pods/%s/volumes/kubernetes.io~csi/pv-%d/mount", uid(n), n),
		fmt.Sprintf("7:%d", n)}
}

// stagedFor is the volume of the nth pod, staged.
func stagedFor(n int) Mount {
	return Mount{fmt.Sprintf("/var/lib/kubelet/plugins/kubernetes.io/csi/%s/%d/globalmount", testDriver, n),
		fmt.Sprintf("7:%d", n)}
}

// uid is that of the nth pod of mysql.
func uid(n int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-0000-0000-00000000000%d", n)) }

// budget is over the pods of mysql, all of them healthy.
func budget(name string, maxUnavailable, minAvailable *intstr.IntOrString) policyv1.PodDisruptionBudget {
	return policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Generation: 1},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: maxUnavailable, MinAvailable: minAvailable,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "mysql"}}},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: 3, CurrentHealthy: 3,
			DisruptionsAllowed: 1},
	}
}

// dataPod is the nth pod of mysql.
func dataPod(n int, node string) corev1.Pod {
	claim := corev1.PersistentVolumeClaimVolumeSource{ClaimName: fmt.Sprintf("data-mysql-%d", n)}
	p := corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("mysql-%d", n), UID: uid(n),
			Labels: map[string]string{"app": "mysql"}},
		Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{Name: "data",
			VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &claim}}}},
		Status: runningStatus(),
	}
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: "mysql", Controller: ptr(true)}}
	return p
}

func systemPod(name, label, value, image string) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{label: value},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Node", Name: "node-0", Controller: ptr(true)}}},
		Spec:   corev1.PodSpec{NodeName: "node-0", Containers: []corev1.Container{{Name: value, Image: image}}},
		Status: runningStatus(),
	}
}

func runningStatus() corev1.PodStatus {
	return corev1.PodStatus{
		Phase:      corev1.PodRunning,
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		ContainerStatuses: []corev1.ContainerStatus{
			{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
		},
	}
}

// podNamed returns the pod of that name, to be changed.
func podNamed(c *Cluster, name string) *corev1.Pod {
	for i := range c.Pods {
		if c.Pods[i].Name == name {
			return &c.Pods[i]
		}
	}
	return &corev1.Pod{}
}
