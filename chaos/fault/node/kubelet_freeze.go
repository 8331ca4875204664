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
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// KubeletFreeze returns the fault that freezes the kubelet. It is as good as gone for all others, and later goes on
// with what it was doing, with all that it knew before; its pods go on meanwhile.
//
// What: a mark on the node that says whose it is, and SIGSTOP to the kubelet.
//
// Shown: the kernel has its process stopped, neither its health endpoint nor, for another node, its port on any of the
// node's addresses gives an answer, of either family, and the node's lease is not renewed while that of another node
// is.
//
// Healed: SIGCONT to the process of our mark, when it is still that one. The kubelet is active and healthy, the node's
// lease is renewed by it, and the node is Ready. A timer on the node does it when nobody heals it.
func KubeletFreeze() fault.Definition {
	return fault.Definition{
		Name:    "kubelet-freeze",
		Summary: "Freezes the kubelet of the victim's node with SIGSTOP; its pods go on.",
		Shown: "Its process is stopped, its health endpoint and its port answer nobody over either family, and the " +
			"node's lease is not renewed while that of another node is.",
		Healed: "It goes on if it bears our mark; it is active and healthy, the node's lease renewed, the node Ready.",
		Needs:  []string{"systemd"},
		// A kubelet that acts on what it knew before it was frozen.
		Takes:    []plan.Part{plan.PartKubelet},
		Upstream: "jepsen.io: process pause (SIGSTOP)",
		New: func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			k := &kubeletFreeze{env: env, armed: newArmed(step, env)}
			return k, k.owner.Check()
		},
	}
}

type kubeletFreeze struct {
	env fault.Env
	armed
	old     probe.Process   // The one that was frozen.
	pods    probe.Processes // The workload's, before.
	witness witness
	leases  evidence.Leases // When it was frozen.
}

// Undo notes which process is the kubelet; one that others have frozen is an error.
func (k *kubeletFreeze) Undo(ctx context.Context) (_ []undo.Task, err error) {
	if _, k.old, err = mainProcess(ctx, k.env.Node, kubelet); err != nil {
		return nil, err
	}
	if k.old.Frozen() {
		return nil, fmt.Errorf("kubelet pid %d is stopped already", k.old.PID)
	}
	return k.undoBy(undo.Thaw(k.old)), nil
}

// Inject notes what runs beside the kubelet and who is answered by it, and freezes it.
func (k *kubeletFreeze) Inject(ctx context.Context) (err error) {
	if k.pods, err = workload(ctx, k.env); err != nil {
		return err
	}
	if k.witness, err = newWitness(ctx, k.env, "https", kubeletPort, true); err != nil {
		return err
	}
	_, err = clusters.Run(ctx, k.env.Node, undo.Stop(k.old)...)
	return err
}

// Confirm shows that it stands still, then that it is silent, and then that its pods go on.
func (k *kubeletFreeze) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	what := fmt.Sprintf("kubelet pid %d to be stopped", k.old.PID)
	err := await.Until(ctx, what, 100*time.Millisecond, stopBound, func(ctx context.Context) (bool, string, error) {
		fact, state, err := k.stopped(ctx)
		facts = []fault.Fact{fact}
		return err == nil && state == "", state, err
	})
	if err != nil {
		return nil, err
	}
	if k.leases, err = evidence.ReadLeases(ctx, k.env); err != nil {
		return facts, err
	}
	deaf, err := k.deaf(ctx)
	if err != nil {
		return facts, err
	}
	silence, err := k.witness.silence(ctx, k.env.Clock, silentBound)
	if err != nil {
		return facts, err
	}
	facts = append(append(facts, deaf), silence...)
	silent, err := evidence.LeaseSilent(ctx, k.env, k.leases, silenceBound)
	if err != nil {
		return facts, err
	}
	facts = append(facts, silent)
	live, err := podsGoOn(ctx, k.env, k.pods)
	return append(facts, live...), err
}

// stopped looks once whether the process of before is there and stopped. A state that is not empty says why not.
func (k *kubeletFreeze) stopped(ctx context.Context) (fault.Fact, string, error) {
	found, err := processes(ctx, k.env.Node, pidsOf(k.old), nil)
	if err != nil {
		return fault.Fact{}, "", err
	}
	if !same(found.Processes, k.old) {
		return fault.Fact{}, "", await.Stop(fmt.Errorf("kubelet pid %d is gone: it was not just frozen", k.old.PID))
	}
	if p, _ := find(found.Processes, k.old.PID); !p.Frozen() {
		return fault.Fact{}, fmt.Sprintf("kubelet pid %d is in state %s, not stopped", p.PID, p.State), nil
	}
	return fault.Fact{Span: history.At(found.At), Sentence: fmt.Sprintf(
		"kubelet pid %d, started at %s, is stopped (state T)", k.old.PID, k.old.Start)}, "", nil
}

// deaf shows that its health endpoint takes a question and gives no answer.
func (k *kubeletFreeze) deaf(ctx context.Context) (fault.Fact, error) {
	begin := k.env.Clock()
	state, err := unhealthy(ctx, k.env.Node)
	var exit *clusters.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode == curlTimeout:
		return fault.Fact{Span: history.Between(begin, k.env.Clock()),
			Sentence: "the kubelet's health endpoint gives no answer"}, nil
	case err != nil:
		return fault.Fact{}, err
	}
	return fault.Fact{}, fmt.Errorf("the kubelet's health endpoint answers although its process is stopped: %q", state)
}

// Held shows that it is still stopped.
func (k *kubeletFreeze) Held(ctx context.Context) ([]fault.Fact, error) {
	return still(k.stopped(ctx))
}

// ConfirmHealed shows that the kubelet goes on and that the node is well.
func (k *kubeletFreeze) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	healthy, err := kubeletHealthy(ctx, k.env)
	if err != nil {
		return nil, err
	}
	back, err := kubeletBack(ctx, k.env, k.leases)
	return append([]fault.Fact{healthy}, back...), err
}
