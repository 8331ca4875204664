package network

import (
	"context"
	"errors"
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// Partition returns the fault that cuts a node off from the control plane, and nothing else: its pods go on, and the
// other workers reach them.
//
// What: a table of our own in the victim's nftables drops every packet from and to the control plane nodes and their
// pods, IPv4 and IPv6, those of established flows too. It can be limited to one direction, and to the TCP connections
// that were established when it began or to new ones; and it can reject instead of dropping: a reset for TCP, an ICMP
// error for the rest.
//
// Shown: no probe connects, over any family, from the node to the API server or from the control plane to the
// kubelet, not by ICMP either; flows that were established before the cut go dead; the node's lease is not renewed
// while that of another node is. A partition must be whole: limiting the families of the cut does not limit what must
// be shown.
//
// One direction alone keeps TCP from connecting either way, since every connection needs both. It is told by what
// arrives: echo requests are counted by the kernel of the far end, and those of the open direction must arrive there,
// unanswered, while none of the cut one does; and the counters of our own rules must have cut packets of that direction
// alone. New connections alone: established flows and the lease go on. Established ones alone: they go dead, and what
// is opened then connects.
//
// Healed: the table is deleted; every probe connects, the lease is renewed, the node is Ready. The kernel takes the
// elements out of the sets, and a timer on the node the table, when nobody heals it.
//
// Upstream: kubernetes#61832; partitions that leave established flows, and directions that are ignored, are known of
// other tools as chaos-mesh#1662 and chaos-mesh#4477.
func Partition() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "node-partition",
		Summary: "Cuts the victim's node off from the control plane, IPv4 and IPv6, established flows included.",
		Shown: "No probe connects in either direction over any family, established flows go dead, and the node's " +
			"lease is not renewed while that of another node is. Of one direction alone: echo requests of the other " +
			"arrive.",
		Healed: "The nftables table is deleted; all probes connect, the lease is renewed, and the node is Ready.",
		Needs:  []string{"nftables", "systemd"},
		// A cut-off node goes on running what was moved away from it.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "k/k#61832",
		Example:  plan.Params{"families": []string{"ipv4", "ipv6"}},
	}, newPartition)
}

// partition is severed between a node and the control plane. The lease goes that way.
type partition struct {
	*rejoining
}

func newPartition(p partitionParams, spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
	s, err := newSevered(severing{Families: p.Families, packets: p.packets}, spec, step, env)
	if err != nil {
		return nil, err
	}
	if env.Node.Role() == clusters.RoleControlPlane {
		return nil, fmt.Errorf("node %q is of the control plane: it cannot be cut off from it", env.Node.Name())
	}
	s.find = func(ctx context.Context) (sides, error) {
		mine, err := nodeEnd(ctx, env, env.Node, kubeletPort)
		if err != nil {
			return sides{}, err
		}
		others, err := controlPlane(ctx, env)
		return sides{mine: mine, others: others}, err
	}
	return &partition{&rejoining{severed: s}}, nil
}

// controlPlane returns the nodes of the control plane, with the port of the API server.
func controlPlane(ctx context.Context, env fault.Env) ([]end, error) {
	nodes, err := env.Cluster.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var ends []end
	for _, n := range nodes {
		if n.Role() != clusters.RoleControlPlane {
			continue
		}
		e, err := nodeEnd(ctx, env, n, apiServerPort)
		if err != nil {
			return nil, err
		}
		ends = append(ends, e)
	}
	if len(ends) == 0 {
		return nil, errors.New("list nodes: none is of the control plane")
	}
	return ends, nil
}

// Inject makes the cut, and notes the leases.
func (p *partition) Inject(ctx context.Context) error {
	if err := p.severed.Inject(ctx); err != nil {
		return err
	}
	var err error
	p.leases, err = evidence.ReadLeases(ctx, p.env)
	return err
}

// Confirm shows the cut, cheapest evidence first.
func (p *partition) Confirm(ctx context.Context) ([]fault.Fact, error) {
	facts, err := p.severed.Confirm(ctx)
	if err != nil {
		return facts, err
	}
	var fact fault.Fact
	switch p.rules.flows {
	case flowsEstablished: // The kubelet opens a new one, sooner or later.
		return facts, nil
	case flowsNew:
		fact, err = evidence.LeaseRenewed(ctx, p.env, p.leases, silenceBound)
	default:
		fact, err = evidence.LeaseSilent(ctx, p.env, p.leases, silenceBound)
	}
	if err != nil {
		return facts, err
	}
	return append(facts, fact), nil
}
