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
	"github.com/seatrial/seatrial/e2e/rundir"
)

// TestObjectsAreKept keeps the pods of every namespace, and the claims of the trial's own.
func TestObjectsAreKept(t *testing.T) {
	c, _ := calm(t, plan.Plan{})
	in := func(namespace string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "it-of-" + namespace}
	}
	c.dynamic = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(kubescheme.Scheme,
		map[schema.GroupVersionResource]string{},
		&corev1.Pod{ObjectMeta: in("kube-system")}, &corev1.Pod{ObjectMeta: in(c.namespace())},
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
		for i, namespace := range []string{"kube-system", c.namespace()} {
			if got := strings.Contains(string(text), "name: it-of-"+namespace); got != want[i] {
				t.Errorf("%s of namespace %s are kept: %t, want %t:\n%s", name, namespace, got, want[i], text)
			}
		}
	}
	c.close(t)
}
