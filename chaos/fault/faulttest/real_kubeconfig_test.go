package faulttest_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/fault/network"
	"github.com/seatrial/seatrial/chaos/fault/node"
	"github.com/seatrial/seatrial/chaos/fault/object"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/existing"
	"github.com/seatrial/seatrial/clusters/existing/link"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
)

// linked is the label of everything that package existing makes in the API.
const linked = "seatrial.dev/link"

// byKubeconfig makes a cluster with kind and knows it by its kubeconfig only from then on: docker, podman and nerdctl
// on PATH fail the test when they are called.
func byKubeconfig(t *testing.T, log *slog.Logger, name string, workers int, hook string) (clusters.Cluster, string) {
	t.Helper()
	cluster, _ := kindtest.Cluster(t, log, name, workers)
	text, err := cluster.Kubeconfig(t.Context())
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
	c, err := openExisting(t.Context(), log, existing.Options{Kubeconfig: kubeconfig, NodeHook: hook}, "")
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
func openExisting(ctx context.Context, log *slog.Logger, o existing.Options, name string) (clusters.Cluster, error) {
	o.Log, o.FaultControlPlane = log, true
	o.Faults = link.Limits{
		Longest: cmp.Or(o.Faults.Longest, 10*time.Minute), Total: 10 * time.Hour,
		Scripts: []string{link.ScriptSum(nodefacts.Script)},
	}
	for _, d := range definitions() {
		o.Faults.Faults = append(o.Faults.Faults, d.Name)
	}
	p, err := existing.New(o)
	if err != nil {
		return nil, err
	}
	return p.Open(ctx, name)
}

// TestMarksBesideTheCluster has no control-plane node, as in a managed cluster: API objects are marked by the harness,
// and unmarked by it, or by a process beside the cluster if it does not.
func TestMarksBesideTheCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: marks without a control-plane node on a real kind cluster; it needs an engine: make long")
	}
	log, dir := slog.New(slog.NewTextHandler(t.Output(), nil)), t.TempDir()
	made, kubeconfig := byKubeconfig(t, log, "seatrial-dev-marks", 2, "")
	if err := made.(clusters.Closer).Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	cluster, err := openExisting(t.Context(), log, existing.Options{
		Kubeconfig: kubeconfig, NodeSelector: "!node-role.kubernetes.io/control-plane",
		Faults: link.Limits{Longest: 2 * time.Hour}, // A fault that is given up has a long life.
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.(clusters.Closer).Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	watchdog, err := realWatchdog(t.Context(), log, filepath.Join(dir, "outside"), cluster.Name())
	if err != nil {
		t.Fatal(err)
	}
	watchdog.Engine = ""
	if watchdog.Kubeconfig, err = cluster.Kubeconfig(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes := withAgents(t, log, cluster)
	target := faulttest.Target{
		Cluster: cluster, Kube: realKube(t, cluster), RunID: "rmarks", Clock: bootclock.Now, Log: log, Claims: true,
		Watchdog: watchdog,
	}
	defs := []fault.Definition{object.Cordon(), object.Drain(), object.OutOfService(), object.PodQuota()}
	if err := faulttest.OnCluster(t.Context(), defs, target); err != nil {
		t.Error(err)
	}
	for _, def := range []fault.Definition{object.Cordon(), object.PodQuota()} {
		if err := leftAlone(t, def, target, nodes); err != nil {
			t.Errorf("fault %q is left alone: %v", def.Name, err)
		}
	}
	f, err := object.Cordon().New(plan.Fault{Name: "cordon"}, 1, fault.Env{
		Cluster: cluster, Kube: target.Kube, Node: nodes[0], RunID: "rmarksheal", Clock: bootclock.Now, Log: log,
	})
	if err == nil {
		err = f.Inject(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	heal := exec.CommandContext(t.Context(), watchdog.Argv[0], "heal", "--kubeconfig", kubeconfig, "--run",
		"rmarksheal")
	said, err := heal.CombinedOutput()
	if want := "node " + nodes[0].Name() + " uncordoned (seatrial-rmarksheal-1)"; err != nil ||
		!strings.Contains(string(said), want) {
		t.Errorf("heal says %q, %v; want %q", said, err, want)
	}
	if _, err := f.ConfirmHealed(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestFaultsByKubeconfig takes faults of kubelet, runtime, containers and packets through their lives on a cluster that
// is reached by its kubeconfig only. Once the effect of the first is shown, the agent's pod of its node is deleted: all
// the rest goes by the unit, and the pod is not made again.
func TestFaultsByKubeconfig(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: faults by kubeconfig on a real kind cluster; it needs an engine and a node image: make long")
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cluster, _ := byKubeconfig(t, log, "seatrial-dev-kubeconfig", 2, "")
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
	deleted := 0
	for _, def := range []fault.Definition{
		node.KubeletStop(), node.KubeletFreeze(), node.RuntimeKill(), node.ContainerKill(), network.Isolate(),
		network.Loss(), network.Dark(),
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
			r, err := faulttest.Run(t.Context(), def, faulttest.Bench{Env: env, Spec: spec}, func(f history.Fault) {
				if f.Stage == history.StageConfirmed {
					deleted += withoutPod(t, target, env.Node.Name())
				}
			})
			if err != nil || deleted != 1 {
				t.Errorf("%d agents' pods deleted, want 1 in all; %v", deleted, err)
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

// hookScript has power over kind's nodes. With a file "lies" beside it, it does nothing and says that it did; with
// "hangs", it does not end.
const hookScript = `#!/bin/sh
cd "${0%/*}"
[ -e hangs ] && [ "$1" != state ] && sleep 4713
if [ -e lies ]; then
	case $1 in
	stop) touch stopped ;;
	start) rm -f stopped ;;
	state) if [ -e stopped ]; then echo stopped; else echo running; fi ;;
	esac
	exit
fi
case $1 in
state) ENGINE inspect -f "{{.State.Status}}" "$2" | sed s/exited/stopped/ ;;
*) ENGINE "$1" "$2" ;;
esac
`

// TestNodeHook takes nodes down and pauses them by a hook, with one that lies and one that hangs, and with a harness
// that is gone.
func TestNodeHook(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") != "1" {
		t.Skip("NOT RUN: node hooks on a real kind cluster; it needs an engine and a node image: make long")
	}
	log, dir := slog.New(slog.NewTextHandler(t.Output(), nil)), t.TempDir()
	engine, err := exec.LookPath(os.Getenv("SEATRIAL_ENGINE"))
	if err != nil {
		t.Fatal(err)
	}
	hook := filepath.Join(dir, "hook")
	if err := os.WriteFile(hook, []byte(strings.ReplaceAll(hookScript, "ENGINE", engine)), 0o755); err != nil {
		t.Fatal(err)
	}
	cluster, _ := byKubeconfig(t, log, "seatrial-dev-hook", 2, hook)
	watchdog, err := realWatchdog(t.Context(), log, filepath.Join(dir, "outside"), cluster.Name())
	if err != nil {
		t.Fatal(err)
	}
	watchdog.Engine, watchdog.Hook = "", hook
	nodes := withAgents(t, log, cluster)
	target := faulttest.Target{
		Cluster: cluster, Kube: realKube(t, cluster), RunID: "rhook", Clock: bootclock.Now, Log: log,
		Watchdog: watchdog, On: nodes[len(nodes)-1].Name(),
	}
	if err := target.MakeAnchor(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name, file string // A file that makes the hook a bad one.
		def        fault.Definition
		want       string // Part of the error.
	}{
		{"stop", "", node.Stop(), ""},
		{"pause", "", node.Pause(), ""},
		{"crash", "", node.Crash(), ""},
		{"lies", "lies", node.Stop(), "is exited as its provider has it, and the cluster does not show that"},
		{"hangs", "hangs", node.Stop(), "it did not end within 45s"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			env, err := target.Fit(t.Context(), "rhook"+tc.name)
			if err != nil {
				t.Fatal(err)
			}
			if tc.file != "" {
				if err := os.WriteFile(filepath.Join(dir, tc.file), nil, 0o600); err != nil {
					t.Fatal(err)
				}
				defer os.Remove(filepath.Join(dir, tc.file))
			}
			spec := plan.Fault{Name: tc.def.Name, Hold: plan.Duration(3 * time.Second)}
			r, err := faulttest.Run(t.Context(), tc.def, faulttest.Bench{Env: env, Spec: spec}, func(history.Fault) {})
			switch shown := slices.Contains(r.Stages(), history.StageConfirmed); {
			case tc.want == "" && (err != nil || !slices.Contains(r.Stages(), history.StageConfirmedHealed)):
				t.Errorf("stages %q, %v", r.Stages(), err)
			case tc.want != "" && (shown || err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("stages %q, %v; want the error %q", r.Stages(), err, tc.want)
			}
			t.Logf("stages %q, %v", r.Stages(), err)
		})
	}
	if out, _ := exec.Command("pgrep", "-f", "^sleep 4713$").Output(); len(out) > 0 {
		t.Errorf("left by the hook: process %s", out)
	}
	if _, err := target.Fit(t.Context(), "rhookgone"); err != nil {
		t.Fatal(err)
	}
	if err := leftAlone(t, node.Crash(), target, nodes); err != nil {
		t.Errorf("the harness is gone: %v", err)
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

// TestKilledByKubeconfig kills harnesses that reach their cluster by its kubeconfig only, at each stage of eight
// faults. Before the stage is journalled, all agents' pods are deleted first; after it, the harness alone is killed.
// What each has left is undone without it. Then three are killed, and there is no API server when their undo is due.
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
	m.cluster, m.kubeconfig = byKubeconfig(t, m.log, "seatrial-dev-killkubeconfig", 3, "")
	m.kube, m.nodes = realKube(t, m.cluster), withAgents(t, m.log, m.cluster)
	t.Cleanup(func() { // The own session, and then those of harnesses that were killed.
		ctx := context.WithoutCancel(t.Context())
		p, err := existing.New(existing.Options{Kubeconfig: m.kubeconfig, Log: m.log})
		if err == nil {
			err = errors.Join(m.cluster.(clusters.Closer).Close(ctx), p.Clean(ctx, ""))
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err := m.lookBefore(t.Context()); err != nil {
		t.Fatal(err)
	}
	points := slices.DeleteFunc(faulttest.KillPoints(), func(p faulttest.KillPoint) bool {
		return p.Stage == history.StageConfirmedHealed // Nothing is left to undo.
	})
	m.run(t, func(fault.Definition) []faulttest.KillPoint { return points })
	m.report(t, points)
	m.withoutServer(t, node.KubeletFreeze(), network.Partition(), node.RuntimeStop())
}

// withoutServer kills harnesses in the hold of faults on a worker each, and then stops the API server until all undos
// were due. The nodes carry them out in time.
func (m *matrix) withoutServer(t *testing.T, defs ...fault.Definition) {
	const life, longer = 150 * time.Second, 5 * time.Minute // The others are killed and the server stopped before.
	ctx, at := t.Context(), faulttest.KillPoint{Stage: history.StageConfirmed, After: true}
	cfg := fault.Config{
		Step: faulttest.Step(plan.Fault{Name: "apiserver-stop", Life: plan.Duration(longer)}),
		Of:   component("apiserver-stop"), Recorder: &faulttest.Recorder{},
		Env: fault.Env{
			Cluster: m.cluster, Kube: m.kube, Node: m.nodes[0], RunID: runPrefix + "api", Clock: bootclock.Now,
			Log: m.log, Namespace: metav1.NamespaceSystem, Pod: "none",
		},
	}
	server, err := cfg.Of.New(*cfg.Step.Fault, cfg.Step.N, cfg.Env)
	if err != nil {
		t.Fatal(err)
	}
	due, faults := make([]history.Time, len(defs)), make([]fault.Fault, len(defs))
	var group errgroup.Group
	for i, def := range defs {
		group.Go(func() error {
			run := runPrefix + "api-" + def.Name
			env, err := m.fit(ctx, def, m.nodes[1+i], run)
			if err != nil {
				return err
			}
			e := m.assign(def.Name, env, at, run, life)
			if faults[i], err = def.New(e.spec(), 1, env); err != nil {
				return err
			}
			if _, err = e.send(ctx); err != nil {
				return err
			}
			armed, err := e.armed()
			due[i] = armed.Add(e.Life)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	end, err := fault.NewGuard(cfg, server).RunOpen(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if early := slices.Min(due).Sub(bootclock.Now()); early < 0 {
		t.Errorf("the API server was stopped %s after the first undo was due", -early)
	}
	for i, def := range defs {
		on := m.nodes[1+i]
		what := fmt.Sprintf("%s to be undone on node %q", def.Name, on.Name())
		waited := await.Until(ctx, what, time.Second, due[i].Sub(bootclock.Now())+leastLife,
			func(ctx context.Context) (bool, string, error) {
				left, err := m.leftOn(ctx, on, runPrefix+"api-"+def.Name)
				return err == nil && len(left) == 0, strings.Join(left, "; "), err
			})
		t.Logf("without API server: %s undone %s after its deadline, %v", def.Name, bootclock.Now().Sub(due[i]), waited)
		err = errors.Join(err, waited)
	}
	_, away := server.Confirm(ctx)
	if err = errors.Join(err, away, end(ctx)); err != nil {
		t.Error(err)
	}
	for i, f := range faults {
		if err := m.well(ctx, f); err != nil {
			t.Errorf("%s: %v", defs[i].Name, err)
		}
	}
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
