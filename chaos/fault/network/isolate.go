package network

import (
	"context"
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Isolate returns the fault that cuts the victim's node off from the node of another pod of the workload, and from no
// other: the control plane still reaches both.
//
// What: a table of our own in the victim's nftables drops every packet between the two nodes and between their pods,
// IPv4 and IPv6, those of established flows too. It can be limited to one direction, and to established or to new TCP
// connections; and it can reject instead of dropping.
//
// Shown: no probe connects, over any family, from either node to the kubelet of the other, nor by ICMP; flows between
// them go dead; the victim still connects to the API server, and is connected to by it. One direction alone is shown
// as it is of node-partition.
//
// Healed: the table is deleted; every probe connects, the lease is renewed, the node is Ready. The kernel takes the
// elements out of the sets, and a timer on the node the table, when nobody heals it.
//
// Upstream: cloudnative-pg#7407, split brain after a partition between the nodes of a primary and of its replicas.
func Isolate() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "node-isolate",
		Summary: "Cuts the victim's node off from the node of another pod of the workload, IPv4 and IPv6.",
		Shown: "No probe connects between the two nodes over any family, established flows go dead, and both ways " +
			"between the victim and the control plane are open.",
		Healed:   "The nftables table is deleted; all probes connect, the lease is renewed, and the node is Ready.",
		Needs:    []string{"nftables", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "cloudnative-pg#7407",
		Example:  plan.Params{"peer": 1},
	}, newIsolate)
}

func newIsolate(p betweenParams, spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
	s, err := newSevered(severing{packets: p.packets}, spec, step, env)
	if err != nil {
		return nil, err
	}
	switch {
	case env.PeerNode == nil:
		return nil, fmt.Errorf("isolate node %q: it is not said from whom", env.Node.Name())
	case env.PeerNode.Name() == env.Node.Name():
		return nil, fmt.Errorf("isolate node %q: %s and %s are both on it; choose another peer, or use pod-partition",
			env.Node.Name(), env.Pod, env.Peer)
	}
	s.find = func(ctx context.Context) (sides, error) {
		mine, err := nodeEnd(ctx, env, env.Node, kubeletPort)
		if err != nil {
			return sides{}, err
		}
		other, err := nodeEnd(ctx, env, env.PeerNode, kubeletPort)
		if err != nil {
			return sides{}, err
		}
		found := sides{mine: mine, others: []end{other}}
		masters, err := controlPlane(ctx, env)
		for _, m := range masters {
			found.beside = append(found.beside, way{from: mine, to: m}, way{from: m, to: mine})
		}
		return found, err
	}
	return &rejoining{severed: s}, nil
}
