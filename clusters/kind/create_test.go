package kind

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/kind/pkg/cluster"

	"github.com/seatrial/seatrial/clusters"
)

// fakeKind makes and deletes containers in the fake engine.
type fakeKind struct {
	dir    string
	create func(k *fakeKind) error
}

func (k *fakeKind) Create(string, ...cluster.CreateOption) error { return k.create(k) }

func (k *fakeKind) Delete(name, _ string) error {
	var left []container
	for _, c := range load(k.dir) {
		if c.Config.Labels[clusterLabel] != name {
			left = append(left, c)
		}
	}
	store(k.dir, left)
	return nil
}

func (k *fakeKind) KubeConfig(string, bool) (string, error) { return "kind: Config", nil }

func (k *fakeKind) add(list ...container) { store(k.dir, append(load(k.dir), list...)) }

func aProvider(t *testing.T, list ...container) (*Provider, *fakeKind) {
	t.Helper()
	e := fakeEngine(t, list...)
	k := &fakeKind{dir: filepath.Dir(e.path), create: func(*fakeKind) error { return nil }}
	state := filepath.Join(t.TempDir(), "state")
	return &Provider{
		engine: e, kind: k, kubeconfig: filepath.Join(state, "kubeconfig"),
		log: slog.New(slog.DiscardHandler), turn: semaphore.NewWeighted(1),
		loops:  loopDevices{sys: t.TempDir()},
		shared: sharedDirs{root: filepath.Join(state, sharedName)},
		ready:  func(context.Context, *Cluster, int) error { return nil },
	}, k
}

func aSpec() clusters.Spec {
	return clusters.Spec{Name: "sea", Workers: 1, NodeImage: "node:1", KubernetesVersion: "v1.37.0", RunID: "r1"}
}

func seaNodes() []container {
	return []container{
		made("sea-worker", "sea", "worker", "r1", "running"),
		made("sea-control-plane", "sea", "control-plane", "r1", "running"),
	}
}

func left(t *testing.T, p *Provider) []clusters.Owned {
	t.Helper()
	list, err := p.List(t.Context())
	must(t, err)
	return list
}

func TestCreate(t *testing.T) {
	p, k := aProvider(t)
	k.create = func(k *fakeKind) error { k.add(seaNodes()...); return nil }
	c, err := p.Create(t.Context(), aSpec())
	must(t, err)
	nodes, err := c.Nodes(t.Context())
	must(t, err)
	if len(nodes) != 2 || nodes[0].Name() != "sea-control-plane" || nodes[0].Role() != clusters.RoleControlPlane {
		t.Errorf("nodes = %v", nodes)
	}
	want := []clusters.Owned{{Name: "sea", RunID: "r1", Ours: true, Nodes: []string{"sea-worker", "sea-control-plane"}}}
	if diff := cmp.Diff(want, left(t, p)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	if _, err = p.Create(t.Context(), aSpec()); err == nil ||
		!strings.Contains(err.Error(), `left over by run "r1"`) || !strings.Contains(err.Error(), "seatrial clean") {
		t.Errorf("create again = %v", err)
	}
}

func TestCreateFails(t *testing.T) {
	for name, tc := range map[string]struct {
		create error
		ready  error
	}{
		"in kind":   {create: errors.New("kubeadm init failed")},
		"not ready": {ready: errors.New("DNS is silent")},
	} {
		t.Run(name, func(t *testing.T) {
			p, k := aProvider(t)
			k.create = func(k *fakeKind) error { k.add(seaNodes()...); return tc.create }
			p.ready = func(context.Context, *Cluster, int) error { return tc.ready }
			if _, err := p.Create(t.Context(), aSpec()); !errors.Is(err, tc.create) && !errors.Is(err, tc.ready) {
				t.Errorf("create = %v", err)
			}
			if got := left(t, p); len(got) > 0 {
				t.Errorf("left: %v", got)
			}
		})
	}
}

// Kind goes on for a while after the context ended, and makes one more container: that one goes too.
func TestCreateInterrupted(t *testing.T) {
	defer goleak.VerifyNone(t)
	p, k := aProvider(t)
	ctx, cancel := context.WithCancel(t.Context())
	k.create = func(k *fakeKind) error {
		nodes := seaNodes()
		k.add(nodes[0])
		cancel()
		for len(load(k.dir)) > 0 { // Until Create has removed the first.
			<-time.After(5 * time.Millisecond)
		}
		k.add(nodes[1])
		return errors.New("no such container")
	}
	if _, err := p.Create(ctx, aSpec()); !errors.Is(err, context.Canceled) {
		t.Errorf("create = %v, want the context's error", err)
	}
	if got := left(t, p); len(got) > 0 {
		t.Errorf("left: %v", got)
	}
}

func TestForeignClusters(t *testing.T) {
	p, _ := aProvider(t, made("sea-control-plane", "sea", "control-plane", "", "exited"))
	if _, err := p.Create(t.Context(), aSpec()); err == nil || !strings.Contains(err.Error(), "did not make") {
		t.Errorf("create = %v", err)
	}
	if err := p.Delete(t.Context(), "sea"); err == nil || !strings.Contains(err.Error(), "did not make it") {
		t.Errorf("delete = %v", err)
	}
	want := []clusters.Owned{{Name: "sea", Nodes: []string{"sea-control-plane"}}}
	if diff := cmp.Diff(want, left(t, p)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
}

// A half-made cluster of one stopped node that is no control plane is found, opened and deleted like any other.
func TestHalfMade(t *testing.T) {
	half := made("sea-worker2", "sea", "worker", "r7", "created")
	p, _ := aProvider(t, half, made("x", "y", "worker", "r8", "running"))
	want := []clusters.Owned{
		{Name: "sea", RunID: "r7", Ours: true, Nodes: []string{"sea-worker2"}},
		{Name: "y", RunID: "r8", Ours: true, Nodes: []string{"x"}},
	}
	if diff := cmp.Diff(want, left(t, p)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	_, err := p.Open(t.Context(), "sea")
	must(t, err)
	must(t, p.Delete(t.Context(), "sea"))
	must(t, p.Delete(t.Context(), "sea"))
	if diff := cmp.Diff(want[1:], left(t, p)); diff != "" {
		t.Errorf("list after delete (-want +got):\n%s", diff)
	}
	if _, err := p.Open(t.Context(), "sea"); !errors.Is(err, clusters.ErrNotFound) {
		t.Errorf("open = %v, want not found", err)
	}
}

func TestNodeOrder(t *testing.T) {
	var list []container
	for _, name := range []string{
		"c-worker10", "c-worker2", "c-external-load-balancer", "c-worker", "c-control-plane",
	} {
		role := strings.TrimRight(strings.TrimPrefix(name, "c-"), "0123456789")
		list = append(list, made(name, "c", role, "r", "running"))
	}
	p, _ := aProvider(t, list...)
	c, err := p.Open(t.Context(), "c")
	must(t, err)
	nodes, err := c.Nodes(t.Context())
	must(t, err)
	var got []string
	for _, n := range nodes {
		got = append(got, n.Name())
	}
	if diff := cmp.Diff([]string{"c-control-plane", "c-worker", "c-worker2", "c-worker10"}, got); diff != "" {
		t.Errorf("nodes (-want +got):\n%s", diff)
	}
}
