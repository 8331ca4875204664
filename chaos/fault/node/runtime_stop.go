package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// RuntimeStop returns the fault that takes the container runtime away for a time. Containers hang on their shims and go
// on; the kubelet can neither start nor end any, nor ask about them.
//
// What: systemctl stop containerd, which ends its main process alone.
//
// Shown: the unit is inactive, its process is gone, it tells its version to nobody, and the workload's processes and
// their shims of before are all there.
//
// Healed: containerd is started; it is active and answers, the kubelet is healthy, the node's
// lease is renewed, and the node is Ready. A timer on the node does it when nobody heals it, and so does a reboot.
func RuntimeStop() fault.Definition {
	return fault.Definition{
		Name:    "runtime-stop",
		Summary: "Stops containerd on the victim's node and keeps it stopped; containers and their shims go on.",
		Shown: "The unit is inactive, its process is gone, it answers nobody, and the workload's processes and their " +
			"shims are those of before.",
		Healed: "It is started; it is active and answers, the kubelet healthy, the node's lease " +
			"renewed, and the node Ready.",
		Needs: []string{"systemd"},
		// A kubelet without a runtime: nothing can be started or ended, and its node is not ready.
		Takes:    []plan.Part{plan.PartRuntime},
		Upstream: "kubernetes/kubernetes test/e2e_node/restart_test.go, containerd.io/docs: KillMode=process",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			k := &runtimeStop{runtimeKill: newRuntimeKill(env), armed: newArmed(step, env)}
			return k, k.owner.Check()
		},
	}
}

type runtimeStop struct {
	runtimeKill // What runs, and how it is shown to go on and to be back.
	armed
}

// Undo notes what runs; a containerd that others have stopped is an error.
func (k *runtimeStop) Undo(ctx context.Context) ([]undo.Task, error) {
	return k.undoBy(undo.Command("systemctl", "start", containerd)), k.noteAll(ctx)
}

// Inject stops containerd.
func (k *runtimeStop) Inject(ctx context.Context) error {
	out, answers, err := version(ctx, k.env.Node)
	if err != nil {
		return fmt.Errorf("ask containerd for its version: %w", err)
	}
	if !answers {
		return fmt.Errorf("containerd does not tell its version, it says %.80q: %w", out, errSilent)
	}
	_, err = clusters.Run(ctx, k.env.Node, "systemctl", "stop", containerd)
	return err
}

// errSilent is of a runtime whose silence could not be shown.
var errSilent = errors.New("no silence could be shown")

// version asks containerd for its version, and reports whether it answers.
func version(ctx context.Context, node clusters.Node) (out string, answers bool, err error) {
	out, err = clusters.Run(ctx, node, "timeout", "5", "ctr", "version")
	var exit *clusters.ExitError
	if errors.As(err, &exit) {
		return exit.Stderr, false, nil
	}
	return out, err == nil, err
}

// Confirm shows that it is gone and answers nobody, and that the containers go on.
func (k *runtimeStop) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	what := fmt.Sprintf("containerd pid %d to be gone and none in its place", k.old.PID)
	err := await.Until(ctx, what, 200*time.Millisecond, restartBound,
		func(ctx context.Context) (bool, string, error) {
			seen, state, err := k.down(ctx)
			facts = seen
			return err == nil && state == "", state, err
		})
	if err != nil {
		return nil, err
	}
	begin := k.env.Clock()
	_, answers, err := version(ctx, k.env.Node)
	if err != nil {
		return facts, fmt.Errorf("ask containerd for its version: %w", err)
	}
	if answers {
		return facts, errors.New("containerd tells its version although it is stopped")
	}
	silent := fault.Fact{Span: history.Between(begin, k.env.Clock()), Sentence: "containerd tells nobody its version"}
	k.leases, err = evidence.ReadLeases(ctx, k.env)
	return append(facts, silent), err
}

// down looks once whether it is gone and its containers are not. A state that is not empty says why not.
func (k *runtimeStop) down(ctx context.Context) ([]fault.Fact, string, error) {
	begin := k.env.Clock()
	down, state, err := unitDown(ctx, k.env, containerd)
	if err != nil || state != "" {
		return nil, state, err
	}
	pids := append([]int{k.old.PID}, append(pidsOf(k.pods.Processes...), pidsOf(k.shims...)...)...)
	found, err := processes(ctx, k.env.Node, pids, nil)
	if err != nil {
		return nil, "", err
	}
	if same(found.Processes, k.old) {
		return nil, fmt.Sprintf("pid %d is still there", k.old.PID), nil
	}
	live, err := k.containers(found.Processes)
	if err != nil {
		return nil, "", await.Stop(err)
	}
	return []fault.Fact{
		down,
		{Span: history.Between(begin, found.At),
			Sentence: fmt.Sprintf("containerd pid %d, started at %s, is gone", k.old.PID, k.old.Start)},
		{Span: history.At(found.At), Sentence: live},
	}, "", nil
}

// Held shows that it is still gone.
func (k *runtimeStop) Held(ctx context.Context) ([]fault.Fact, error) {
	return still(unitDown(ctx, k.env, containerd))
}

// Heal carries out what is armed.
func (k *runtimeStop) Heal(ctx context.Context) error { return k.armed.Heal(ctx) }

// ConfirmHealed shows that containerd is back and answers, and that the kubelet and the node have got over it.
func (k *runtimeStop) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	err := await.Until(ctx, "containerd to tell its version", 500*time.Millisecond, restartBound,
		func(ctx context.Context) (bool, string, error) {
			begin := k.env.Clock()
			said, answers, err := version(ctx, k.env.Node)
			span := history.Between(begin, k.env.Clock())
			facts = []fault.Fact{{Span: span, Sentence: "containerd tells its version"}}
			return answers, fmt.Sprintf("it says %.80q", said), err
		})
	if err != nil {
		return nil, err
	}
	back, err := k.runtimeKill.ConfirmHealed(ctx)
	return append(facts, back...), err
}
