package twin

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/e2e/certify/audit"
)

var update = flag.Bool("update", false, "write the golden files anew")

func original(t *testing.T) Original {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "original.yaml"))
	must(t, err)
	var o Original
	must(t, yaml.UnmarshalStrict(data, &o))
	return o
}

func pinned() []string { return []string{"v1.37.2", "v1.37.0", "v1.36.3", "v1.36.0", "v1.35.1"} }

// TestMakeGolden: what is copied and what is not. Nothing of the original that may be secret is in the twin.
func TestMakeGolden(t *testing.T) {
	made, err := Make(original(t), Choice{Pinned: pinned(), Workers: 3})
	must(t, err)
	got, err := yaml.Marshal(made)
	must(t, err)
	if strings.Contains(string(got), "hidden") {
		t.Error("the twin has what may be secret")
	}
	path := filepath.Join("testdata", "twin.yaml")
	if *update {
		must(t, os.WriteFile(path, got, 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMakeChoice(t *testing.T) {
	for _, c := range []struct {
		version string
		choice  Choice
		want    string // The version, or a part of the error.
	}{
		{"v1.36.3", Choice{Workers: 1}, "v1.36.3"},
		{"v1.36.1", Choice{Workers: 1}, "v1.36.0"},
		{"v1.36.99+k3s1", Choice{Workers: 1}, "v1.36.3"},
		{"v1.36.3", Choice{Workers: 1, Version: "v1.37.0"}, "v1.37.0"},
		{"v1.37.0", Choice{Workers: 20}, "v1.37.0"},
		{"v1.38.0", Choice{Workers: 1}, "no version of v1.38 is pinned"},
		{"main", Choice{Workers: 1}, `"main", which is none`},
		{"v1.36.3", Choice{}, "0 workers: give 1 to 20"},
		{"v1.36.3", Choice{Workers: 21}, "21 workers: give 1 to 20"},
		{"v1.36.3", Choice{Workers: 1, Namespaces: []string{"shop", "none"}}, `namespace "none" has no StatefulSet`},
	} {
		o := original(t)
		o.Version, c.choice.Pinned = c.version, pinned()
		made, err := Make(o, c.choice)
		if err != nil {
			made.Version = err.Error()
		}
		if !strings.Contains(made.Version, c.want) {
			t.Errorf("%s, %+v: %q, want %q", c.version, c.choice, made.Version, c.want)
		}
	}
}

// TestMakeNamespaces copies what is named alone, also of Kubernetes itself.
func TestMakeNamespaces(t *testing.T) {
	made, err := Make(original(t), Choice{Pinned: pinned(), Workers: 3, Namespaces: []string{"kube-system"}})
	must(t, err)
	if len(made.StatefulSets) != 1 || made.StatefulSets[0].Name != "own" || len(made.Budgets) > 0 ||
		made.Driver != nil {
		t.Errorf("%+v", made)
	}
}

// TestMakeOfNothing: nothing could be read but the version.
func TestMakeOfNothing(t *testing.T) {
	o := Original{Cluster: audit.Cluster{Version: "v1.36.3", Missing: map[audit.Part]string{audit.StatefulSets: "no"}}}
	made, err := Make(o, Choice{Pinned: pinned(), Workers: 1})
	must(t, err)
	want := []Left{
		{"statefulsets", "it could not be read: no"},
		{"flags of kube-apiserver", "it has no pod in kube-system"},
		{"flags of kube-controller-manager", "it has no pod in kube-system"},
		{"flags of kube-scheduler", "it has no pod in kube-system"},
		{"settings of kubelets", "the configuration of no kubelet could be read"},
	}
	if diff := cmp.Diff(want, made.Left[:len(want)]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDifferences(t *testing.T) {
	api := func(flags ...string) audit.Cluster {
		return audit.Cluster{Pods: []corev1.Pod{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system",
				Labels: map[string]string{"component": "kube-apiserver"}},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Command: flags}}},
		}}}
	}
	there := Original{Cluster: api("--etcd-servers=a", "--audit-log-path=/var/log", "--secure-port=6443"),
		Kubelets: map[string]map[string]any{"n": {"maxPods": 250, "staticPodPath": "", "providerID": "gce://1"}}}
	here := Original{Cluster: api("--etcd-servers=b", "--secure-port=6443"),
		Kubelets: map[string]map[string]any{"m": {"maxPods": 110, "providerID": "kind://1"}}}
	there.Gates, here.Gates = map[string]bool{"A": true, "B": true, "Old": true}, map[string]bool{"A": true, "B": false}
	there.Nodes, here.Nodes = []corev1.Node{named("n")}, []corev1.Node{named("m")}
	want := []Left{
		{"kube-apiserver: --audit-log-path=/var/log", ownPlace},
		{"kube-apiserver: --etcd-servers", "the twin has other values: " + ownPlace},
		{"feature gate B of the API server: true there, false in the twin",
			"no visible flag sets it there, or the versions differ"},
		{"kubelet: maxPods: 250 there, 110 in the twin", ownPlace},
	}
	if diff := cmp.Diff(want, Differences(there, here)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if same := Differences(there, there); len(same) > 0 {
		t.Errorf("a cluster differs from itself: %v", same)
	}
}

func named(name string) corev1.Node { return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
