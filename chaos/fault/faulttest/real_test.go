package faulttest_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/object"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/kind"
)

// TestObjectFaultsOnARealCluster runs all checks of the faults of API objects on a cluster of its own; they need no
// agent on the nodes. It needs an engine, and in SEATRIAL_NODE_IMAGE the reference of a node image that the engine has.
func TestObjectFaultsOnARealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: faults of API objects on a real kind cluster; it needs an engine and a node image: make e2e")
	}
	ctx := t.Context()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cluster := realCluster(t, log)
	kubeconfig, err := cluster.Kubeconfig(ctx)
	if err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	defer client.CloseIdleConnections()
	kube, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		t.Fatal(err)
	}
	err = faulttest.OnCluster(ctx, []fault.Definition{
		object.PodDelete(), object.PodForceDelete(), object.Cordon(), object.OutOfService(), object.NodeDelete(),
	}, faulttest.Target{Cluster: cluster, Kube: kube, RunID: "rfaulttest", Clock: bootclock.Now, Log: log})
	if err != nil {
		t.Error(err)
	}
}

func realCluster(t *testing.T, log *slog.Logger) clusters.Cluster {
	t.Helper()
	image, engine := os.Getenv("SEATRIAL_NODE_IMAGE"), os.Getenv("SEATRIAL_ENGINE")
	if image == "" || engine == "" {
		t.Fatal("SEATRIAL_NODE_IMAGE or SEATRIAL_ENGINE is empty; `seatrial setup -o env` prints both")
	}
	p, err := kind.New(kind.Options{Engine: engine, KubeconfigPath: filepath.Join(t.TempDir(), "kubeconfig"), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	tag := image[strings.LastIndexByte(image, ':')+1:]
	version, _, _ := strings.Cut(tag, "-")
	spec := clusters.Spec{
		Name: "seatrial-dev-faulttest", Workers: 2, NodeImage: image, KubernetesVersion: version, RunID: "rfaulttest",
	}
	ctx := t.Context()
	if err := p.Delete(ctx, spec.Name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		gone, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
		defer cancel()
		if err := p.Delete(gone, spec.Name); err != nil {
			t.Error(err)
		}
	})
	c, err := p.Create(ctx, spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
