// Package kindtest gives tests a real kind cluster.
package kindtest

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/kind"
)

// Shared is the name of a cluster that the tests of several packages use one after the other: $SEATRIAL_TEST_CLUSTER,
// or name. The first test makes it; who set the variable deletes it.
func Shared(name string) string { return cmp.Or(os.Getenv("SEATRIAL_TEST_CLUSTER"), name) }

// Cluster returns a cluster of one control plane and so many workers, and the path of its kubeconfig. SEATRIAL_ENGINE
// and SEATRIAL_NODE_IMAGE name the engine and its node image; it fails the test if one is empty. The cluster is made
// anew and deleted with the test; SEATRIAL_KEEP=1, or its being shared, keeps it and takes one that was kept.
func Cluster(t testing.TB, log *slog.Logger, name string, workers int) (clusters.Cluster, string) {
	t.Helper()
	return Of(t, log, clusters.Spec{Name: name, Workers: workers})
}

// Of is Cluster for a spec, to which it adds image, version and run.
func Of(t testing.TB, log *slog.Logger, spec clusters.Spec) (clusters.Cluster, string) {
	t.Helper()
	name := spec.Name
	image, engine := os.Getenv("SEATRIAL_NODE_IMAGE"), os.Getenv("SEATRIAL_ENGINE")
	if image == "" || engine == "" {
		t.Fatal("SEATRIAL_NODE_IMAGE or SEATRIAL_ENGINE is empty; `seatrial setup -o env` prints both")
	}
	dir := filepath.Join(os.TempDir(), name) // The provider keeps what nodes share beside its kubeconfig.
	kubeconfig := filepath.Join(dir, "kubeconfig")
	must(t, os.MkdirAll(dir, 0o700))
	p, err := kind.New(kind.Options{Engine: engine, KubeconfigPath: kubeconfig, Log: log})
	must(t, err)
	if os.Getenv("SEATRIAL_KEEP") == "1" || name == os.Getenv("SEATRIAL_TEST_CLUSTER") {
		c, err := p.Open(t.Context(), name)
		if !errors.Is(err, clusters.ErrNotFound) {
			must(t, err)
			return c, kubeconfig
		}
	} else {
		must(t, p.Delete(t.Context(), name))
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
			defer cancel()
			if err := errors.Join(p.Delete(ctx, name), os.RemoveAll(dir)); err != nil {
				t.Error(err)
			}
		})
	}
	spec.NodeImage, spec.RunID = image, strings.ReplaceAll(name, "-", "")
	spec.KubernetesVersion, _, _ = strings.Cut(image[strings.LastIndexByte(image, ':')+1:], "-")
	c, err := p.Create(t.Context(), spec)
	must(t, err)
	return c, kubeconfig
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
