package kind

import (
	"bytes"
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kind/pkg/apis/config/v1alpha4"

	"github.com/seatrial/seatrial/clusters"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		must(t, os.WriteFile(path, []byte(got), 0o600))
	}
	want, err := os.ReadFile(path)
	must(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

func TestConfigGolden(t *testing.T) {
	p, _ := aProvider(t)
	p.shared.root = "/state/shared"
	render := func(cfg *v1alpha4.Cluster) string {
		text, err := json.MarshalIndent(cfg, "", "  ")
		must(t, err)
		return string(text) + "\n"
	}
	p.lacksResource = true
	cfg, err := p.config(t.Context(), aSpec()) // The fake engine is on cgroup v1.
	must(t, err)
	golden(t, "v1.37-cgroup1-restricted.json", render(cfg))

	built := aSpec()
	built.NodeImage = "localhost/seatrial/node:v1.37.0-0123456789ab" // It comes with the setting.
	cfg, err = p.config(t.Context(), built)
	must(t, err)
	golden(t, "v1.37-cgroup1-restricted-built.json", render(cfg))

	p.lacksResource = false
	old := aSpec()
	old.KubernetesVersion = "v1.34.2" // Its kubelet takes cgroup v1, and those that it is upgraded to do not.
	cfg, err = p.config(t.Context(), old)
	must(t, err)
	golden(t, "v1.34-cgroup1.json", render(cfg))

	twin := aSpec()
	twin.Flags = map[string]map[string]string{
		"kube-apiserver": {"feature-gates": "MaxUnavailableStatefulSet=false",
			"runtime-config": "api/beta=true"},
		"kube-controller-manager": {"disable-force-detach-on-timeout": "true"},
	}
	twin.Kubelet = map[string]any{"maxPods": 50, "featureGates": map[string]bool{"MemoryQoS": false}}
	cfg, err = p.config(t.Context(), twin)
	must(t, err)
	golden(t, "v1.37-cgroup1-flags.json", render(cfg))
	twin.Flags = map[string]map[string]string{"etcd": {"quota-backend-bytes": "1"}}
	if _, err := p.config(t.Context(), twin); err == nil || !strings.Contains(err.Error(), `component "etcd"`) {
		t.Errorf("flags of etcd: %v", err)
	}
}

func TestValidate(t *testing.T) {
	for name, change := range map[string]func(*clusters.Spec){
		"Sea Trial":              func(s *clusters.Spec) { s.Name = "Sea Trial" },
		"xxx\" is no name":       func(s *clusters.Spec) { s.Name = strings.Repeat("x", 51) },
		"Spec.Workers is -1":     func(s *clusters.Spec) { s.Workers = -1 },
		"Spec.Workers is 21":     func(s *clusters.Spec) { s.Workers = 21 },
		"Spec.NodeImage":         func(s *clusters.Spec) { s.NodeImage = "" },
		"Spec.RunID \"\"":        func(s *clusters.Spec) { s.RunID = "" },
		"Spec.RunID \"a:b\"":     func(s *clusters.Spec) { s.RunID = "a:b" },
		"Spec.KubernetesVersion": func(s *clusters.Spec) { s.KubernetesVersion = "latest" },
	} {
		spec := aSpec()
		change(&spec)
		if err := validate(spec); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("validate = %v, want it to name %s", err, name)
		}
	}
	must(t, validate(aSpec()))
}

// TestLacksSysResource holds the kernel's answer against the bounding set in /proc.
func TestLacksSysResource(t *testing.T) {
	status, err := os.ReadFile("/proc/self/status")
	must(t, err)
	_, rest, _ := strings.Cut(string(status), "CapBnd:")
	set, err := strconv.ParseUint(strings.Fields(rest)[0], 16, 64)
	must(t, err)
	if got, err := lacksSysResource(); err != nil || got != (set&(1<<24) == 0) {
		t.Errorf("lacksSysResource() = %v, %v with the bounding set %x", got, err, set)
	}
}

func TestKindLogGolden(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}})
	l := kindLogger{log: slog.New(handler)}
	l.V(0).Infof("Creating cluster %q ...\n", "sea")
	l.V(0).Infof(" • %s  ...\n", "Preparing nodes 📦 📦 ")
	l.V(0).Infof(" ✓ %s\n", "Preparing nodes 📦 📦 ")
	l.V(0).Infof(" ✗ %s\n", "Starting control-plane 🕹️")
	l.V(0).Info("")
	l.V(2).Info("Using the following kubeadm config")
	l.Warnf("cgroup v%d is deprecated", 1)
	l.Error("failed to update kubeconfig")
	golden(t, "kind.log", out.String())
}

func TestFindEngine(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"docker", "podman", "nerdctl", "finch", "other"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), 0o700))
	}
	t.Setenv("PATH", dir)
	for name, want := range map[string]string{
		"docker": "docker", "podman": "podman", "nerdctl": "nerdctl", "finch": "nerdctl", dir + "/docker": "docker",
	} {
		if e, err := findEngine(name); err != nil || e.name != want {
			t.Errorf("findEngine(%q) = %v, %v, want %q", name, e, err, want)
		}
	}
	elsewhere := filepath.Join(t.TempDir(), "docker")
	must(t, os.WriteFile(elsewhere, []byte("#!/bin/sh\n"), 0o700))
	for name, want := range map[string]string{
		"other": "want docker, podman or nerdctl", "absent": "find container engine", elsewhere: "put it first in PATH",
	} {
		if _, err := findEngine(name); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("findEngine(%q) = %v, want %q", name, err, want)
		}
	}
}
