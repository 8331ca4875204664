package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/e2e/explain"
)

// TestRealExplain has StatefulSets of a real cluster stand still, each for another reason, and asks why meanwhile.
func TestRealExplain(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") == "" {
		t.Skip("NOT RUN: asks a real cluster; set SEATRIAL_E2E=1")
	}
	_, kubeconfig := kindtest.Cluster(t, slog.New(slog.NewTextHandler(t.Output(), nil)),
		kindtest.Shared("seatrial-dev-explain"), 2)
	config, err := clientConfig(kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	const namespace, every, bound = "stalls", 500 * time.Millisecond, 90 * time.Second
	ctx, create, no := t.Context(), metav1.CreateOptions{}, int64(0)
	image := pauseImage(t, kube)
	if _, err := kube.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: namespace}}, create); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // A later test has the cluster.
		ctx := context.WithoutCancel(t.Context())
		pods, orphan := kube.CoreV1().Pods(namespace), metav1.DeletePropagationOrphan
		if err := kube.AppsV1().StatefulSets(namespace).DeleteCollection(ctx, metav1.DeleteOptions{
			PropagationPolicy: &orphan}, metav1.ListOptions{}); err != nil { // They would make their pods again.
			t.Error(err)
		}
		_, err := pods.Patch(ctx, "held-0", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`),
			metav1.PatchOptions{})
		if err != nil {
			t.Error(err)
		}
		if err := pods.DeleteCollection(ctx, metav1.DeleteOptions{GracePeriodSeconds: &no},
			metav1.ListOptions{}); err != nil {
			t.Error(err)
		}
		if err := kube.CoreV1().Namespaces().Delete(ctx, namespace, metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	remove := func(pod string) {
		t.Helper()
		if err := kube.CoreV1().Pods(namespace).Delete(ctx, pod, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	stalls := []struct {
		name    string
		change  func(*appsv1.StatefulSetSpec)
		begin   func() // Once the first pod is Ready; nil for a set that never gets so far.
		cause   string
		outlook explain.Outlook
	}{
		{"unpulled", func(s *appsv1.StatefulSetSpec) {
			s.Template.Spec.Containers[0].Image = "localhost/no-such-image:1"
		}, nil, "container main waits: ErrImageNeverPull", explain.Permanent},
		{"unbound", func(s *appsv1.StatefulSetSpec) {
			class := "no-such-class"
			s.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
					AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
					Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{
						corev1.ResourceStorage: resource.MustParse("1Gi")}}}}}
		}, nil, "PVC data-unbound-0 is not bound to a volume", explain.NotKnown},
		{"gated", func(s *appsv1.StatefulSetSpec) {
			s.Template.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
		}, nil, "it has scheduling gates", explain.Permanent},
		{"refused", func(s *appsv1.StatefulSetSpec) {
			s.Template.Spec.PriorityClassName = "system-node-critical"
		}, func() {
			_, err := kube.CoreV1().ResourceQuotas(namespace).Create(ctx, &corev1.ResourceQuota{
				ObjectMeta: metav1.ObjectMeta{Name: "none"},
				Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
					Scopes: []corev1.ResourceQuotaScope{corev1.ResourceQuotaScopePriorityClass},
				}}, create)
			if err != nil {
				t.Fatal(err)
			}
			remove("refused-0")
		}, "exceeded quota: none", explain.Permanent},
		{"held", func(s *appsv1.StatefulSetSpec) {
			s.Template.Finalizers = []string{"example.com/hold"}
		}, func() { remove("held-0") }, "it is held by example.com/hold", explain.Permanent},
		{"slow", func(s *appsv1.StatefulSetSpec) {
			long := int64(600)
			s.Template.Spec.TerminationGracePeriodSeconds = &long
			s.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
				PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 500}}}
		}, func() { remove("slow-0") }, "with a grace period of 10 min", explain.Transient},
	}
	for _, s := range stalls {
		labels, one := map[string]string{"app": s.name}, int32(1)
		set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: s.name}, Spec: appsv1.StatefulSetSpec{
			Replicas: &one, ServiceName: s.name, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: &no, Containers: []corev1.Container{{Name: "main", Image: image,
					ImagePullPolicy: corev1.PullNever}}}}}}
		s.change(&set.Spec)
		if _, err := kube.AppsV1().StatefulSets(namespace).Create(ctx, set, create); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range stalls {
		if s.begin != nil {
			what := s.name + "-0 to be Ready"
			err := await.Until(ctx, what, every, bound, func(ctx context.Context) (bool, string, error) {
				set, err := kube.AppsV1().StatefulSets(namespace).Get(ctx, s.name, metav1.GetOptions{})
				if err != nil {
					return false, "", err
				}
				return set.Status.ReadyReplicas == 1, "not Ready", nil
			})
			if err != nil {
				t.Fatal(err)
			}
			s.begin()
		}
	}
	for _, s := range stalls {
		t.Run(s.name, func(t *testing.T) {
			err := await.Until(ctx, s.cause, every, bound, func(context.Context) (bool, string, error) {
				got := ask(t, "explain", "--kubeconfig", kubeconfig, "--statefulset", namespace+"/"+s.name,
					"-o", "json")
				var found explained
				if err := json.Unmarshal([]byte(got.stdout), &found); err != nil || len(found.StatefulSets) != 1 {
					return false, got.stdout + got.stderr, err
				}
				d := found.StatefulSets[0]
				return d.Outlook == s.outlook && slices.ContainsFunc(d.Causes, func(c explain.Cause) bool {
					return strings.Contains(c.Sentence, s.cause)
				}), got.stdout, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// pauseImage returns an image that nodes have and that does nothing.
func pauseImage(t *testing.T, kube kubernetes.Interface) string {
	t.Helper()
	nodes, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range nodes.Items[len(nodes.Items)-1].Status.Images {
		for _, name := range i.Names {
			if strings.Contains(name, "/pause:") {
				return name
			}
		}
	}
	t.Fatalf("no node has a pause image: %v", nodes.Items[0].Status.Images)
	return ""
}
