package faulttest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubefake "k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

// nowhere is a journal that discards its entries.
type nowhere struct{}

func (nowhere) Append(string, history.Time, history.Fault) error { return nil }

// mortal returns a function that cuts the harness off: from then on nothing reaches a node or the API server until it
// is reconnected.
func (w *world) mortal(b faulttest.Bench) (kill, revive func()) {
	dead := false
	inner := b.Env.Kube
	if s, ok := inner.(server); ok {
		inner = s.Interface
	}
	kube := inner.(*kubefake.Clientset)
	kube.PrependReactor("*", "*", func(k8stesting.Action) (bool, runtime.Object, error) {
		return dead, nil, errors.New("the harness is dead")
	})
	kill = func() {
		dead = true
		w.cluster.Transcript.CrashAt(1, fake.CrashError)
	}
	revive = func() {
		dead = false
		w.cluster.Transcript.CrashAt(0, fake.CrashNever)
	}
	return kill, revive
}

// left returns what a run has left in the world without undoing it.
func (w *world) left(ctx context.Context, b faulttest.Bench) ([]string, error) {
	var out []string
	nodes, err := b.Env.Cluster.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range nodes {
		armed, err := undo.Armed(ctx, n, nil)
		if err != nil {
			return nil, err
		}
		for _, r := range armed {
			out = append(out, n.Name()+": "+r.Owner.Name())
		}
	}
	quotas, err := b.Env.Kube.CoreV1().ResourceQuotas("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, q := range quotas.Items {
		out = append(out, "quota "+q.Name)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.control()
	out = append(out, w.away()...)
	for name, m := range w.nodes {
		n := w.known[name]
		switch {
		case m.stopped:
			out = append(out, name+": the kubelet is stopped")
		case n == nil:
			out = append(out, name+": there is no such Node")
		default:
			out = append(out, odd(n)...)
		}
	}
	slices.Sort(out)
	return out, nil
}

// odd returns how a Node of the world differs from its start.
func odd(n *corev1.Node) []string {
	var out []string
	for _, t := range n.Spec.Taints {
		if t.Key != "dedicated" {
			out = append(out, n.Name+": taint "+t.Key)
		}
	}
	if n.Spec.Unschedulable {
		out = append(out, n.Name+": unschedulable")
	}
	for key := range maps.Keys(n.Annotations) {
		if key != "made-by" {
			out = append(out, n.Name+": annotation "+key)
		}
	}
	if n.Labels["zone"] != "one" {
		out = append(out, n.Name+": label zone is lost")
	}
	return out
}

// TestKilledAtEveryStep kills the harness right before and right after each stage of every fault is journalled. Nobody
// heals: the effect must end by itself when the fault's life is over.
func TestKilledAtEveryStep(t *testing.T) {
	for _, def := range definitions() {
		for _, at := range faulttest.KillPoints() {
			t.Run(def.Name+"/"+at.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					b := w.bench(t, def.Name)
					kill, revive := w.mortal(b)
					killed := killedAt(t, def, b, faulttest.Killer{Journal: nowhere{}, At: at, Die: kill})
					if !killed && at.Stage != history.StageArmed {
						t.Fatalf("it never came to %s", at)
					}
					aloneUntilHealed(t, w, def, b, revive)
				})
			})
		}
	}
}

// killedAt runs a fault until the harness dies, and reports whether it did.
func killedAt(t *testing.T, def fault.Definition, b faulttest.Bench, j faulttest.Killer) bool {
	trial, stop := context.WithCancel(t.Context())
	defer stop()
	killed, die := false, j.Die
	j.Die = func() {
		killed = true
		die()
		stop()
	}
	f, err := def.New(b.Spec, 1, b.Env)
	if err != nil {
		t.Fatal(err)
	}
	cfg := fault.Config{
		Step: faulttest.Step(b.Spec), Of: def, Env: b.Env, Recorder: &faulttest.Recorder{}, Journal: j,
	}
	if err := fault.NewGuard(cfg, f).Run(trial); (err != nil) != killed {
		t.Errorf("killed: %t, error %v", killed, err)
	}
	return killed
}

