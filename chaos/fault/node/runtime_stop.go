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

// RuntimeStop stops the container runtime for the hold. Containers survive with their shims; the kubelet can neither
// start, stop nor inspect any. A reboot during the hold starts the runtime too.
func RuntimeStop() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "runtime-stop",
		Summary: "Stops containerd on the victim's node and keeps it stopped; containers and their shims keep running.",
		Shown: "The unit is inactive, its process is gone, it does not answer, and the workload's processes and " +
			"their shims go on.",
		Healed: "It is started: it is active and answers, the kubelet healthy, the node's lease renewed, and the " +
			"node Ready.",
		Needs: []string{"systemd"},
		// A kubelet without a runtime can start and stop nothing, and its node is NotReady.
		Takes:    []plan.Part{plan.PartRuntime},
		Upstream: "kubernetes/kubernetes test/e2e_node/restart_test.go, containerd.io/docs: KillMode=process",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return &runtimeStop{newRuntimeKill(env)}, nil })
}

type runtimeStop struct {
	*runtimeKill // Records what runs and shows that it survives.
}

// Undo records what runs and starts containerd. It is an error if containerd does not run.
func (k *runtimeStop) Undo(ctx context.Context) ([]undo.Task, error) {
	return k.Here(undo.Command("systemctl", "start", containerd)), k.noteAll(ctx)
}

// Inject stops containerd alone: systemd would stop a kubelet that requires it too, and would not start it again.
func (k *runtimeStop) Inject(ctx context.Context) error {
	if _, err := k.version(ctx); err != nil {
		return fmt.Errorf("containerd must report its version before the stop: %w", err)
	}
	_, err := clusters.Run(ctx, k.Node, "systemctl", "stop", "--job-mode=ignore-requirements", containerd)
	return err
}

func (k *runtimeStop) version(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	_, err := clusters.Run(ctx, k.Node, "timeout", "5", "ctr", "version")
	if err != nil {
		return nil, err
	}
	return k.Saw(begin, "containerd tells its version"), nil
}

// Confirm shows that containerd is gone and silent, and that the containers survive.
func (k *runtimeStop) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, stopped(k.Env, containerd, k.old, restartBound), k.containersSurvive, k.silent,
		k.NoteLeases(&k.leases))
}

func (k *runtimeStop) containersSurvive(ctx context.Context) ([]fault.Fact, error) {
	now, err := k.Again(ctx, k.watched()...)
	if err != nil {
		return nil, err
	}
	return k.containers(now)
}

// silent shows that containerd does not answer.
func (k *runtimeStop) silent(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	_, err := k.version(ctx)
	var exit *clusters.ExitError
	switch {
	case errors.As(err, &exit):
		return k.Saw(begin, "containerd tells nobody its version"), nil
	case err == nil:
		err = errors.New("containerd still reports its version")
	}
	return nil, err
}

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
