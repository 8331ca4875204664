package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/deadman"
	"github.com/seatrial/seatrial/chaos/evidence"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/heal"
	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/history"
)

// Partition returns the fault that cuts a node off from the control plane, and nothing else: its pods go on, and the
// other workers reach them.
//
// What: a table of our own in the victim's nftables drops every packet from and to the control plane nodes and their
// pods, IPv4 and IPv6, those of established flows too.
//
// Shown: no probe connects, over any family, from the node to the API server or from the control plane to the
// kubelet; flows that were established before the cut go dead; the node's lease is not renewed while that of another
// node is. A partition must be whole: limiting the families of the cut does not limit what must be shown.
//
// Healed: the table is deleted; every probe connects, the lease is renewed, the node is Ready. The kernel takes the
// elements out of the sets, and a timer on the node the table, when nobody heals it.
func Partition() fault.Definition {
	return fault.Definition{
		Name:    "node-partition",
		Summary: "Cuts the victim's node off from the control plane, IPv4 and IPv6, established flows included.",
		Shown: "No probe connects in either direction over any family, established flows go dead, and the node's " +
			"lease is not renewed while that of another node is.",
		Healed: "The nftables table is deleted; all probes connect, the lease is renewed, and the node is Ready.",
		Needs:  []string{"nftables", "systemd"},
		// A cut-off node goes on running what was moved away from it.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "k/k#61832",
		Families: true,
		New:      newPartition,
	}
}

// The bounds of what a partition waits for; each is well within fault.ConfirmLimit with the others.
const (
	cutBound     = 10 * time.Second // From the cut to no probe connecting. It takes effect with the next packet.
	silenceBound = 40 * time.Second // Two renew intervals, and room for a lease renewed at the very moment of the cut.
	rounds       = 3                // Probes of each path, so that one lost packet proves nothing.
)

type partition struct {
	env      fault.Env
	owner    mark.Owner
	families []string
	life     time.Duration

	ways   []way // Set by locate.
	cut    cut
	flows  []*flow
	leases evidence.Leases // Of the moment at which the cut was made, and then at which it was healed.
}

func newPartition(spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
	p := &partition{
		env: env, owner: mark.Owner{Run: env.RunID, Step: step}, families: spec.Families, life: fault.Life(spec),
	}
	if err := p.owner.Check(); err != nil {
		return nil, err
	}
	if env.Node.Role() == clusters.RoleControlPlane {
		return nil, fmt.Errorf("node %q is of the control plane: it cannot be cut off from it", env.Node.Name())
	}
	return p, nil
}

// Arm arms the timer that heals on the node.
func (p *partition) Arm(ctx context.Context) error {
	return deadman.Arm(ctx, p.env.Node, p.owner, p.life)
}

// Disarm removes the timer.
func (p *partition) Disarm(ctx context.Context) error {
	return deadman.Disarm(ctx, p.env.Node, p.owner)
}

// Inject shows that everything connects, opens the flows that are to go dead, and makes the cut in one transaction.
func (p *partition) Inject(ctx context.Context) error {
	if err := p.locate(ctx); err != nil {
		return err
	}
	before, err := survey(ctx, p.ways, 1)
	if err != nil {
		return err
	}
	if bad := filter(before, func(t tally) bool { return t.connected < t.tried }); len(bad) > 0 {
		return fmt.Errorf("what does not connect before cannot be shown to be cut: %s", join(bad))
	}
	for _, to := range p.ways[0].addresses {
		f, err := openFlow(ctx, p.env.Node, to, p.life)
		if err != nil {
			return err
		}
		p.flows = append(p.flows, f)
	}
	if _, err := heal.On(p.env.Node)(ctx, heal.DeleteTable(), ruleset(p.owner.Table(), p.cut, p.life)); err != nil {
		return fmt.Errorf("make nftables table %q: %w", p.owner.Table(), err)
	}
	p.leases, err = evidence.ReadLeases(ctx, p.env)
	return err
}

// Confirm shows the cut, cheapest evidence first.
func (p *partition) Confirm(ctx context.Context) ([]fault.Fact, error) {
	facts, err := p.unreachable(ctx)
	if err != nil {
		return facts, err
	}
	for _, f := range p.flows {
		fact, err := f.dead(ctx, cutBound)
		if err != nil {
			return facts, err
		}
		facts = append(facts, fact)
	}
	silent, err := evidence.LeaseSilent(ctx, p.env, p.leases, silenceBound)
	if err != nil {
		return facts, err
	}
	return append(facts, silent), nil
}

// unreachable waits until no probe connects.
func (p *partition) unreachable(ctx context.Context) ([]fault.Fact, error) {
	var last []tally
	err := await.Until(ctx, "no probe to connect", time.Second, cutBound,
		func(ctx context.Context) (bool, string, error) {
			seen, err := survey(ctx, p.ways, rounds)
			if err != nil {
				return false, "", err
			}
			last = seen
			return len(filter(seen, func(t tally) bool { return t.connected > 0 })) == 0, "probes connect", nil
		})
	if err != nil {
		return nil, p.explain(last, err)
	}
	return tallyFacts(last), nil
}

func tallyFacts(tallies []tally) []fault.Fact {
	facts := make([]fault.Fact, len(tallies))
	for i, t := range tallies {
		facts[i] = fault.Fact{Span: t.span, Sentence: t.String()}
	}
	return facts
}

