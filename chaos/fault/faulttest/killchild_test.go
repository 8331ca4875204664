package faulttest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/chaosmesh"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/existing"
	"github.com/seatrial/seatrial/clusters/kind"
)

// assignmentVar is the environment variable that makes the test binary a harness, which runs one fault and is killed.
const assignmentVar = "SEATRIAL_TEST_ASSIGNMENT"

// assignment is the input of such a harness.
type assignment struct {
	Engine     string            `json:"engine"`
	Kubeconfig string            `json:"kubeconfig"` // Where the provider keeps one.
	Cluster    string            `json:"cluster"`
	Fault      string            `json:"fault"`
	Node       string            `json:"node"`
	Pod        string            `json:"pod"`
	Peer       string            `json:"peer"` // Of a fault between two: the other pod, and its node.
	PeerNode   string            `json:"peerNode"`
	Namespace  string            `json:"namespace"`
	Run        string            `json:"run"`
	At         string            `json:"at"` // A KillPoint; empty to live.
	Journal    string            `json:"journal"`
	Watchdog   undo.HostWatchdog `json:"watchdog"`
	Life       time.Duration     `json:"life"`
	Hold       time.Duration     `json:"hold"`
	Forget     bool              `json:"forget"`   // The journal is deleted before the harness is killed.
	Existing   bool              `json:"existing"` // The cluster is reached by its kubeconfig.
	NoPods     bool              `json:"noPods"`   // The agents' pods are deleted before the harness is killed.
}

// isAssigned runs the assignment in the environment, if there is one.
func isAssigned() (code int, is bool) {
	text := os.Getenv(assignmentVar)
	if text == "" {
		return 0, false
	}
	var e assignment
	err := json.Unmarshal([]byte(text), &e)
	if err == nil {
		err = e.carryOut(context.Background())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1, true
	}
	return 0, true
}

// carryOut is the harness: the guard, the journal on disk, and the nodes through the engine.
func (e assignment) carryOut(ctx context.Context) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	cluster, err := e.open(ctx, log)
	if err != nil {
		return err
	}
	env, err := e.env(ctx, cluster, log)
	if err != nil {
		return err
	}
	all := append(definitions(), chaosmesh.Experiment())
	i := slices.IndexFunc(all, func(d fault.Definition) bool { return d.Name == e.Fault })
	if i < 0 {
		return fmt.Errorf("fault %q is not known", e.Fault)
	}
	spec := e.spec()
	f, err := all[i].New(spec, 1, env)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(e.Journal, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	var kept fault.Journal = undo.NewJournal(file)
	if e.At != "" {
		at, err := faulttest.ParseKillPoint(e.At)
		if err != nil {
			return err
		}
		kept = faulttest.Killer{Journal: kept, At: at, Die: func() {
			if e.NoPods {
				e.anyPods(ctx, env, os.Stderr)
			}
			if e.Forget {
				_ = os.Remove(e.Journal) // Who sent it looks.
			}
			die()
		}}
	}
	cfg := fault.Config{
		Step: faulttest.Step(spec), Of: all[i], Env: env, Recorder: &faulttest.Recorder{}, Journal: kept,
	}
	return errors.Join(fault.NewGuard(cfg, f).Run(ctx), file.Close())
}

func (e assignment) open(ctx context.Context, log *slog.Logger) (clusters.Cluster, error) {
	if e.Existing {
		return openExisting(ctx, log, existing.Options{Kubeconfig: e.Kubeconfig}, e.Cluster)
	}
	provider, err := kind.New(kind.Options{Engine: e.Engine, KubeconfigPath: e.Kubeconfig, Log: log})
	if err != nil {
		return nil, err
	}
	return provider.Open(ctx, e.Cluster)
}

// die ends this process at once, without deferred calls.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // It cannot fail, and does not return.
	select {}
}

func (e assignment) spec() plan.Fault {
	s := spec(e.Fault)
	s.Hold, s.Life = plan.Duration(e.Hold), plan.Duration(e.Life)
	if call, ok := s.Params["csi"].(plan.Params); ok {
		call["every"] = true // The pod has no volume of the driver.
	}
	return s
}

func (e assignment) env(ctx context.Context, cluster clusters.Cluster, log *slog.Logger) (fault.Env, error) {
	env := fault.Env{
		Cluster: cluster, Pod: e.Pod, Namespace: e.Namespace, RunID: e.Run, Clock: bootclock.Now, Log: log,
		Watchdog: e.Watchdog,
	}
	kubeconfig, err := cluster.Kubeconfig(ctx)
	if err != nil {
		return env, err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return env, err
	}
	if env.Kube, err = kubernetes.NewForConfig(config); err != nil {
		return env, err
	}
	nodes, err := cluster.Nodes(ctx)
	if err != nil {
		return env, err
	}
	i := slices.IndexFunc(nodes, func(n clusters.Node) bool { return n.Name() == e.Node })
	if i < 0 {
		return env, fmt.Errorf("node %q is not there", e.Node)
	}
	env.Node, env.Peer = nodes[i], e.Peer
	if e.Peer == "" {
		return env, nil
	}
	if i = slices.IndexFunc(nodes, func(n clusters.Node) bool { return n.Name() == e.PeerNode }); i < 0 {
		return env, fmt.Errorf("node %q is not there", e.PeerNode)
	}
	env.PeerNode = nodes[i]
	return env, nil
}

// send runs an assignment in a process of its own and returns once it was killed. If it ended otherwise, the error has
// its output.
func (e assignment) send(ctx context.Context) (killed history.Time, err error) {
	text, err := json.Marshal(e)
	if err != nil {
		return 0, err
	}
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), assignmentVar+"="+string(text))
	cmd.Stdout, cmd.Stderr = &said, &said
	err = cmd.Run()
	killed = bootclock.Now()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL && ctx.Err() == nil {
		return killed, nil
	}
	tail := said.Bytes()[max(0, said.Len()-2000):]
	return killed, fmt.Errorf("it was not killed %s: %w: %s", e.At, errors.Join(err, ctx.Err()), tail)
}

// armed returns when the undo was armed, 0 if the journal does not say.
func (e assignment) armed() (history.Time, error) {
	file, err := os.Open(e.Journal)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	record, err := undo.ReadJournal(file)
	for _, entry := range record.Entries {
		if entry.Stage == history.StageArmed {
			return entry.At, err
		}
	}
	return 0, err
}
