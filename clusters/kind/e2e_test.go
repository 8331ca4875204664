package kind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/nodelogs"
)

// TestRealCluster takes one real cluster through its life. It needs an engine, and in SEATRIAL_NODE_IMAGE the reference
// of a node image that the engine has; SEATRIAL_ENGINE names the engine, docker by default.
func TestRealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: the life of a real kind cluster; it needs a container engine and a node image: make e2e")
	}
	image := os.Getenv("SEATRIAL_NODE_IMAGE")
	if image == "" {
		t.Fatal("SEATRIAL_NODE_IMAGE is empty; set it to a node image that the engine has")
	}
	engine := os.Getenv("SEATRIAL_ENGINE")
	if engine == "" {
		engine = "docker"
	}
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	p, err := New(Options{Engine: engine, KubeconfigPath: filepath.Join(t.TempDir(), "kubeconfig"), Log: log})
	must(t, err)
	spec := clusters.Spec{
		Name: "seatrial-dev-kind", Workers: 2, NodeImage: image, KubernetesVersion: versionOf(image), RunID: "rdevkind",
	}
	ctx := t.Context()
	must(t, p.Delete(ctx, spec.Name))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupBound)
		defer cancel()
		if err := p.Delete(ctx, spec.Name); err != nil {
			t.Error(err)
		}
	})

	t.Run("interrupted", func(t *testing.T) { interrupt(t, p, spec) })
	begun := time.Now()
	c, err := p.Create(ctx, spec)
	must(t, err)
	t.Logf("create to ready: %s", time.Since(begun).Round(time.Millisecond))
	nodes, err := c.Nodes(ctx)
	must(t, err)
	worker := nodes[1].(*node)

	t.Run("name taken", func(t *testing.T) {
		want := fmt.Sprintf("left over by run %q", spec.RunID)
		if _, err := p.Create(ctx, spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("create = %v, want %s", err, want)
		}
	})
	t.Run("commands", func(t *testing.T) { commands(t, worker) })
	t.Run("connections", func(t *testing.T) { connections(t, nodes[0], worker) })
	t.Run("power", func(t *testing.T) { power(t, p, c.(*Cluster), worker) })
	t.Run("logs", func(t *testing.T) { logs(t, nodes) })
	t.Run("list and delete", func(t *testing.T) {
		must(t, worker.Kill(ctx)) // A stopped node is listed and deleted like the others.
		loopOn(t, nodes[2], "/var/lib/seatrial/test")
		for _, n := range []clusters.Node{nodes[0], nodes[2]} { // Two nodes have one file mounted.
			loopOn(t, n, clusters.SharedDir)
		}
		listAndDelete(t, p, spec)
	})
}

func logs(t *testing.T, nodes []clusters.Node) {
	for _, n := range nodes {
		dir := t.TempDir()
		must(t, nodelogs.Collect(t.Context(), n, time.Hour, dir))
		for _, name := range []string{"journal.log", "kubelet.log", "containerd.log", "mountinfo", "pods",
			"containers", "images.log", "kubernetes-version.txt"} {
			info, err := os.Stat(filepath.Join(dir, name))
			must(t, err)
			if info.Size() == 0 {
				t.Errorf("%s of node %q is empty", name, n.Name())
			}
		}
	}
}

func listAndDelete(t *testing.T, p *Provider, spec clusters.Spec) {
	want := clusters.Owned{Name: spec.Name, RunID: spec.RunID, Ours: true, Nodes: []string{
		spec.Name + "-worker", spec.Name + "-worker2", spec.Name + "-control-plane",
	}}
	if diff := cmp.Diff(&want, mine(t, p, spec.Name)); diff != "" {
		t.Errorf("list (-want +got):\n%s", diff)
	}
	shared, err := goneWith(spec.Name, []string{p.shared.dir(spec.Name)})
	must(t, err)
	if before, err := hostLoops().orphans(shared); err != nil || len(before) == 0 {
		t.Errorf("loop devices over the file that nodes share: %v, %v, want some", before, err)
	}
	begun := time.Now()
	must(t, p.Delete(t.Context(), spec.Name))
	t.Logf("delete: %s", time.Since(begun).Round(time.Millisecond))
	if got := mine(t, p, spec.Name); got != nil {
		t.Errorf("left: %v", got)
	}
	text, err := os.ReadFile(p.kubeconfig)
	if err != nil || strings.Contains(string(text), spec.Name) {
		t.Errorf("kubeconfig still has the cluster: %v", err)
	}
	if left, err := hostLoops().orphans(shared); err != nil || len(left) > 0 {
		t.Errorf("loop devices left: %v, %v", left, err)
	}
	if exists(p.shared.dir(spec.Name)) {
		t.Error("the directory that nodes shared is left")
	}
}

// versionOf takes the Kubernetes version from the tag of a node image: v1.37.0-abc is v1.37.0.
func versionOf(image string) string {
	tag := image[strings.LastIndexByte(image, ':')+1:]
	tag, _, _ = strings.Cut(tag, "@")
	tag, _, _ = strings.Cut(tag, "-")
	return tag
}

