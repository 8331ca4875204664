package network

import (
	"context"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// Partition cuts a node off from the control plane, and nothing else: its pods go on, and the other workers reach them.
//
// A table of our own in the victim's nftables drops every packet from and to the control plane nodes and their pods,
// IPv4 and IPv6, those of established flows too. It can be limited to one direction, and to the TCP connections that
// were established when it began or to new ones; and it can reject instead of dropping: a reset for TCP, an ICMP error
// for the rest. A partition must be whole: limiting the families of the cut does not limit what must be shown. The
// kernel takes the elements out of the sets when nobody heals it, and the undo the table.
//
// One direction alone keeps TCP from connecting either way, since every connection needs both. It is told by what
// arrives: echo requests are counted by the kernel of the far end, and those of the open direction must arrive there,
// unanswered, while none of the cut one does; and the counters of our own rules must have cut packets of that direction
// alone. New connections alone: established flows and the lease go on. Established ones alone: they go dead, and what
// is opened then connects.
//
// Partitions that leave established flows, and directions that are ignored, are known of other tools as
// chaos-mesh#1662 and chaos-mesh#4477.
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

// partitionParams are those of a partition from the control plane.
type partitionParams struct {
	Families []string `json:"families,omitempty"` // "ipv4", "ipv6"; empty is both.
	packets
}

func (p partitionParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	for i, family := range p.Families {
		at := fmt.Sprintf("families[%d]", i)
		errs.OneOf(at, "address family", family, "ipv4", "ipv6")
		if slices.Contains(p.Families[:i], family) {
			errs.Add(at, "leave it out", "%q is there twice", family)
		}
	}
	p.validate(&errs)
	return errs
}

// partition is filtered between a node and the control plane. The lease goes that way.
type partition struct {
	*filtered
}

func newPartition(p partitionParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
	if env.Node.Role() == clusters.RoleControlPlane {
		return nil, fmt.Errorf("node %q is of the control plane: it cannot be cut off from it", env.Node.Name())
	}
	s := newFiltered(env, filter{packets: p.packets})
	s.families, s.rejoins, s.find = p.Families, true, to(env, env.ControlPlane)
	return &partition{s}, nil
}

// Inject makes the cut, and notes the leases.
func (p *partition) Inject(ctx context.Context) error {
	if err := p.filtered.Inject(ctx); err != nil {
		return err
	}
	_, err := p.NoteLeases(&p.leases)(ctx)
	return err
}

// Confirm shows the cut, cheapest evidence first.
func (p *partition) Confirm(ctx context.Context) ([]fault.Fact, error) {
	shows := []fault.Show{p.filtered.Confirm}
	switch p.rules.Flows {
	case flowsEstablished: // The kubelet opens a new one, sooner or later.
	case flowsNew:
		shows = append(shows, p.LeaseRenewed(&p.leases, fault.SilenceBound))
	default:
		shows = append(shows, p.LeaseSilent(&p.leases))
	}
	return fault.All(ctx, shows...)
}
