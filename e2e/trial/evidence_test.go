package trial

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubescheme "k8s.io/client-go/kubernetes/scheme"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// TestObjectsAreKept keeps the pods of every namespace, but for those on nodes that are not of the trial, which are not
// kept either, and the claims of the trial's own.
func TestObjectsAreKept(t *testing.T) {
	c, _ := calm(t, plan.Plan{})
	in := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "it-of-" + namespace}
	}
	elsewhere := metav1.ObjectMeta{Namespace: "kube-system", Name: "it-is-elsewhere"}
	c.nodes = []clusters.Node{quietNode{name: "worker"}}
	c.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(kubescheme.Scheme,
		map[schema.GroupVersionResource]string{},
		&corev1.Pod{ObjectMeta: in("kube-system")}, &corev1.Pod{ObjectMeta: in(c.namespace())},
		&corev1.Pod{ObjectMeta: elsewhere, Spec: corev1.PodSpec{NodeName: "elsewhere"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "it-is-elsewhere"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}},
		&corev1.PersistentVolumeClaim{ObjectMeta: in("kube-system")},
		&corev1.PersistentVolumeClaim{ObjectMeta: in(c.namespace())},
	)
	if err := c.keepObjects(t.Context()); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][2]bool{
		"pods": {true, true}, "persistentvolumeclaims": {false, true}, "nodes": {}, "events": {}, "statefulsets": {},
		"controllerrevisions": {}, "persistentvolumes": {}, "volumeattachments": {},
	} {
		text, err := c.dir.ReadFile(filepath.Join(rundir.ObjectsDir, name+".yaml"))
		if err != nil {
			t.Error(err)
		}
		seen := func(what string) bool { return strings.Contains(string(text), "name: "+what) }
		if seen("it-is-elsewhere") || seen("worker") != (name == "nodes") {
			t.Errorf("%s:\n%s", name, text)
		}
		for i, namespace := range []string{"kube-system", c.namespace()} {
			if got := strings.Contains(string(text), "name: it-of-"+namespace); got != want[i] {
				t.Errorf("%s of namespace %s are kept: %t, want %t:\n%s", name, namespace, got, want[i], text)
			}
		}
	}
	c.close(t)
}
