package faulttest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/kind"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
)

// realWatchdog is the watchdog beside a real cluster, with orders of its own.
func realWatchdog(ctx context.Context, log *slog.Logger, dir, cluster string) (undo.HostWatchdog, error) {
	path, err := program.Seatrial().Find(ctx, log)
	return undo.HostWatchdog{
		Argv: []string{path, "deadman"}, Dir: dir, Engine: os.Getenv("SEATRIAL_ENGINE"), Cluster: cluster,
	}, err
}

// TestWholeNodesOnARealCluster runs all checks of the faults that take a whole node away, and then kills a harness
// while a node is paused.
func TestWholeNodesOnARealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: faults of whole nodes on a real kind cluster; it needs an engine and a node image: make long")
	}
	target, nodes := realTarget(t, "seatrial-dev-nodes")
	err := faulttest.OnCluster(t.Context(), []fault.Definition{
		node.Pause(), node.Crash(), node.Stop(),
	}, target)
	if err != nil {
		t.Error(err)
	}
	killedWhilePaused(t, target.Watchdog.(undo.HostWatchdog), nodes[len(nodes)-1])
}

// TestProgramsOfNodesOnARealCluster does the same for faults of the programs on a node, and lets the timers on the node
// undo those that have one.
func TestProgramsOfNodesOnARealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: faults of nodes' programs on a real kind cluster; it needs an engine and an image: make long")
	}
	target, nodes := realTarget(t, "seatrial-dev-programs")
	err := faulttest.OnCluster(t.Context(), []fault.Definition{
		node.KubeletFreeze(), node.KubeletStarve(), node.RuntimeStop(), node.KubeProxyKill(),
	}, target)
	if err != nil {
		t.Error(err)
	}
	for _, def := range []fault.Definition{node.KubeletFreeze(), node.RuntimeStop()} {
		if err := leftAlone(t, def, target, nodes); err != nil {
			t.Errorf("fault %q is left alone: %v", def.Name, err)
		}
	}
}

// realTarget makes a cluster with the agent on every node, and what brings its nodes back.
func realTarget(t testing.TB, name string) (faulttest.Target, []clusters.Node) {
	t.Helper()
	ctx := t.Context()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	watchdog, err := realWatchdog(ctx, log, t.TempDir(), name)
	if err != nil {
		t.Fatal(err)
	}
	cluster, _ := kindtest.Cluster(t, log, name, 2)
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := program.Agent().Find(ctx, log)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if _, err := nodefacts.Install(ctx, n, agent); err != nil {
			t.Fatal(err)
		}
	}
	return faulttest.Target{
		Cluster: cluster, Kube: realKube(t, cluster), RunID: "r" + name, Clock: bootclock.Now, Log: log,
		Watchdog: watchdog,
	}, nodes
}

// deadLife is the life of what a harness arms before it is killed.
const deadLife = 15 * time.Second

// killedWhilePaused starts a harness that arms, pauses a node, and is killed then. The node must be thawed in time.
func killedWhilePaused(t *testing.T, watchdog undo.HostWatchdog, victim clusters.Node) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAHarnessThatIsKilled$")
	cmd.Env = append(os.Environ(), "SEATRIAL_TEST_VICTIM="+victim.Name(), "SEATRIAL_TEST_CLUSTER="+watchdog.Cluster,
		"SEATRIAL_TEST_ORDERS="+watchdog.Dir, "SEATRIAL_PROGRAM="+watchdog.Argv[0])
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = in.Close() }() // Nobody reads from it.
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for said.Scan() && said.Text() != "paused" {
		t.Logf("it says: %s", said.Text())
	}
	power := victim.(clusters.PowerNode)
	begin := time.Now()
	if state, err := power.State(t.Context()); err != nil || state != "paused" {
		t.Errorf("the node is %q, %v", state, err)
	}
	if err := syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // It was killed.
	err = await.Until(t.Context(), "node to be thawed", 50*time.Millisecond, 2*deadLife,
		func(ctx context.Context) (bool, string, error) {
			state, err := power.State(ctx)
			return state == "running", state, err
		})
	took := time.Since(begin)
	t.Logf("thawed %s after it was paused and its harness killed; its life was %s", took, deadLife)
	if err != nil || took > deadLife+time.Second {
		t.Errorf("thawed after %s, %v", took, err)
	}
	err = await.Until(t.Context(), "no order to be left", 50*time.Millisecond, deadLife,
		func(context.Context) (bool, string, error) {
			left, err := filepath.Glob(filepath.Join(watchdog.Dir, "seatrial-*"))
			return len(left) == 0, strings.Join(left, ", "), err
		})
	if err != nil {
		t.Error(err)
	}
}

// TestAHarnessThatIsKilled is the harness of killedWhilePaused. By itself it does nothing.
func TestAHarnessThatIsKilled(t *testing.T) {
	victim := os.Getenv("SEATRIAL_TEST_VICTIM")
	if victim == "" {
		t.Skip("NOT RUN: it is started and killed by the test of faults of nodes on a real cluster: make long")
	}
	ctx := t.Context()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	watchdog, err := realWatchdog(ctx, log, os.Getenv("SEATRIAL_TEST_ORDERS"), os.Getenv("SEATRIAL_TEST_CLUSTER"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := kind.New(kind.Options{Engine: watchdog.Engine, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := p.Open(ctx, watchdog.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if n.Name() != victim {
			continue
		}
		if err := watchdog.Arm(ctx, victim, undo.Owner{Run: "rkilled", Step: 1}, deadLife); err != nil {
			t.Fatal(err)
		}
		if err := n.(clusters.PowerNode).Pause(ctx); err != nil {
			t.Fatal(err)
		}
		fmt.Println("paused")
		_, _ = io.ReadAll(os.Stdin) // Nothing is said: it waits to be killed.
	}
	t.Fatal("it was not killed")
}
