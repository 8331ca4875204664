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
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "etcd-client"), "./client")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fill := strings.NewReplacer("bin/etcd-client", filepath.Join(dir, "etcd-client"), "CLASS", class,
		"IMAGE", "registry.k8s.io/etcd:"+etcdImage(t))
	for _, name := range []string{"etcd.yaml", "workload-manifests.yaml"} {
		text, err := os.ReadFile(name)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(fill.Replace(string(text))), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := trialtest.Open(t.Context(), trialtest.Options{
		Scenarios: []string{"smoke"}, Workload: filepath.Join(dir, "workload-manifests.yaml"),
		Cluster: os.Getenv("SEATRIAL_CLUSTER"), Runs: filepath.Join(dir, "runs"), Progress: t.Output(),
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
	result, err := c.Run(t.Context(), "smoke")
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