// undoTakes is how long to wait for an undo; that of a Node waits for its kubelet to register.
const undoTakes = 5 * time.Second

// aloneUntilHealed waits for the life of a fault and checks that nothing is left.
func aloneUntilHealed(t *testing.T, w *world, def fault.Definition, b faulttest.Bench, revive func()) {
	t.Helper()
	time.Sleep(max(def.Life(b.Spec), 15*time.Second) + undoTakes)
	revive()
	left, err := w.left(t.Context(), b)
	if err != nil || len(left) > 0 {
		t.Errorf("left after %s: %s, %v", def.Life(b.Spec), strings.Join(left, "; "), err)
	}
}

// TestKilledAtEveryAct kills the harness at its first act, its second and so on: before the act, and after it but
// before its answer. Nobody heals.
func TestKilledAtEveryAct(t *testing.T) {
	for _, def := range definitions() {
		for name, mode := range map[string]fake.CrashMode{"before": fake.CrashError, "after": fake.CrashHalf} {
			t.Run(def.Name+"/"+name, func(t *testing.T) {
				for _, n := range crashPoints(t, def) {
					synctest.Test(t, func(t *testing.T) {
						w := newWorld()
						b := w.bench(t, def.Name)
						_, revive := w.mortal(b)
						w.cluster.Transcript.CrashAt(n, mode)
						_, err := faulttest.Run(t.Context(), def, b, nil)
						done := len(w.cluster.Transcript.Acts()) < n
						if (err == nil) != done {
							t.Errorf("act %d: %v", n, err)
						}
						aloneUntilHealed(t, w, def, b, revive)
					})
				}
			})
		}
	}
}

// late is a cluster whose nodes answer with a delay.
type late struct {
	clusters.Cluster
	by time.Duration
}

// Nodes returns the nodes.
func (l late) Nodes(ctx context.Context) ([]clusters.Node, error) {
	nodes, err := l.Cluster.Nodes(ctx)
	for i, n := range nodes {
		nodes[i] = lateNode{n.(clusters.PowerNode), l.by}
	}
	return nodes, err
}

type lateNode struct {
	clusters.PowerNode
	by time.Duration
}

// Exec runs a command and delays its answer.
func (l lateNode) Exec(ctx context.Context, cmd clusters.Command) (clusters.Result, error) {
	res, err := l.PowerNode.Exec(ctx, cmd)
	select {
	case <-time.After(l.by):
	case <-ctx.Done():
		return clusters.Result{}, fmt.Errorf("run %q: %w", cmd.Argv, ctx.Err())
	}
	return res, err
}

// Reset resets the node at once.
func (l lateNode) Reset(ctx context.Context) error { return l.PowerNode.(clusters.Resetter).Reset(ctx) }

// TestAnswersThatComeLate delays the answer of every command: by a second, which a fault must tolerate, and by more
// than any bound. Nothing may be left either way.
func TestAnswersThatComeLate(t *testing.T) {
	for _, by := range []time.Duration{time.Second, 20 * time.Second} {
		t.Run(by.String(), func(t *testing.T) {
			each(t, func(t *testing.T, def fault.Definition, w *world, b faulttest.Bench) {
				b.Env.Cluster = late{b.Env.Cluster, by}
				b.Env.Node = lateNode{b.Env.Node.(clusters.PowerNode), by}
				r, err := faulttest.Run(t.Context(), def, b, nil)
				if by == time.Second && err != nil {
					t.Errorf("got %v, stages %q", err, r.Stages())
				}
				if err == nil && !slices.Contains(r.Stages(), history.StageConfirmedHealed) {
					t.Errorf("no error, and stages %q", r.Stages())
				}
				aloneUntilHealed(t, w, def, b, func() {})
			})
		})
	}
}

func TestKillPointsHaveNames(t *testing.T) {
	for _, p := range faulttest.KillPoints() {
		got, err := faulttest.ParseKillPoint(p.String())
		if err != nil || got != p {
			t.Errorf("%s: got %v, %v", p, got, err)
		}
	}
	if _, err := faulttest.ParseKillPoint("before failed"); err == nil {
		t.Error("a stage that nobody is killed at is taken")
	}
}
