package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// KubeletFreeze stops the kubelet's process, which later goes on with what it was doing and with all that it knew
// before. The undo sends SIGCONT to that process, and to no later one that has its pid.
func KubeletFreeze() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "kubelet-freeze",
		Summary: "Freezes the kubelet of the victim's node with SIGSTOP; its pods go on.",
		Shown: "Its process is stopped, its health endpoint and its port answer nobody over either family, and the " +
			"node's lease is not renewed while that of another node is.",
		Healed: "It goes on if it bears our mark; it is active and healthy, the node's lease renewed, the node Ready.",
		Needs:  []string{"systemd"},
		// A kubelet that acts on what it knew before it was frozen.
		Takes:    []plan.Part{plan.PartKubelet},
		Upstream: "jepsen.io: process pause (SIGSTOP)",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return &kubeletFreeze{Env: env}, nil })
}

type kubeletFreeze struct {
	fault.Env
	old     probe.Process   // The one that was frozen.
	pods    probe.Processes // The workload's, before.
	witness witness
	leases  fault.Leases // When it was frozen.
}

// Undo notes which process is the kubelet; one that others have frozen is an error.
func (k *kubeletFreeze) Undo(ctx context.Context) (_ []undo.Task, err error) {
	if _, k.old, err = mainProcess(ctx, k.Node, kubelet); err != nil {
		return nil, err
	}
	if k.old.Frozen() {
		return nil, fmt.Errorf("kubelet pid %d is stopped already", k.old.PID)
	}
	return k.Here(undo.Thaw(k.old)), nil
}

// Inject notes what runs beside the kubelet and who is answered by it, and freezes it.
func (k *kubeletFreeze) Inject(ctx context.Context) (err error) {
	if k.pods, err = workload(ctx, k.Env); err != nil {
		return err
	}
	if k.witness, err = newWitness(ctx, k.Env, "https", kubeletPort, true); err != nil {
		return err
	}
	_, err = clusters.Run(ctx, k.Node, undo.Stop(k.old)...)
	return err
}

// Confirm shows that it stands still, then that it is silent, and then that its pods go on.
func (k *kubeletFreeze) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("kubelet pid %d to be stopped", k.old.PID)
	return fault.All(ctx, fault.Await(what, 100*time.Millisecond, stopBound, k.frozen), k.NoteLeases(&k.leases),
		k.silent, k.witness.silence, k.LeaseSilent(&k.leases), podsGoOn(k.Env, &k.pods))
}

// frozen looks whether the process of before is there and stopped.
func (k *kubeletFreeze) frozen(ctx context.Context) ([]fault.Fact, string, error) {
	found, err := k.Again(ctx, k.old)
	if err != nil {
		return nil, "", err
	}
	if !found.Lives(k.old) {
		return nil, "", await.Stop(fmt.Errorf("kubelet pid %d is gone: it was not just frozen", k.old.PID))
	}
	if p, _ := found.Find(k.old.PID); !p.Frozen() {
		return nil, fmt.Sprintf("kubelet pid %d is in state %s, not stopped", p.PID, p.State), nil
	}
	return []fault.Fact{{Span: history.At(found.At), Sentence: fmt.Sprintf(
		"kubelet pid %d, started at %s, is stopped (state T)", k.old.PID, k.old.Start)}}, "", nil
}

// curlTimeout is how curl exits when no answer came in time (curl(1), exit codes).
const curlTimeout = 28

// silent shows that its health endpoint takes a question and gives no answer.
func (k *kubeletFreeze) silent(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	state, err := unhealthy(ctx, k.Node)
	var exit *clusters.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode == curlTimeout:
		return k.Saw(begin, "the kubelet's health endpoint gives no answer"), nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("the kubelet's health endpoint answers although its process is stopped: %q", state)
}

// Held shows that it is still stopped.
func (k *kubeletFreeze) Held(ctx context.Context) ([]fault.Fact, error) {
	return fault.Once(ctx, k.frozen)
}

// Heal carries out what is armed.
func (k *kubeletFreeze) Heal(ctx context.Context) error { return k.CarryOut(ctx) }

// ConfirmHealed shows that the kubelet goes on and that the node is well.
func (k *kubeletFreeze) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, kubeletHealthy(k.Env), kubeletBack(k.Env, &k.leases))
}
