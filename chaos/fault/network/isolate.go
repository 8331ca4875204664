package network

import (
	"context"
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// Isolate cuts the victim's node off from the node of another pod of the workload only, with the rules of Partition.
// Both nodes still reach the control plane.
func Isolate() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "node-isolate",
		Summary: "Cuts the victim's node off from the node of another pod of the workload, IPv4 and IPv6.",
		Shown: "No probe connects between the two nodes over any family, no echo request between the two pods is " +
			"answered, if some were before, established flows go dead, and both ways between the victim and the " +
			"control plane are open; only the one to it, where that is on no node.",
		Healed:   "The nftables table is deleted; all probes connect, the lease is renewed, and the node is Ready.",
		Needs:    []string{"nftables", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "cloudnative-pg#7407",
		Example:  plan.Params{"peer": 1},
	}, newIsolate)
}

func newIsolate(p betweenParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
	switch {
	case env.PeerNode == nil:
		return nil, fmt.Errorf("isolate node %q: the plan names no peer", env.Node.Name())
	case env.PeerNode.Name() == env.Node.Name():
		return nil, fmt.Errorf("isolate node %q: %s and %s are both on it; choose another peer, or use pod-partition",
			env.Node.Name(), env.Pod, env.Peer)
	}
	s := &filtered{Env: env, rules: filter{packets: p.packets}, rejoins: true}
	s.find = func(ctx context.Context) (sides, error) {
		found, err := between(ctx, env, []clusters.Node{env.PeerNode})
		if err != nil {
			return found, err
		}
		open := sides{mine: found.mine}
		if open.others, err = controlPlane(ctx, env); err != nil {
			return found, err
		}
		for _, w := range open.ways() {
			w.direction = ""
			found.beside = append(found.beside, w)
		}
		return found, nil
	}
	return &isolate{s}, nil
}

// isolate also shows the cut between the two pods.
type isolate struct{ *filtered }

// Inject finds out which ways between the pods are open, and cuts.
func (s *isolate) Inject(ctx context.Context) error {
	s.notePods(ctx, func(mine end) ([]way, error) {
		other, err := podEnd(ctx, s.Env, s.Namespace, s.Peer)
		return sides{mine: mine, others: []end{other}}.ways(), err
	})
	return s.filtered.Inject(ctx)
}

func (s *isolate) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, s.filtered.Confirm, s.podsCut)
}
