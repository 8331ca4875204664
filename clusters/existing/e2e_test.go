package existing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/existing/link"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/clusters/nodelogs"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/tools/offline/layers"
)

// TestRealCluster makes a cluster with kind and then knows it by its kubeconfig only: docker, podman and nerdctl on
// PATH fail the test when they are called.
func TestRealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: a real cluster by its kubeconfig; it needs a container engine and a node image: make e2e")
	}
	ctx := t.Context()
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelInfo}))
	kubeconfig := os.Getenv("SEATRIAL_KUBECONFIG") // Of a cluster that is there.
	var image string
	if kubeconfig == "" {
		var made clusters.Cluster
		made, kubeconfig = kindtest.Cluster(t, log, kindtest.Shared("seatrial-dev-existing"), 2)
		image = loadAgentImage(t, log, made)
	}
	hideEngines(t)

	limits := link.Limits{Faults: []string{"test"}, Longest: time.Hour, Total: time.Hour}
	p, err := New(Options{Kubeconfig: kubeconfig, Log: log, Faults: limits, FaultControlPlane: true})
	must(t, err)
	if _, err := p.Open(ctx, "no-such-context"); !errors.Is(err, clusters.ErrNotFound) {
		t.Errorf("open a context that is not there = %v", err)
	}
	begun := time.Now()
	c, err := p.open(ctx, "")
	must(t, err)
	cleaned := false
	t.Cleanup(func() {
		if !cleaned {
			must(t, c.Close(ctx))
		}
	})
	t.Logf("open: %s; capabilities %+v", time.Since(begun).Round(time.Millisecond), c.Capabilities())
	nodes := c.known()
	if len(nodes) != 3 || nodes[0].Role() != clusters.RoleControlPlane || nodes[1].Role() != clusters.RoleWorker {
		t.Fatalf("nodes: %v", nodes)
	}
	for _, need := range []string{clusters.CanSystemd, clusters.CanNFTables, clusters.CanStaticPods} {
		if !slices.Contains(c.Capabilities().Can, need) {
			t.Errorf("the cluster cannot do %s: %s", need, c.Capabilities().Cannot[need])
		}
	}
	if why := c.Capabilities().Cannot[clusters.CanReset]; image != "" && !strings.Contains(why, "container") {
		t.Errorf("the nodes may be reset, and their host with them: %q", why)
	}
	worker := nodes[1]
	t.Run("limits", func(t *testing.T) {
		if _, err := clusters.Run(ctx, worker, "sh", "-c", "true"); !errors.Is(err, link.ErrLimit) {
			t.Errorf("a command before a fault: %v, want the agent's refusal", err)
		}
		if err := worker.BeginFault(ctx, "test", "another", time.Hour); !errors.Is(err, link.ErrLimit) {
			t.Errorf("a fault that is not allowed: %v, want the agent's refusal", err)
		}
		for _, n := range nodes {
			must(t, n.BeginFault(ctx, "test", "test", time.Hour))
		}
		c.opts.Faults.Total *= 2 // The harness has a bug.
		err := worker.deliver(ctx)
		c.opts.Faults.Total = limits.Total
		if err == nil || !strings.Contains(err.Error(), "cannot be changed") {
			t.Errorf("other limits = %v, want the agent's refusal", err)
		}
		if err := worker.BeginFault(ctx, "more", "test", time.Second); !errors.Is(err, link.ErrLimit) {
			t.Errorf("a fault above the budget: %v, want the agent's refusal", err)
		}
	})
	t.Run("B", func(t *testing.T) { conformance(t, nodes[0], worker, routeDirect) })
	t.Run("A", func(t *testing.T) {
		port := worker.port
		worker.port, worker.noUnit = "", errors.New("not wanted in this test")
		defer func() { worker.port, worker.noUnit = port, nil }()
		conformance(t, nodes[0], worker, routePod)
	})
	t.Run("host's namespaces", func(t *testing.T) {
		out, err := clusters.Run(ctx, worker, "readlink", "/proc/self/ns/mnt", "/proc/1/ns/mnt")
		lines := strings.Fields(out)
		if err != nil || len(lines) != 2 || lines[0] != lines[1] {
			t.Errorf("mount namespaces: %q, %v", out, err)
		}
	})
	t.Run("channel B alone", func(t *testing.T) { channelB(t, nodes) })
	t.Run("unit lost", func(t *testing.T) { // As after another boot.
		_, _ = clusters.Run(ctx, worker, "sh", "-c",
			"rm -rf "+c.session.RunDir()+"; systemctl stop --no-block "+c.session.Unit())
		time.Sleep(time.Second)
		worker.lastMend = time.Time{}
		conformance(t, nodes[0], worker, routeDirect)
	})
	t.Run("logs", func(t *testing.T) {
		dir := t.TempDir()
		must(t, nodelogs.Collect(ctx, worker, time.Hour, dir))
		if text, err := os.ReadFile(filepath.Join(dir, "kubelet.log")); err != nil || len(text) < 1000 {
			t.Errorf("kubelet.log has %d bytes, %v", len(text), err)
		}
	})
	cleaned = t.Run("close and clean", func(t *testing.T) { closeAndClean(t, p, c) })
	if image == "" {
		return
	}
	t.Run("agent image", func(t *testing.T) {
		var told bytes.Buffer
		p, err := New(Options{
			Kubeconfig: kubeconfig, AgentImage: image, NodeSelector: "kubernetes.io/hostname=" + worker.name,
			Log: slog.New(slog.NewTextHandler(&told, nil)),
		})
		must(t, err)
		c, err := p.open(ctx, "")
		must(t, err)
		if out, err := clusters.Run(ctx, c.known()[0], "echo", "here"); err != nil || out != "here\n" {
			t.Errorf("echo = %q, %v", out, err)
		}
		must(t, c.Close(ctx))
		if !strings.Contains(told.String(), "image="+image) {
			t.Errorf("the image %s is not told: %s", image, told.String())
		}
	})
}

