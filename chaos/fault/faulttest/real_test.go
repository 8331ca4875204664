package faulttest_test

import (
	"errors"
	"log/slog"
	"os"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/controlplane"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/fault/object"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
)

// TestObjectFaultsOnARealCluster runs all checks of the faults of API objects on a cluster of its own, and lets the
// timers on the control plane undo those that have one. It needs an engine, and in SEATRIAL_NODE_IMAGE the reference of
// a node image that the engine has.
func TestObjectFaultsOnARealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: faults of API objects on a real kind cluster; it needs an engine and a node image: make long")
	}
	ctx := t.Context()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cluster, _ := kindtest.Cluster(t, log, "seatrial-dev-faulttest", 2)
	nodes := withAgents(t, log, cluster)
	target := faulttest.Target{
		Cluster: cluster, Kube: realKube(t, cluster), RunID: "rfaulttest", Clock: bootclock.Now, Log: log, Claims: true,
	}
	err := faulttest.OnCluster(ctx, []fault.Definition{
		object.ClaimDelete(), object.Drain(), object.PodDelete(), object.PodForceDelete(), object.Cordon(),
		object.OutOfService(), object.NodeDelete(),
	}, target)
	if err != nil {
		t.Error(err)
	}
	for _, def := range []fault.Definition{object.Cordon(), object.NodeDelete()} {
		if err := leftAlone(t, def, target, nodes); err != nil {
			t.Errorf("fault %q is left alone: %v", def.Name, err)
		}
	}
}

// withAgents puts the agent on every node.
func withAgents(t *testing.T, log *slog.Logger, cluster clusters.Cluster) []clusters.Node {
	t.Helper()
	nodes, err := cluster.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	agent, err := program.Agent().Find(t.Context(), log)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		if _, err := nodefacts.Install(t.Context(), n, agent); err != nil {
			t.Fatal(err)
		}
	}
	return nodes
}

// TestServiceFaultsOnARealCluster does the same for faults of services and for force-detach-off, which need the agent,
// and lets the timers on the nodes undo those that have one.
func TestServiceFaultsOnARealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: faults of services on a real kind cluster; it needs an engine and a node image: make long")
	}
	ctx := t.Context()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cluster, _ := kindtest.Cluster(t, log, "seatrial-dev-services", 2)
	nodes := withAgents(t, log, cluster)
	target := faulttest.Target{
		Cluster: cluster, Kube: realKube(t, cluster), RunID: "rservices", Clock: bootclock.Now, Log: log,
	}
	err := faulttest.OnCluster(ctx, []fault.Definition{
		node.RuntimeKill(), node.KubeletStop(), controlplane.ForceDetachOff(),
	}, target)
	if err != nil {
		t.Error(err)
	}
	for _, def := range []fault.Definition{node.KubeletStop(), controlplane.ForceDetachOff()} {
		if err := leftAlone(t, def, target, nodes); err != nil {
			t.Errorf("fault %q is left alone: %v", def.Name, err)
		}
	}
}

// leftAlone carries a fault out and forgets it. The timer that every node has must undo it, without any heal of ours.
func leftAlone(t *testing.T, def fault.Definition, target faulttest.Target, nodes []clusters.Node) error {
	ctx := t.Context()
	env := fault.Env{
		Cluster: target.Cluster, Kube: target.Kube, Node: nodes[len(nodes)-1], Pod: "none", Namespace: "kube-system",
		RunID: "rleft-" + def.Name, Clock: target.Clock, Log: target.Log, Watchdog: target.Watchdog,
	}
	f, err := def.New(plan.Fault{Name: def.Name, Hold: plan.Duration(time.Second)}, 1, env)
	if err != nil {
		return err
	}
	const life = 30 * time.Second // Long enough to be shown, short of what the guard arms.
	tasks, err := f.(fault.Undoer).Undo(ctx)
	if err != nil {
		return err
	}
	if err := fault.Arm(ctx, env, undo.Owner{Run: env.RunID, Step: 1}, life, tasks); err != nil {
		return err
	}
	if err := f.Inject(ctx); err != nil {
		return err
	}
	if err := await.For(ctx, life); err != nil {
		return err
	}
	facts, err := f.ConfirmHealed(ctx)
	target.Log.Info("left alone", "fault", def.Name, "shown", facts)
	reports, err2 := undo.Cluster(ctx, nodes, undo.Of(env.RunID, 0))
	for _, r := range reports {
		if !r.Nothing() {
			t.Errorf("fault %q: left on node %q: %s", def.Name, r.Node, r)
		}
	}
	return errors.Join(err, err2)
}

func realKube(t testing.TB, cluster clusters.Cluster) kubernetes.Interface {
	t.Helper()
	kubeconfig, err := cluster.Kubeconfig(t.Context())
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
	t.Cleanup(client.CloseIdleConnections)
	kube, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}
