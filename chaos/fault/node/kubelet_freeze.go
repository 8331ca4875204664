package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// KubeletFreeze stops the kubelet's process, which later resumes with outdated state. The undo sends SIGCONT to that
// process, and to no later one with its pid.
func KubeletFreeze() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "kubelet-freeze",
		Summary: "Freezes the kubelet of the victim's node with SIGSTOP; its pods keep running.",
		Shown: "Its process is stopped (state T), its health endpoint and its port do not answer over any family, " +
			"and the node's lease is not renewed while that of another node is.",
		Healed: "Its process gets SIGCONT if it bears our mark; it is active and healthy, the node's lease renewed, " +
			"the node Ready.",
		Needs: []string{"systemd"},
		// The kubelet resumes with its state from before the freeze.
		Takes:    []plan.Part{plan.PartKubelet},
		Upstream: "jepsen.io: process pause (SIGSTOP)",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return &kubeletFreeze{Env: env}, nil })
}

type kubeletFreeze struct {
	fault.Env
	old     probe.Process   // The stopped process.
	pods    probe.Processes // The workload's processes, before the act.
	witness witness
	leases  fault.Leases // As of the freeze.
}

// Undo records the kubelet's process and continues it. It is an error if it is stopped already.
func (k *kubeletFreeze) Undo(ctx context.Context) (_ []undo.Task, err error) {
	if _, k.old, err = mainProcess(ctx, k.Node, kubelet); err != nil {
		return nil, err
	}
	if k.old.Frozen() {
		return nil, fmt.Errorf("kubelet pid %d is stopped already", k.old.PID)
	}
	return k.Here(undo.Thaw(k.old)), nil
}

// Inject records the workload's processes and a node that the kubelet answers, then stops the kubelet's process.
func (k *kubeletFreeze) Inject(ctx context.Context) (err error) {
	if k.pods, err = workload(ctx, k.Env); err != nil {
		return err
	}
	if k.witness, err = kubeletWitness(ctx, k.Env); err != nil {
		return err
	}
	_, err = clusters.Run(ctx, k.Node, undo.Signal("STOP", k.old)...)
	return err
}

// Confirm shows that the process is stopped and silent, and that the pods keep running.
func (k *kubeletFreeze) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("kubelet pid %d to be stopped", k.old.PID)
	return fault.All(ctx, fault.Await(what, 100*time.Millisecond, stopBound, k.frozen), k.NoteLeases(&k.leases),
		k.silent, k.witness.silence, k.LeaseSilent(&k.leases), podsSurvive(k.Env, &k.pods))
}

// frozen checks that the kubelet's process exists and is stopped.
func (k *kubeletFreeze) frozen(ctx context.Context) ([]fault.Fact, error) {
	found, err := k.Frozen(ctx, k.old)
	if err != nil {
		return nil, err
	}
	return fault.Seen(history.At(found.At), "kubelet pid %d, started at %s, is stopped (state T)", k.old.PID,
		k.old.Start), nil
}

// curlTimeout is curl's exit code for a timeout (curl(1), exit codes).
const curlTimeout = 28

// silent shows that the kubelet's health endpoint accepts a connection and does not answer.
func (k *kubeletFreeze) silent(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	health, err := kubeletHealth(k.Env)(ctx)
	var exit *clusters.ExitError
	if errors.As(err, &exit) && exit.ExitCode == curlTimeout {
		return k.Saw(begin, "the kubelet's health endpoint gives no answer"), nil
	}
	if err == nil {
		err = fmt.Errorf("the kubelet's health endpoint answers although its process is stopped: %q", health)
	}
	return nil, err
}

func (k *kubeletFreeze) Held(ctx context.Context) ([]fault.Fact, error) { return k.frozen(ctx) }

// ConfirmHealed shows that the kubelet is healthy and the node Ready.
func (k *kubeletFreeze) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, kubeletHealthy(k.Env), kubeletActive(k.Env), k.NodeBack(&k.leases))
}
