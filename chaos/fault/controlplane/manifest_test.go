package controlplane

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestWithFlagChangesNothingElse edits kubeadm's manifest of a kind node of Kubernetes v1.37.0.
func TestWithFlagChangesNothingElse(t *testing.T) {
	before, err := os.ReadFile("testdata/kube-controller-manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	after, err := withFlag(before)
	if err != nil {
		t.Fatal(err)
	}
	var want, got corev1.Pod
	if err := yaml.UnmarshalStrict(before, &want); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(after, &got); err != nil {
		t.Fatal(err)
	}
	c := &want.Spec.Containers[0]
	c.Command = append(c.Command, "--disable-force-detach-on-timeout=true")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("manifest (-want +got):\n%s", d)
	}
	if _, err := withFlag(after); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("again: got %v", err)
	}
}

func TestWithFlag(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\nspec:\n  containers:\n  - name: kube-controller-manager\n"
	for _, tc := range []struct {
		name, manifest string
		command, args  []string
		fail           string
	}{
		{"command", head + "    command: [a, --b=c]\n", []string{"a", "--b=c", flagSet}, nil, ""},
		{"args", head + "    command: [a]\n    args: [--b]\n", []string{"a"}, []string{"--b", flagSet}, ""},
		{"neither", head, nil, []string{flagSet}, ""},
		{"off before", head + "    command: [a, " + flag + "=false, --b]\n", []string{"a", "--b", flagSet}, nil, ""},
		{"on before", head + "    args: [" + flag + "]\n", nil, nil, "already"},
		{"another container", strings.ReplaceAll(head, "manager", "watcher"), nil, nil, "no container"},
		{"empty", "", nil, nil, "no container"},
		{"unknown field", head + "    newer: 1\n", nil, nil, `unknown field "newer"`},
		{"torn", head + "    command: [a", nil, nil, "read manifest"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			after, err := withFlag([]byte(tc.manifest))
			if tc.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fail) {
					t.Errorf("got %v, want %q", err, tc.fail)
				}
				return
			}
			var pod corev1.Pod
			if err := yaml.UnmarshalStrict(after, &pod); err != nil {
				t.Fatal(err)
			}
			c := pod.Spec.Containers[0]
			if d := cmp.Diff([][]string{tc.command, tc.args}, [][]string{c.Command, c.Args}); d != "" {
				t.Errorf("command and args (-want +got):\n%s", d)
			}
		})
	}
}

// TestAPodThatRunsNothingHasTheNameOfTheOther makes one of a manifest: the kubelet must take it for the same pod,
// changed, and find nothing to run.
func TestAPodThatRunsNothingHasTheNameOfTheOther(t *testing.T) {
	before, err := os.ReadFile("testdata/kube-controller-manager.yaml")
	if err != nil {
		t.Fatal(err)
	}
	after, err := pausePod(before)
	if err != nil {
		t.Fatal(err)
	}
	var was, is corev1.Pod
	if err := errors.Join(yaml.UnmarshalStrict(before, &was), yaml.UnmarshalStrict(after, &is)); err != nil {
		t.Fatal(err)
	}
	if is.Name != was.Name || is.Namespace != was.Namespace || is.Kind != "Pod" || is.APIVersion != "v1" {
		t.Errorf("it is %s %s %s/%s", is.APIVersion, is.Kind, is.Namespace, is.Name)
	}
	if len(is.Spec.Containers) == 0 {
		t.Error("the kubelet refuses a pod without containers")
	}
	for _, c := range is.Spec.Containers {
		if c.ImagePullPolicy != corev1.PullNever || c.Image == was.Spec.Containers[0].Image {
			t.Errorf("it can run %q", c.Image)
		}
	}
	for _, bad := range []string{"", "kind: Pod\n", "\t"} {
		if _, err := pausePod([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}