func mine(t *testing.T, p *Provider, name string) *clusters.Owned {
	t.Helper()
	list, err := p.List(t.Context())
	must(t, err)
	if i := slices.IndexFunc(list, func(o clusters.Owned) bool { return o.Name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// interrupt ends Create at several moments; nothing may be left.
func interrupt(t *testing.T, p *Provider, spec clusters.Spec) {
	for _, after := range []time.Duration{500 * time.Millisecond, 6 * time.Second} {
		ctx, cancel := context.WithTimeout(t.Context(), after)
		_, err := p.Create(ctx, spec)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("create interrupted after %s = %v", after, err)
		}
		if got := mine(t, p, spec.Name); got != nil {
			t.Errorf("left after an interrupt at %s: %v", after, got)
		}
	}
}

func commands(t *testing.T, n *node) {
	ctx := t.Context()
	out, err := clusters.Run(ctx, n, "echo", "a  $b", "*")
	if err != nil || out != "a  $b *\n" {
		t.Errorf("echo = %q, %v", out, err)
	}
	res, err := n.Exec(ctx, clusters.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("in")})
	if err != nil || string(res.Stdout) != "in" {
		t.Errorf("cat = %q, %v", res.Stdout, err)
	}
	var exit *clusters.ExitError
	if _, err := clusters.Run(ctx, n, "sh", "-c", "exit 127"); !errors.As(err, &exit) || exit.ExitCode != 127 {
		t.Errorf("exit 127 = %v", err)
	}
	if _, err := clusters.Run(ctx, n, "/no/such"); err == nil || errors.As(err, &exit) {
		t.Errorf("a program that is not there = %v, want a plain error", err)
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if _, err := clusters.Run(short, n, "sleep", "3219"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sleep = %v, want the context's error", err)
	}
	if out, _ := clusters.Run(ctx, n, "pgrep", "-f", "^sleep 3219$"); out != "" {
		t.Errorf("left on the node: process %s", out)
	}
}

// connections reach the API server from a worker, by both families and both ways of dialling.
func connections(t *testing.T, controlPlane clusters.Node, n *node) {
	ctx := t.Context()
	addrs, err := controlPlane.Addresses(ctx)
	must(t, err)
	if len(addrs) < 2 || !addrs[0].Is4() || !addrs[1].Is6() {
		t.Fatalf("addresses = %v, want IPv4 and then IPv6", addrs)
	}
	for _, addr := range addrs {
		begun := time.Now()
		conn, err := n.Dial(ctx, apiServer(addr))
		must(t, err)
		t.Logf("dial %s as %T: %s", conn.RemoteAddr(), conn, time.Since(begun).Round(time.Microsecond))
		must(t, conn.Close())
		begun = time.Now()
		socat, err := n.dialSocat(ctx, apiServerPort(addr))
		must(t, err)
		t.Logf("dial %s as %T: %s", socat.RemoteAddr(), socat, time.Since(begun).Round(time.Microsecond))
		must(t, socat.Close())
		if _, err := n.Dial(ctx, refused(addr)); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("dial a closed port = %v", err)
		}
	}
}

// power takes a node through all its states; the cluster is ready again afterwards.
func power(t *testing.T, p *Provider, c *Cluster, n *node) {
	ctx := t.Context()
	before, err := n.Addresses(ctx)
	must(t, err)
	boot := func() string {
		out, err := clusters.Run(ctx, n, "stat", "-c", "%y", "/proc/1")
		must(t, err)
		return out
	}
	first := boot()
	must(t, n.Pause(ctx))
	must(t, n.Pause(ctx))
	if state, err := n.State(ctx); err != nil || state != clusters.StatePaused {
		t.Errorf("state = %q, %v", state, err)
	}
	if _, err := clusters.Run(ctx, n, "true"); err == nil {
		t.Error("a paused node runs a command")
	}
	must(t, n.Unpause(ctx))
	must(t, n.Unpause(ctx))
	if boot() != first {
		t.Error("pausing was a reboot")
	}
	begun := time.Now()
	must(t, n.Reboot(ctx, 2*time.Second))
	t.Logf("reboot: %s", time.Since(begun).Round(time.Millisecond))
	if boot() == first {
		t.Error("the first process is that of before the reboot")
	}
	// Two nodes down at once that start in the other order: each would get the other's addresses.
	other := c.nodes[2]
	must(t, n.Kill(ctx))
	must(t, n.Kill(ctx))
	must(t, other.Stop(ctx, time.Second))
	begun = time.Now()
	must(t, other.Start(ctx))
	must(t, n.Start(ctx))
	t.Logf("start of two: %s", time.Since(begun).Round(time.Millisecond))
	after, err := n.Addresses(ctx)
	must(t, err)
	if !slices.Equal(before, after) {
		t.Errorf("addresses were %v and are %v", before, after)
	}
	begun = time.Now()
	must(t, p.ready(ctx, c, len(c.nodes)))
	t.Logf("ready again: %s", time.Since(begun).Round(time.Millisecond))
}

// loopOn sets a loop device up on a node, over a file in that directory, and mounts it.
func loopOn(t *testing.T, n clusters.Node, dir string) {
	t.Helper()
	ctx := t.Context()
	const mountPoint = "/var/lib/seatrial/mnt"
	file := dir + "/disk.img"
	if _, err := clusters.Run(ctx, n, "test", "-e", file); err != nil {
		for _, argv := range [][]string{
			{"mkdir", "-p", dir}, {"truncate", "-s", "32M", file}, {"mkfs.ext4", "-q", file},
		} {
			_, err := clusters.Run(ctx, n, argv...)
			must(t, err)
		}
	}
	for _, argv := range [][]string{{"mkdir", "-p", mountPoint}, {"mount", "-o", "loop", file, mountPoint}} {
		_, err := clusters.Run(ctx, n, argv...)
		must(t, err)
	}
}

func apiServerPort(addr netip.Addr) netip.AddrPort { return netip.AddrPortFrom(addr, 6443) }

func apiServer(addr netip.Addr) string { return apiServerPort(addr).String() }

func refused(addr netip.Addr) string { return netip.AddrPortFrom(addr, 1).String() }
