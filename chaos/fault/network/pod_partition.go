package network

import (
	"context"
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// PodPartition returns the fault that cuts one pod of the workload off from another, and from nobody else.
//
// What: a table of our own in the nftables of the victim's node drops every packet that it forwards between the two
// pods' addresses, IPv4 and IPv6, those of established flows too, also when both pods are on that node. It can be
// limited to one direction, and to established or to new TCP connections; and it can reject instead of dropping. The
// addresses are those of the pods that were there when it began: a pod that is made anew has another one.
//
// Shown: from within the network namespace of either pod, no echo request to the other is answered, and no probe
// connects to the port that the other's container declares first, MySQL's of the databases; flows between them go dead;
// the victim still answers its node. One direction alone is shown as it is of node-partition, by what the kernel counts
// in the namespace of the far pod.
//
// Healed: the table is deleted; every probe from within either pod connects and is answered. The kernel takes the
// elements out of the sets, and a timer on the node the table, when nobody heals it.
//
// Upstream: the partition between members of a database, as of cloudnative-pg#7407; NetworkChaos partition with a
// target, of which chaos-mesh#4477 tells that its direction was ignored.
func PodPartition() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "pod-partition",
		Summary: "Cuts the victim off from another pod of the workload, IPv4 and IPv6, established flows included.",
		Shown: "From within either pod, no echo request to the other is answered and no probe of its port connects, " +
			"established flows go dead, and the victim still answers its node.",
		Healed:   "The nftables table is deleted; all probes from within either pod connect.",
		Needs:    []string{"nftables", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "chaos-mesh#4477",
		Example:  plan.Params{"peer": 1},
	}, newPodPartition)
}

func newPodPartition(p betweenParams, spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
	s, err := newSevered(severing{packets: p.packets}, spec, step, env)
	if err != nil {
		return nil, err
	}
	if env.Peer == "" || env.Peer == env.Pod {
		return nil, fmt.Errorf("partition pod %q: it is not said from whom", env.Pod)
	}
	s.own = true
	s.find = func(ctx context.Context) (sides, error) {
		mine, err := podEnd(ctx, env, env.Pod)
		if err != nil {
			return sides{}, err
		}
		if mine.node.Name() != env.Node.Name() {
			return sides{}, fmt.Errorf("pod %q has moved from node %q to %q", env.Pod, env.Node.Name(),
				mine.node.Name())
		}
		other, err := podEnd(ctx, env, env.Peer)
		if err != nil {
			return sides{}, err
		}
		node, err := nodeEnd(ctx, env, env.Node, 0)
		return sides{mine: mine, others: []end{other}, beside: []way{{from: node, to: mine}}}, err
	}
	return s, nil
}
