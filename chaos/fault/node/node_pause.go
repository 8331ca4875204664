package node

import (
	"context"
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Pause returns the fault that freezes a whole node, as the host of a virtual machine does that is short of
// something or moves it elsewhere. Every process on it stands still and later goes on as if nothing had been, with a
// database that still believes it is the only one.
//
// What: the node's container is paused. Its network stays, so connections are taken and never answered.
//
// Shown: the container runtime says that it is paused, its kubelet answers another node on none of its addresses, of
// either family, and its lease is not renewed while that of another node is.
//
// Healed: the container is thawed. Its kubelet answers on all of its addresses, by the same boot, its lease is renewed,
// and the node is Ready. A process beside the cluster does it when nobody heals it.
func Pause() fault.Definition {
	return fault.Definition{
		Name:    "node-pause",
		Summary: "Freezes every process on the victim's node, and lets them go on later.",
		Shown: "The runtime has it paused, its kubelet answers on no address of either family, and its lease is not " +
			"renewed while that of another node is.",
		Healed: "It is thawed: the same boot, its kubelet answers on every address, lease renewed, node Ready.",
		Needs:  []string{"power"},
		// What a process does that was away and does not know it.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "jepsen.io: process pause (SIGSTOP), here of a whole node; KEP-2268 non-graceful node shutdown",
		New: func(spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
			b, err := newBeside(spec, step, env, paused)
			if err != nil {
				return nil, err
			}
			return &nodePause{beside: b}, nil
		},
	}
}

type nodePause struct {
	beside
	boot history.Time // Start of the first process.
}

// Inject notes the boot and who is answered, and pauses the node.
func (p *nodePause) Inject(ctx context.Context) error {
	found, err := processes(ctx, p.node, []int{1}, nil)
	if err != nil {
		return err
	}
	if p.witness, err = newWitness(ctx, p.env, "https", kubeletPort, true); err != nil {
		return err
	}
	p.boot = found.PID1Start
	return p.node.Pause(ctx)
}

// ConfirmHealed shows that the node goes on.
func (p *nodePause) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	if p.witness.node != nil {
		answers, err := p.witness.answers(ctx, p.env.Clock, restartBound)
		if err != nil {
			return nil, err
		}
		facts = answers
	}
	begin := p.env.Clock()
	now, err := processes(ctx, p.node, []int{1}, nil)
	if err != nil {
		return facts, err
	}
	if p.boot != 0 {
		if now.PID1Start != p.boot {
			return facts, fmt.Errorf("node %q was booted at %s, and at %s before it was paused: it did not just go on",
				p.node.Name(), now.PID1Start, p.boot)
		}
		facts = append(facts, fault.Fact{Span: history.Between(begin, now.At),
			Sentence: fmt.Sprintf("the first process of node %q is the one of before, started at %s", p.node.Name(),
				p.boot)})
	}
	back, err := kubeletBack(ctx, p.env, p.leases)
	return append(facts, back...), err
}
