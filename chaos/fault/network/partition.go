package network

import (
	"context"
	"fmt"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// Partition cuts a node off from the control plane only: its pods keep running and stay reachable from other workers.
//
// A table of ours in the victim's nftables drops every packet to and from the control-plane nodes and their pods, IPv4
// and IPv6, established flows included. Parameters limit it to one direction, or to TCP connections that are new or
// were established when it began, or make it reject: a reset for TCP, an ICMP error otherwise. Limiting the families
// does not limit what is probed, so a node with another way out fails the fault. Without a heal, the set elements
// expire in the kernel and the undo deletes the table.
//
// Where no node is of the control plane, the endpoints of the Service "kubernetes" are cut off, and probed from the
// victim alone, over TCP. A cut that only packets of the API servers could show is refused there: that of what leaves
// the victim, and that of new flows to it.
//
// A cut of one direction already stops TCP, which needs both. The direction is shown by echo requests: the far end's
// kernel counts those of the open direction and none of the cut one. The counters of our rules must agree. If only new
// connections are cut, established flows and the lease go on; if only established ones are cut, they go dead and new
// ones connect.
//
// Other tools leave established flows open (chaos-mesh#1662) or ignore the direction (chaos-mesh#4477).
func Partition() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "node-partition",
		Summary: "Cuts the victim's node off from the control plane, IPv4 and IPv6, established flows included.",
		Shown: "No probe connects in either direction over any family, no echo request of the victim's pod is " +
			"answered, if some were before, established flows go dead, and the node's lease is not renewed while " +
			"that of another node is. If only one direction is cut, echo requests of the other arrive.",
		Healed: "The nftables table is deleted; all probes connect, the lease is renewed, and the node is Ready.",
		Needs:  []string{"nftables", "systemd"},
		// The cut-off node keeps running pods that were replaced elsewhere.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "k/k#61832",
		Example:  plan.Params{"families": []string{"ipv4", "ipv6"}},
	}, newPartition)
}

// partitionParams are the parameters of a partition from the control plane.
type partitionParams struct {
	Families []string `json:"families,omitempty"` // "ipv4", "ipv6"; empty is both.
	packets
}

func (p partitionParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	errs.SetOf("families", "address family", p.Families, "ipv4", "ipv6")
	p.validate(&errs)
	return errs
}

// partition cuts a node off from the control plane, and so cuts the node's lease renewals.
type partition struct {
	*filtered
}

func newPartition(p partitionParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
	if env.Node.Role() == clusters.RoleControlPlane {
		return nil, fmt.Errorf("node %q is of the control plane: it cannot be cut off from it", env.Node.Name())
	}
	s := &filtered{Env: env, families: p.Families, rules: filter{packets: p.packets}, rejoins: true}
	s.find = func(ctx context.Context) (sides, error) {
		found, err := between(ctx, env, nil)
		if err != nil {
			return found, err
		}
		found.others, err = controlPlane(ctx, env)
		unseen := p.Direction == directionOut || p.Direction == directionIn && p.Flows == flowsNew
		if err == nil && found.deaf() && unseen {
			err = fmt.Errorf("to show a cut of direction %q and flows %q, %s would have to be made to send, which it "+
				"cannot be", p.Direction, p.Flows, found.others[0].name)
		}
		return found, err
	}
	return &partition{s}, nil
}

// Inject checks that every way is open, also those of the victim's pod, cuts, and records the leases.
func (p *partition) Inject(ctx context.Context) error {
	if err := p.openBefore(ctx); err != nil {
		return err
	}
	p.notePods(ctx, func(mine end) ([]way, error) { return sides{mine: mine, others: p.sides.others}.out(), nil })
	if err := p.cut(ctx); err != nil {
		return err
	}
	_, err := p.NoteLeases(&p.leases)(ctx)
	return err
}

// Confirm shows the cut, the cheapest evidence first.
func (p *partition) Confirm(ctx context.Context) ([]fault.Fact, error) {
	shows := []fault.Show{p.filtered.Confirm, p.podsCut}
	switch p.rules.Flows {
	case flowsEstablished: // The kubelet reconnects at some time, so the lease shows nothing.
	case flowsNew:
		shows = append(shows, p.LeaseRenewed(&p.leases, fault.SilenceBound))
	default:
		shows = append(shows, p.leaseSilent)
	}
	return fault.All(ctx, shows...)
}

// leaseSilent waits until the lease is silent, and says why it may not be although no probe connects.
func (p *partition) leaseSilent(ctx context.Context) ([]fault.Fact, error) {
	facts, err := p.LeaseSilent(&p.leases)(ctx)
	if err != nil {
		err = fmt.Errorf("the cut shows in every probe, and not in the lease: %w\n"+
			"  why:  if it was renewed, the kubelet reaches the API server by another address than those of its "+
			"nodes, such as a load balancer's\n"+
			"  fix:  look at the server in the kubelet's kubeconfig; node-dark cuts a node off from every address", err)
	}
	return facts, err
}
