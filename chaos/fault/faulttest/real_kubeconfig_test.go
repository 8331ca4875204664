package faulttest_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/existing"
	"github.com/seatrial/seatrial/clusters/existing/link"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
)

// linked is the label of everything that package existing makes in the API.
const linked = "seatrial.dev/link"

// byKubeconfig makes a cluster with kind and knows it by its kubeconfig only from then on: docker, podman and nerdctl
// on PATH fail the test when they are called.
func byKubeconfig(t *testing.T, log *slog.Logger, name string, workers int) (clusters.Cluster, string) {
	t.Helper()
	text, err := realClusterOf(t, log, name, workers).Kubeconfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kubeconfig, trace := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "called")
	if err := os.WriteFile(kubeconfig, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, engine := range []string{"docker", "podman", "nerdctl"} {
		script := "#!/bin/sh\necho \"$0 $*\" >>" + trace + "\nexit 1\n"
		if err := os.WriteFile(filepath.Join(dir, engine), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	t.Setenv("SEATRIAL_ENGINE", "docker") // That program, and not one that is named by its path.
	t.Cleanup(func() {
		if text, err := os.ReadFile(trace); err == nil {
			t.Errorf("a container engine was called: %s", text)
		}
	})
	c, err := openExisting(t.Context(), log, kubeconfig, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.(clusters.Closer).Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return c, kubeconfig
}

// openExisting opens a cluster with leave for every fault.
func openExisting(ctx context.Context, log *slog.Logger, kubeconfig, name string) (clusters.Cluster, error) {
	limits := link.Limits{
		Longest: 10 * time.Minute, Total: 10 * time.Hour, Scripts: []string{link.ScriptSum(nodefacts.Script)},
	}
	for _, d := range definitions() {
		limits.Faults = append(limits.Faults, d.Name)
	}
	p, err := existing.New(existing.Options{Kubeconfig: kubeconfig, Log: log, Faults: limits, FaultControlPlane: true})
	if err != nil {
		return nil, err
	}
	return p.Open(ctx, name)
}

// TestFaultsByKubeconfig takes faults of kubelet, runtime, containers and packets through their lives on a cluster that
// is reached by its kubeconfig only. Once the effect of each is shown, the agent's pod of its node is deleted: the rest
// goes by the unit.
func TestFaultsByKubeconfig(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: faults by kubeconfig on a real kind cluster; it needs an engine and a node image: make long")
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cluster, _ := byKubeconfig(t, log, "seatrial-dev-kubeconfig", 2)
	target := faulttest.Target{
		Cluster: cluster, Kube: realKube(t, cluster), RunID: "rkubeconfig", Clock: bootclock.Now, Log: log,
	}
	withAgents(t, log, cluster)
	nodes, err := cluster.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	workers := slices.DeleteFunc(nodes, func(n clusters.Node) bool { return n.Role() != clusters.RoleWorker })
	beside := target
	target.On, beside.On = workers[0].Name(), workers[1].Name()
	if err := errors.Join(target.MakeAnchor(t.Context()), beside.MakeAnchor(t.Context())); err != nil {
		t.Fatal(err)
	}
	for _, def := range []fault.Definition{
		node.KubeletStop(), node.KubeletFreeze(), node.RuntimeKill(), node.ContainerKill(), network.Isolate(),
		network.Loss(),
	} {
		t.Run(def.Name, func(t *testing.T) {
			env, err := target.Fit(t.Context(), "r"+def.Name)
			if err != nil {
				t.Fatal(err)
			}
			other, err := beside.Fit(t.Context(), "r"+def.Name)
			if err != nil {
				t.Fatal(err)
			}
			env.Peer, env.PeerNode = other.Pod, other.Node
			spec := plan.Fault{Name: def.Name, Hold: plan.Duration(3 * time.Second), Params: def.Example}
			pods := 0
			r, err := faulttest.Run(t.Context(), def, faulttest.Bench{Env: env, Spec: spec}, func(f history.Fault) {
				if f.Stage == history.StageConfirmed {
					pods = withoutPod(t, target, env.Node.Name())
				}
			})
			if err != nil || pods != 1 {
				t.Errorf("%d agents' pods deleted, want 1; %v", pods, err)
			}
			for _, f := range r.Facts() {
				t.Logf("%s: %d facts", f.Stage, len(f.Evidence))
			}
			if want := []history.FaultStage{
				history.StageIntent, history.StageInjected, history.StageConfirmed, history.StageHealed,
				history.StageConfirmedHealed,
			}; !slices.Equal(r.Stages(), want) {
				t.Errorf("stages %q, want %q", r.Stages(), want)
			}
		})
	}
}

// withoutPod deletes the agents' pods of a node and returns how many.
func withoutPod(t *testing.T, target faulttest.Target, on string) (deleted int) {
	t.Helper()
	pods := target.Kube.CoreV1().Pods(metav1.NamespaceAll)
	list, err := pods.List(t.Context(), metav1.ListOptions{
		LabelSelector: linked, FieldSelector: "spec.nodeName=" + on,
	})
	if err != nil {
		t.Error(err)
		return 0
	}
	for _, p := range list.Items {
		err := target.Kube.CoreV1().Pods(p.Namespace).Delete(t.Context(), p.Name,
			metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
		if err != nil {
			t.Error(err)
			continue
		}
		deleted++
	}
	return deleted
}

// TestKilledByKubeconfig kills harnesses that reach their cluster by its kubeconfig only, at some steps of eight
// faults. Every second one deletes all agents' pods first. What each has left is undone without it.
func TestKilledByKubeconfig(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: harnesses killed, by kubeconfig, on a real kind cluster; it needs an engine: make long")
	}
	if *onlyFaults == "" {
		*onlyFaults = "cordon,kubelet-freeze,kubelet-kill,kubelet-stop,node-isolate,node-partition,packet-loss," +
			"runtime-stop"
		defer func() { *onlyFaults = "" }()
	}
	m := &matrix{
		log: slog.New(slog.NewTextHandler(t.Output(), nil)), dir: t.TempDir(),
		before: map[string][]history.Thing{}, cells: map[string]map[faulttest.KillPoint]cell{},
	}
	m.cluster, m.kubeconfig = byKubeconfig(t, m.log, "seatrial-dev-killkubeconfig", 3)
	m.kube, m.nodes = realKube(t, m.cluster), withAgents(t, m.log, m.cluster)
	t.Cleanup(func() { // The sessions of those that were killed.
		p, err := existing.New(existing.Options{Kubeconfig: m.kubeconfig, Log: m.log})
		if err == nil {
			err = p.Clean(t.Context(), "")
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err := m.lookBefore(t.Context()); err != nil {
		t.Fatal(err)
	}
	points := []faulttest.KillPoint{
		{Stage: history.StageArmed, After: true}, {Stage: history.StageInjected},
		{Stage: history.StageConfirmed, After: true},
	}
	m.run(t, func(fault.Definition) []faulttest.KillPoint { return points })
	m.report(t, points)
}

// anyPods deletes the agents' pods of all sessions.
func (e assignment) anyPods(ctx context.Context, env fault.Env, log io.Writer) {
	spaces, err := env.Kube.CoreV1().Namespaces().List(ctx, metav1.ListOptions{LabelSelector: linked})
	if err == nil {
		for _, s := range spaces.Items {
			err = errors.Join(err, env.Kube.CoreV1().Pods(s.Name).DeleteCollection(ctx,
				metav1.DeleteOptions{GracePeriodSeconds: new(int64)}, metav1.ListOptions{LabelSelector: linked}))
		}
	}
	if err != nil {
		_, _ = io.WriteString(log, err.Error()) // It dies next.
	}
}
