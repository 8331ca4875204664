package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/scheme"
	kubetesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/e2e/explain"
)

const recordedFail = "../../fixtures/recorded/k8s-61832-5-fail"

func TestExplainBadArguments(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"explain"}, "RUNDIR is missing"},
		{[]string{"explain", "/no/such/run"}, "/no/such/run"},
		{[]string{"explain", recordedFail, "again"}, `"again" is one argument too many`},
		{[]string{"explain", recordedFail, "--at", "noon"}, `--at "noon"`},
		{[]string{"explain", recordedFail, "--at", "+9h"}, "give at most +"},
		{[]string{"explain", recordedFail, "-o", "toml"}, `--output is "toml": give text`},
		{[]string{"explain", recordedFail, "--bound", "0s"}, "--bound 0s"},
		{[]string{"explain", recordedFail, "--kubeconfig", "x"}, "give --statefulset"},
		{[]string{"explain", recordedFail, "--context", "x"}, "give --statefulset"},
		{[]string{"explain", recordedFail, "--statefulset", "a/b"}, "give one"},
		{[]string{"explain", "--statefulset", "mysql"}, "give NAMESPACE/NAME"},
		{[]string{"explain", "--statefulset", "a/b/c"}, "give NAMESPACE/NAME"},
		{[]string{"explain", "--statefulset", "a/b", "--at", "+3s"}, "--at is for a saved run"},
		{[]string{"explain", "--statefulset", "a/b", "--kubeconfig", "/no/such/file"}, "--kubeconfig"},
		{[]string{"explain", "--statfulset", "a/b"}, `did you mean "statefulset"?`},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			got := ask(t, tt.args...)
			if got.code != exitArguments || !strings.Contains(got.stderr, tt.want) || got.stdout != "" {
				t.Errorf("code %d, stderr %q, stdout %q; want %d and %q", got.code, got.stderr, got.stdout,
					exitArguments, tt.want)
			}
		})
	}
}

// TestExplainRun explains a real run: five pods of a Parallel StatefulSet wait for the volumes of a node that died.
func TestExplainRun(t *testing.T) {
	got := ask(t, "explain", recordedFail, "--at", "+200s")
	for _, want := range []string{"at +200.0 s: it waits", "pod mysql-0, not Ready, since +123.8 s",
		"still attached to node try-worker2",
		"The longest time in which nothing moved: +129.8 s to +498.8 s, 6 min 9 s",
	} {
		if got.code != exitPass || !strings.Contains(strings.Join(strings.Fields(got.stdout), " "), want) {
			t.Errorf("code %d, stderr %q: no %q in:\n%s", got.code, got.stderr, want, got.stdout)
		}
	}
	got = ask(t, "explain", recordedFail, "--at", "+200s", "-o", "json")
	var told explained
	if err := json.Unmarshal([]byte(got.stdout), &told); err != nil {
		t.Fatal(err)
	}
	if len(told.StatefulSets) != 1 || told.StatefulSets[0].Outlook != explain.Transient || told.Longest == nil ||
		told.Longest.Diagnosis.Causes[0].Evidence[0].Event == 0 {
		t.Errorf("%+v", told)
	}
	if got := ask(t, "explain", "../../fixtures/recorded/smoke-861908-pass"); got.code != exitPass ||
		!strings.Contains(got.stdout, "nothing is stuck") {
		t.Errorf("%+v", got)
	}
}

// stuckCluster has a StatefulSet the second pod of which cannot pull its image.
func stuckCluster(now time.Time) *fake.FakeDynamicClient {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "7",
			CreationTimestamp: metav1.NewTime(now.Add(-3 * time.Minute))}
	}
	replicas := int32(3)
	pod := func(name string, ready corev1.ConditionStatus, waiting *corev1.ContainerStateWaiting) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: meta(name), Spec: corev1.PodSpec{NodeName: "worker"}, Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready,
				LastTransitionTime: metav1.NewTime(now.Add(-2 * time.Minute))}},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "main",
				State: corev1.ContainerState{Waiting: waiting}}}}}
		p.Labels = map[string]string{"controller-revision-hash": "web-a"}
		return p
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker", ResourceVersion: "7"}, Status: corev1.NodeStatus{
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
	return fake.NewSimpleDynamicClient(scheme.Scheme,
		&appsv1.StatefulSet{ObjectMeta: meta("web"), Spec: appsv1.StatefulSetSpec{Replicas: &replicas},
			Status: appsv1.StatefulSetStatus{CurrentRevision: "web-a", UpdateRevision: "web-a"}},
		pod("web-0", corev1.ConditionTrue, nil),
		pod("web-1", corev1.ConditionFalse, &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}), node)
}

func TestExplainLive(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	kube := stuckCluster(now)
	kube.PrependReactor("list", "volumeattachments", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("not allowed")
	})
	w, err := askCluster(t.Context(), kube, "shop", "web", now)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := writeExplained(&b, explained{StatefulSets: []explain.Diagnosis{
		explain.Now(w, now, "shop/web", time.Minute)}}, "text"); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"StatefulSet shop/web at 2026-11-21 12:00:00 UTC: it is STUCK", "to create web-2: 3 replicas are wanted",
		"pod web-1, not Ready, since 2026-11-21 11:58:00 UTC (2 min)", "container main waits: ImagePullBackOff",
		"[pods shop/web-1 status.containerStatuses[main].state.waiting]", "outlook permanent",
	} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
}

func TestExplainLiveWithoutTheSet(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	_, err := askCluster(t.Context(), fake.NewSimpleDynamicClient(scheme.Scheme), "shop", "web", now)
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != exitArguments || !strings.Contains(err.Error(), `"web"`) {
		t.Errorf("error %v", err)
	}
	kube := stuckCluster(now)
	kube.PrependReactor("list", "pods", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, errors.New("not allowed")
	})
	if _, err := askCluster(t.Context(), kube, "shop", "web", now); err == nil ||
		!strings.Contains(err.Error(), "list pods") {
		t.Errorf("error %v", err)
	}
}