// loadAgentImage puts the image that `seatrial agent-image` writes on a worker.
func loadAgentImage(t *testing.T, log *slog.Logger, cluster clusters.Cluster) (image string) {
	t.Helper()
	agent, err := program.Agent().Find(t.Context(), log)
	must(t, err)
	image = "localhost/seatrial/agent:test"
	var archive, said bytes.Buffer
	must(t, layers.WriteProgram(&archive, image, agent, "/seatrial-agent", "wait"))
	nodes, err := cluster.Nodes(t.Context())
	must(t, err)
	for _, n := range nodes {
		if n.Role() == clusters.RoleControlPlane {
			continue
		}
		_, err := n.Exec(t.Context(), clusters.Command{
			Argv: []string{"ctr", "--namespace=k8s.io", "images", "import", "-"}, Stdin: &archive, Stdout: &said,
		})
		if err != nil {
			t.Fatalf("import the image: %v; it said %q", err, said.String())
		}
		return image
	}
	t.Fatal("no worker")
	return ""
}

// conformance is what every channel must do alike.
func conformance(t *testing.T, controlPlane, n *node, want string) {
	ctx := t.Context()
	begun := time.Now()
	out, err := clusters.Run(ctx, n, "echo", "a  $b", "*")
	if err != nil || out != "a  $b *\n" {
		t.Errorf("echo = %q, %v", out, err)
	}
	t.Logf("one command: %s", time.Since(begun).Round(time.Millisecond))
	if n.lastRoute != want {
		t.Errorf("route = %q, want %q", n.lastRoute, want)
	}
	if out, err := clusters.Run(ctx, n, "cat", "/etc/hostname"); err != nil || strings.TrimSpace(out) != n.name {
		t.Errorf("hostname = %q, %v", out, err)
	}
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // 2 MiB.
	var copied bytes.Buffer
	_, err = n.Exec(ctx, clusters.Command{Argv: []string{"cat"}, Stdin: bytes.NewReader(big), Stdout: &copied})
	if err != nil || !bytes.Equal(copied.Bytes(), big) {
		t.Errorf("cat of 2 MiB: %d bytes, %v", copied.Len(), err)
	}
	for _, code := range []int{1, 125, 126, 127, 137, 255} {
		var exit *clusters.ExitError
		_, err := clusters.Run(ctx, n, "sh", "-c", fmt.Sprintf("exit %d", code))
		if !errors.As(err, &exit) || exit.ExitCode != code {
			t.Errorf("exit %d = %v", code, err)
		}
	}
	var exit *clusters.ExitError
	if _, err := clusters.Run(ctx, n, "/no/such"); err == nil || errors.As(err, &exit) {
		t.Errorf("a program that is not there = %v, want a plain error", err)
	}
	short, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := clusters.Run(short, n, "sleep", "3219"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sleep = %v, want the context's error", err)
	}
	if out, _ := clusters.Run(ctx, n, "pgrep", "-f", "^sleep 3219$"); out != "" {
		t.Errorf("left on the node: process %s", out)
	}
	addrs, err := controlPlane.Addresses(ctx)
	must(t, err)
	conn, err := n.Dial(ctx, netip.AddrPortFrom(addrs[0], 10250).String()) // The kubelet's.
	must(t, err)
	_, err = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n") // Without TLS: a server says so and hangs up.
	must(t, err)
	text, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(text), "HTTP") {
		t.Errorf("the kubelet says %q, %v", text, err)
	}
	must(t, conn.Close())
	if _, err := n.Dial(ctx, netip.AddrPortFrom(addrs[0], 1).String()); err == nil ||
		!strings.Contains(err.Error(), "refused") {
		t.Errorf("dial a closed port = %v", err)
	}
	clock, err := n.BootClock(ctx)
	if err != nil || clock.Error <= 0 || clock.Offset.Abs() > clock.Error {
		t.Errorf("boot clock on one kernel: %+v, %v", clock, err)
	}
	t.Logf("boot clock: %+v", clock)
}

