package network

import (
	"context"
	"errors"
	"fmt"
	"slices"

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
	s := newFiltered(env, filter{packets: p.packets})
	s.rejoins = true
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
	return &isolate{filtered: s}, nil
}

// isolate also shows the cut between the two pods: a network plugin may forward their packets past the rules.
type isolate struct {
	*filtered
	pods    []way  // Those between the pods whose echo requests were answered before.
	unshown string // Why the cut cannot be shown between the pods.
}

// Inject finds out which ways between the pods are open, and cuts.
func (s *isolate) Inject(ctx context.Context) error {
	mine, err := victimEnd(ctx, s.Env)
	if err == nil {
		var other end
		other, err = podEnd(ctx, s.Env, s.Namespace, s.Peer)
		s.pods = sides{mine: mine, others: []end{other}}.ways()
	}
	if err == nil {
		var before []ping
		before, err = pings(ctx, s.pods, fewEchoes())
		if slices.ContainsFunc(before, func(p ping) bool { return p.Answered == 0 }) {
			err = errors.New("no echo request was answered before")
		}
	}
	if err != nil { // One may not run, or answer nobody: the nodes are cut off from each other all the same.
		s.unshown = err.Error()
	}
	return s.filtered.Inject(ctx)
}

func (s *isolate) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, s.filtered.Confirm, s.podsCut)
}

// podsCut checks that echo requests between the pods go as those between the nodes.
func (s *isolate) podsCut(ctx context.Context) ([]fault.Fact, error) {
	if s.unshown != "" {
		return s.Saw(s.Clock(), "the cut is not shown between the pods: %s", s.unshown), nil
	}
	facts, err := s.answers(s.pods)(ctx)
	if err != nil {
		err = fmt.Errorf("the cut shows between the nodes, and not between %s and %s: %w\n"+
			"  why:  where requests arrive, the network plugin forwards packets of pods past nftables, as with eBPF\n"+
			"  fix:  leave the fault out on such a cluster", s.Pod, s.Peer, err)
	}
	return facts, err
}
