package network

import (
	"context"
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
)

// PodPartition cuts one pod of the workload off from one other pod only. The rules of Partition apply to the packets
// that the victim's node forwards between their addresses, also when both pods are on that node. A pod created later
// has another address and is not cut off.
//
// The probe connects to the first port that the other pod's containers declare; for the databases that is the server's.
// A cut of one direction is shown by what the kernel counts in the far pod's network namespace.
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

func newPodPartition(p betweenParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
	if env.Peer == "" || env.Peer == env.Pod {
		return nil, fmt.Errorf("partition pod %q: the plan names no peer", env.Pod)
	}
	s := &filtered{Env: env, rules: filter{packets: p.packets}, pod: true}
	s.find = func(ctx context.Context) (sides, error) {
		mine, err := victimEnd(ctx, env)
		if err != nil {
			return sides{}, err
		}
		other, err := podEnd(ctx, env, env.Namespace, env.Peer)
		if err != nil {
			return sides{}, err
		}
		node, err := nodeEnds(ctx, env, env.Node)
		if err != nil {
			return sides{}, err
		}
		return sides{mine: mine, others: []end{other}, beside: []way{{from: node[0], to: mine}}}, nil
	}
	return s, nil
}