// channelB takes away what channel A needs, one after the other.
func channelB(t *testing.T, nodes []*node) {
	ctx := t.Context()
	worker := nodes[1]
	run := func(t *testing.T, n *node, argv ...string) string {
		t.Helper()
		out, err := clusters.Run(ctx, n, argv...)
		must(t, err)
		return out
	}
	t.Run("kubelet killed in the middle", func(t *testing.T) {
		done := make(chan error, 1)
		go func() {
			out, err := clusters.Run(ctx, worker, "sh", "-c", "sleep 4; echo still here")
			if err == nil && out != "still here\n" {
				err = fmt.Errorf("said %q", out)
			}
			done <- err
		}()
		time.Sleep(time.Second)
		run(t, worker, "systemctl", "kill", "--signal=KILL", "kubelet")
		must(t, <-done)
	})
	t.Run("kubelet and runtime stopped", func(t *testing.T) {
		run(t, worker, "systemctl", "stop", "kubelet", "containerd")
		defer run(t, worker, "systemctl", "start", "containerd", "kubelet")
		out := run(t, worker, "systemctl", "show", "-p", "ActiveState", "kubelet")
		if !strings.Contains(out, "inactive") {
			t.Errorf("kubelet: %q", out)
		}
		conformance(t, nodes[0], worker, routeDirect)
	})
	t.Run("cut from the harness, through another node", func(t *testing.T) {
		gateway := strings.Fields(run(t, worker, "ip", "-4", "route", "show", "default"))[2] // This machine, to nodes.
		rules := fmt.Sprintf("table inet trial_cut { chain in { type filter hook input priority -300; "+
			"ip saddr %s tcp dport %s drop; }; }", gateway, worker.port)
		_, err := worker.Exec(ctx, clusters.Command{Argv: []string{"nft", "-f", "-"}, Stdin: strings.NewReader(rules)})
		must(t, err)
		if out := run(t, worker, "cat", "/etc/hostname"); strings.TrimSpace(out) != worker.name {
			t.Errorf("hostname %q", out)
		}
		if worker.lastRoute != routeThrough {
			t.Errorf("route = %q, want %q", worker.lastRoute, routeThrough)
		}
		run(t, worker, "nft", "delete", "table", "inet", "trial_cut")
		worker.lastRoute = ""
		if run(t, worker, "true"); worker.lastRoute != routeDirect {
			t.Errorf("route = %q, want %q", worker.lastRoute, routeDirect)
		}
	})
	t.Run("API server gone", func(t *testing.T) {
		const manifest, aside = "/etc/kubernetes/manifests/kube-apiserver.yaml", "/etc/kubernetes/aside.yaml"
		run(t, nodes[0], "mv", manifest, aside)
		defer func() {
			run(t, nodes[0], "mv", aside, manifest)
			awaitAPI(t, worker.cluster)
		}()
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Second) {
			if _, err := worker.cluster.kube.Discovery().ServerVersion(); err != nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal("the API server does not go")
			}
		}
		conformance(t, nodes[0], nodes[2], routeDirect)
	})
}

func awaitAPI(t *testing.T, c *Cluster) {
	t.Helper()
	for end := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Second) {
		list, err := c.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		if err == nil && !slices.ContainsFunc(list.Items, func(n corev1.Node) bool {
			return !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
		}) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("the cluster is not ready again: %v", err)
		}
	}
}

// closeAndClean leaves one session behind, as a crash does. Clean removes it, and nothing is left on nodes or in the
// API.
func closeAndClean(t *testing.T, p *Provider, left *Cluster) {
	ctx := t.Context()
	must(t, p.Clean(ctx, ""))
	after, err := p.open(ctx, "")
	must(t, err)
	session := string(after.session)
	for _, n := range after.known() {
		out, err := clusters.Run(ctx, n, "find", "/run/seatrial/link", "/var/lib/seatrial/link", "-mindepth", "1",
			"-maxdepth", "1", "-not", "-name", session)
		if err != nil || out != "" {
			t.Errorf("left on node %q: %q, %v", n.name, out, err)
		}
		out, err = clusters.Run(ctx, n, "systemctl", "list-units", "--all", "--plain", "--no-legend", "seatrial-link-*")
		if err != nil || strings.Count(out, "seatrial-link-") != strings.Count(out, "seatrial-link-"+session) {
			t.Errorf("units on node %q: %q, %v", n.name, out, err)
		}
	}
	must(t, after.Close(ctx))
	pods, err := left.kube.CoreV1().Pods("").List(ctx, metav1.ListOptions{LabelSelector: sessionLabel})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("pods left: %d, %v", len(pods.Items), err)
	}
	spaces, err := left.kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: sessionLabel})
	if err != nil || len(spaces.Items) > 0 {
		t.Errorf("namespaces left: %d, %v", len(spaces.Items), err)
	}
}

// hideEngines puts programs before the engines on PATH that leave a trace when they are called.
func hideEngines(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	trace := filepath.Join(dir, "called")
	for _, name := range []string{"docker", "podman", "nerdctl"} {
		script := "#!/bin/sh\necho \"$0 $*\" >>" + trace + "\nexit 1\n"
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Cleanup(func() {
		if text, err := os.ReadFile(trace); err == nil {
			t.Errorf("a container engine was called: %s", text)
		}
	})
}
