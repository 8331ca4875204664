// Package etcd_test runs the example on a kind cluster, as README.md says:
//
//	SEATRIAL_LONG=1 go test -timeout 1h ./examples/etcd
package etcd_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/trialtest"
	"github.com/seatrial/seatrial/examples/hostpath"
)

const class = "example"

func TestTrial(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		t.Skip("NOT RUN: needs a cluster: make long")
	}
	client := filepath.Join(t.TempDir(), "etcd-client")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", client, "./client")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, tc := range []struct{ scenario, workload, manifests string }{
		{"smoke", "workload-manifests.yaml", "etcd.yaml"},
		{"topology-group-multi-member-killed", "workload-group.yaml", "etcd-group.yaml"},
	} {
		t.Run(tc.scenario, func(t *testing.T) {
			dir := t.TempDir()
			fill := strings.NewReplacer("bin/etcd-client", client, "CLASS", class,
				"IMAGE", "registry.k8s.io/etcd:"+etcdImage(t))
			for _, name := range []string{tc.manifests, tc.workload} {
				text, err := os.ReadFile(name)
				filled := []byte(fill.Replace(string(text)))
				err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), filled, 0o600))
				if err != nil {
					t.Fatal(err)
				}
			}
			trial(t, tc.scenario, filepath.Join(dir, tc.workload), filepath.Join(dir, "runs"))
		})
	}
}

// trial runs a scenario on a cluster with volumes for it.
func trial(t *testing.T, scenario, workload, runs string) {
	t.Helper()
	c, err := trialtest.Open(t.Context(), trialtest.Options{
		Scenarios: []string{scenario}, Workload: workload,
		Cluster: os.Getenv("SEATRIAL_CLUSTER"), Runs: runs, Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	config, err := c.ClientConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := hostpath.Make(t.Context(), config, class, 3, "64Mi"); err != nil {
		t.Fatal(err)
	}
	result, err := c.Run(t.Context(), scenario)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result.Text)
	if err := result.Err(); err != nil {
		t.Error(err)
	}
}

// etcdImage returns the tag of the etcd image that every node has.
func etcdImage(t *testing.T) string {
	t.Helper()
	for _, r := range offline.Releases() {
		if r.Kubernetes == offline.DefaultKubernetesVersion {
			return r.Etcd
		}
	}
	t.Fatal("the default version is not pinned")
	return ""
}
