package object

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/undo"
)

// TestAQuotaIsOfThePodsThatGoOn has pods of Jobs in the namespace, which the quota controller does not count.
func TestAQuotaIsOfThePodsThatGoOn(t *testing.T) {
	for _, tc := range []struct {
		name   string
		phases []corev1.PodPhase
		want   string // The limit, or the error.
	}{
		{"all go on", []corev1.PodPhase{corev1.PodRunning, corev1.PodPending}, "1"},
		{"some have ended", []corev1.PodPhase{
			corev1.PodRunning, corev1.PodSucceeded, corev1.PodRunning, corev1.PodFailed,
		}, "1"},
		{"all have ended", []corev1.PodPhase{corev1.PodSucceeded}, "all of its 1 pods have ended"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			kube := fake.NewClientset()
			for i, phase := range tc.phases {
				pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "trial", Name: string(rune('a' + i))},
					Status: corev1.PodStatus{Phase: phase}}
				if err := kube.Tracker().Add(pod); err != nil {
					t.Fatal(err)
				}
			}
			env := fault.Env{Kube: kube, Namespace: "trial", Owner: undo.Owner{Run: "r1", Step: 1}}
			q := &podQuota{fault.Marks{Env: env}}
			err := q.Inject(t.Context())
			if err != nil {
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				return
			}
			made, err := q.look(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got := made.Spec.Hard[corev1.ResourcePods]; got.String() != tc.want {
				t.Errorf("the limit is %s, want %s", got.String(), tc.want)
			}
		})
	}
}
