package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// RuntimeStop takes the container runtime away for a time. Containers hang on their shims and go on; the kubelet can
// neither start nor end any, nor ask about them. A reboot in between starts it as well.
func RuntimeStop() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "runtime-stop",
		Summary: "Stops containerd on the victim's node and keeps it stopped; containers and their shims go on.",
		Shown: "The unit is inactive, its process is gone, it does not answer, and the workload's processes and " +
			"their shims go on.",
		Healed: "It is started: it is active and answers, the kubelet healthy, the node's lease renewed, and the " +
			"node Ready.",
		Needs: []string{"systemd"},
		// A kubelet without a runtime: nothing can be started or ended, and its node is not ready.
		Takes:    []plan.Part{plan.PartRuntime},
		Upstream: "kubernetes/kubernetes test/e2e_node/restart_test.go, containerd.io/docs: KillMode=process",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return &runtimeStop{newRuntimeKill(env)}, nil })
}

type runtimeStop struct {
	*runtimeKill // What runs, and how it is shown to go on and to be back.
}

// Undo records what runs, and fails if containerd does not.
func (k *runtimeStop) Undo(ctx context.Context) ([]undo.Task, error) {
	return k.Here(undo.Command("systemctl", "start", containerd)), k.noteAll(ctx)
}

// Inject stops containerd.
func (k *runtimeStop) Inject(ctx context.Context) error {
	if _, err := k.version(ctx); err != nil {
		return fmt.Errorf("containerd does not tell its version, so no silence could be shown: %w", err)
	}
	_, err := clusters.Run(ctx, k.Node, "systemctl", "stop", containerd)
	return err
}

// version looks whether containerd tells its version.
func (k *runtimeStop) version(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	_, err := clusters.Run(ctx, k.Node, "timeout", "5", "ctr", "version")
	if err != nil {
		return nil, err
	}
	return k.Saw(begin, "containerd tells its version"), nil
}

// Confirm shows that it is gone and answers nobody, and that the containers go on.
func (k *runtimeStop) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, stopped(k.Env, containerd, k.old, restartBound), k.goOn, k.silent, k.NoteLeases(&k.leases))
}

// goOn shows that the containers go on.
func (k *runtimeStop) goOn(ctx context.Context) ([]fault.Fact, error) {
	now, err := k.Again(ctx, k.watched()...)
	if err != nil {
		return nil, err
	}
	return k.containers(now)
}

// silent shows that containerd gives no answer.
func (k *runtimeStop) silent(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	_, err := k.version(ctx)
	var exit *clusters.ExitError
	switch {
	case errors.As(err, &exit):
		return k.Saw(begin, "containerd tells nobody its version"), nil
	case err == nil:
		err = errors.New("containerd tells its version although it is stopped")
	}
	return nil, err
}

// Held shows that it is still gone.
func (k *runtimeStop) Held(ctx context.Context) ([]fault.Fact, error) {
	return k.UnitDown(containerd)(ctx)
}

func (k *runtimeStop) Heal(ctx context.Context) error { return k.CarryOut(ctx) }

// ConfirmHealed shows that containerd answers, the kubelet is healthy, and the node Ready.
func (k *runtimeStop) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx,
		fault.Await("containerd to tell its version", 500*time.Millisecond, restartBound, k.version),
		k.runtimeKill.ConfirmHealed)
}