// explain says which probes still connect, why, and what to do.
func (p *partition) explain(last []tally, cause error) error {
	open := filter(last, func(t tally) bool { return t.connected > 0 })
	if len(open) == 0 {
		return fmt.Errorf("partition was not shown: %w", cause)
	}
	why := "the packets take another way than the addresses that were cut"
	fix := "look at the routes and the nftables of node " + p.env.Node.Name()
	if len(p.families) > 0 {
		why = "the cut is limited to " + strings.Join(p.families, " and ") + ", and a node has more ways than that"
		fix = "leave families out of the plan, so that all are cut"
	}
	return fmt.Errorf("partition did not take effect within %s: %w\n  saw:  %s\n  why:  %s\n  fix:  %s",
		cutBound, cause, join(open), why, fix)
}

// Held shows that still no probe connects.
func (p *partition) Held(ctx context.Context) ([]fault.Fact, error) {
	seen, err := survey(ctx, p.ways, 1)
	if err != nil {
		return nil, err
	}
	if open := filter(seen, func(t tally) bool { return t.connected > 0 }); len(open) > 0 {
		return nil, fmt.Errorf("the cut has ended by itself: %s", join(open))
	}
	return tallyFacts(seen), nil
}

// Heal deletes our table, whether it is there or not, and ends the flows.
func (p *partition) Heal(ctx context.Context) error {
	for _, f := range p.flows {
		f.close()
	}
	p.flows = nil
	_, err := heal.On(p.env.Node)(ctx, heal.DeleteTable(), heal.TableGone(p.owner))
	if err != nil {
		return fmt.Errorf("delete nftables table %q: %w", p.owner.Table(), err)
	}
	// The lease that the node renews from now on is one that went through.
	if p.leases, err = evidence.ReadLeases(ctx, p.env); err != nil {
		p.env.Log.Warn("read leases after the heal", "error", err) // The API server may be gone; the cut is, too.
	}
	return nil
}

// ConfirmHealed shows that the table is gone and that all is as before.
func (p *partition) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	if err := p.locate(ctx); err != nil {
		return nil, err
	}
	gone, err := p.tableGone(ctx)
	if err != nil {
		return nil, err
	}
	var last []tally
	err = await.Until(ctx, "all probes to connect", time.Second, 30*time.Second,
		func(ctx context.Context) (bool, string, error) {
			if last, err = survey(ctx, p.ways, 1); err != nil {
				return false, "", err
			}
			bad := filter(last, func(t tally) bool { return t.connected < t.tried })
			return len(bad) == 0, join(bad), nil
		})
	facts := append([]fault.Fact{gone}, tallyFacts(last)...)
	if err != nil {
		return facts, err
	}
	renewed, err := evidence.LeaseRenewed(ctx, p.env, p.leases, time.Minute)
	if err != nil {
		return facts, err
	}
	ready, err := evidence.NodeReady(ctx, p.env, time.Minute)
	if err != nil {
		return append(facts, renewed), err
	}
	return append(facts, renewed, ready), nil
}

func (p *partition) tableGone(ctx context.Context) (fault.Fact, error) {
	begin := p.env.Clock()
	out, err := clusters.Run(ctx, p.env.Node, "nft", "list", "tables")
	if err != nil {
		return fault.Fact{}, fmt.Errorf("list nftables tables: %w", err)
	}
	for line := range strings.Lines(out) {
		if word := strings.Fields(line); len(word) > 0 && word[len(word)-1] == p.owner.Table() {
			return fault.Fact{}, fmt.Errorf("nftables table %q is still there after it was deleted", p.owner.Table())
		}
	}
	return fault.Fact{Span: history.Between(begin, p.env.Clock()),
		Sentence: fmt.Sprintf("the nftables table %q is gone", p.owner.Table())}, nil
}

// locate finds the ways to cut and what is to be shown of them: by the families that both ends have.
func (p *partition) locate(ctx context.Context) error {
	if len(p.ways) > 0 {
		return nil
	}
	nodes, err := p.env.Cluster.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	mine, err := addresses(ctx, p.env.Node)
	if err != nil {
		return err
	}
	out := way{from: p.env.Node}
	var in []way
	var from []netip.Prefix
	for _, n := range nodes {
		if n.Role() != clusters.RoleControlPlane {
			continue
		}
		theirs, err := addresses(ctx, n)
		if err != nil {
			return err
		}
		pods, err := evidence.PodCIDRs(ctx, p.env, n.Name())
		if err != nil {
			return err
		}
		from = append(from, pods...)
		for _, a := range theirs {
			from = append(from, netip.PrefixFrom(a, a.BitLen()))
			if hasFamily(mine, a) {
				out.addresses = append(out.addresses, netip.AddrPortFrom(a, apiServerPort))
			}
		}
		back := way{from: n}
		for _, a := range mine {
			if hasFamily(theirs, a) {
				back.addresses = append(back.addresses, netip.AddrPortFrom(a, kubeletPort))
			}
		}
		in = append(in, back)
	}
	p.cut = cutOff(from, p.families)
	if len(out.addresses) == 0 || p.cut.empty() {
		return errors.New("find what to cut: the node and the control plane have no address family in common")
	}
	p.ways = append([]way{out}, in...)
	return nil
}

// addresses returns those addresses of a node that others can reach.
func addresses(ctx context.Context, n clusters.Node) ([]netip.Addr, error) {
	all, err := n.Addresses(ctx)
	if err != nil {
		return nil, fmt.Errorf("get addresses of node %q: %w", n.Name(), err)
	}
	var out []netip.Addr
	for _, a := range all {
		if a = a.Unmap(); a.IsGlobalUnicast() {
			out = append(out, a)
		}
	}
	return out, nil
}

func hasFamily(addresses []netip.Addr, like netip.Addr) bool {
	for _, a := range addresses {
		if a.Is4() == like.Is4() {
			return true
		}
	}
	return false
}
