package apileaks_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/chaos/undo/apileaks"
)

func node(name string, change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": "one"}},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	if change != nil {
		change(n)
	}
	return n
}

func attachment(name, pv, node string) *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"external-attacher/disk"}},
		Spec: storagev1.VolumeAttachmentSpec{NodeName: node,
			Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &pv}},
	}
}

func volume(
	name, claim string, policy corev1.PersistentVolumeReclaimPolicy, phase corev1.PersistentVolumePhase,
) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: []string{"kubernetes.io/pv-protection"}},
		Spec: corev1.PersistentVolumeSpec{PersistentVolumeReclaimPolicy: policy,
			ClaimRef: &corev1.ObjectReference{Namespace: "trial", Name: claim}},
		Status: corev1.PersistentVolumeStatus{Phase: phase},
	}
}

// well is a cluster in which nothing is wrong: two nodes, and a pod that uses its volume on the first.
func well() []runtime.Object {
	return []runtime.Object{
		node("a", nil), node("b", nil),
		&corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: "mysql-0"},
			Spec: corev1.PodSpec{NodeName: "a", Volumes: []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-0"}}}}},
		},
		volume("pv-0", "data-0", corev1.PersistentVolumeReclaimDelete, corev1.VolumeBound),
		volume("pv-kept", "gone", corev1.PersistentVolumeReclaimRetain, corev1.VolumeReleased),
		attachment("va-0", "pv-0", "a"),
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: "data-0",
			Finalizers: []string{"kubernetes.io/pvc-protection"}}},
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: "theirs"}},
	}
}

func labels() []history.Thing {
	return []history.Thing{{Class: history.ThingLabel, Name: "zone of node a", Is: "one"},
		{Class: history.ThingLabel, Name: "zone of node b", Is: "one"}}
}

func TestAWellClusterHasItsLabelsAlone(t *testing.T) {
	got, err := apileaks.Look(t.Context(), kubefake.NewClientset(well()...), []string{"a", "b"})
	if d := cmp.Diff(labels(), got); d != "" || err != nil {
		t.Errorf("things (-want +got):\n%s, %v", d, err)
	}
}

func TestWhatFaultsLeaveIsListedWithItsOwner(t *testing.T) {
	before, err := apileaks.Look(t.Context(), kubefake.NewClientset(well()...), []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	all := well()[2:]
	all = append(all,
		node("a", func(n *corev1.Node) {
			n.Labels["mine"] = "x"
			n.Annotations = map[string]string{undo.Cordon: "seatrial-r1-3", undo.OutOfService: "seatrial-r1-4"}
			n.Finalizers = []string{"seatrial/seatrial-r1-5", "example.org/other"}
			n.Spec.Unschedulable = true
			n.Spec.Taints = []corev1.Taint{
				{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule},
				{Key: corev1.TaintNodeOutOfService, Value: "v", Effect: corev1.TaintEffectNoExecute},
			}
			n.Status.Conditions[0].Status = corev1.ConditionUnknown
		}),
		attachment("va-1", "pv-0", "b"), attachment("va-2", "pv-kept", "a"),
		volume("pv-1", "data-1", corev1.PersistentVolumeReclaimDelete, corev1.VolumeReleased),
		volume("pv-2", "data-2", corev1.PersistentVolumeReclaimRetain, corev1.VolumeFailed),
		&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: "seatrial-r1-6"}},
	)
	after, err := apileaks.Look(t.Context(), kubefake.NewClientset(all...), []string{"a", "b"})
	if err != nil {
		t.Fatal(err)
	}
	by := func(step int, class, name, is string) history.Thing {
		return history.Thing{Class: class, Name: name, Is: is, Run: "r1", Step: step}
	}
	want := []history.Thing{
		{Class: history.ThingNode, Name: "a", Is: "not Ready"},
		{Class: history.ThingCordon, Name: "of node a", Run: "r1", Step: 3},
		by(3, history.ThingTaint, "of node a", "node.kubernetes.io/unschedulable:NoSchedule"),
		by(4, history.ThingTaint, "of node a", "node.kubernetes.io/out-of-service=v:NoExecute"),
		{Class: history.ThingLabel, Name: "mine of node a", Is: "x"},
		by(3, history.ThingAnnotation, "seatrial/cordon of node a", "seatrial-r1-3"),
		by(4, history.ThingAnnotation, "seatrial/out-of-service of node a", "seatrial-r1-4"),
		{Class: history.ThingNode, Name: "b", Is: "not registered"},
		{Class: history.ThingFinalizer, Name: "seatrial/seatrial-r1-5 on node a"},
		{Class: history.ThingFinalizer, Name: "example.org/other on node a"},
		{Class: history.ThingQuota, Name: "trial/seatrial-r1-6", Run: "r1", Step: 6},
		{Class: history.ThingAttachment, Name: "of pv-0 to node b", Is: "there is no such node"},
		{Class: history.ThingAttachment, Name: "of pv-kept to node a", Is: "no pod there needs it"},
		{Class: history.ThingVolume, Name: "pv-1", Is: "Released"},
		{Class: history.ThingVolume, Name: "pv-2", Is: "Failed"},
	}
	if d := cmp.Diff(want, history.Left(before, after)); d != "" {
		t.Errorf("left (-want +got):\n%s", d)
	}
}

func TestAnAPIThatDoesNotAnswerIsAnError(t *testing.T) {
	for _, resource := range []string{
		"nodes", "pods", "persistentvolumeclaims", "persistentvolumes", "volumeattachments", "resourcequotas",
		"statefulsets",
	} {
		kube := kubefake.NewClientset()
		down := errors.New("connection refused")
		kube.PrependReactor("list", resource, func(k8stesting.Action) (bool, runtime.Object, error) {
			return true, nil, down
		})
		if _, err := apileaks.Look(t.Context(), kube, nil); !errors.Is(err, down) {
			t.Errorf("%s: got %v", resource, err)
		}
	}
}
