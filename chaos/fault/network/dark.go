package network

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

const (
	// darkLead is how long the node waits with the cut: the answer that it has the order must still get out.
	darkLead = 2 * time.Second
	// darkShown is from the cut to the end of Confirm, whenever the cut was shown: the node ends it at a fixed time.
	darkShown = 45 * time.Second
	// darkHeld is how long the node stays dark after the hold, in which the cut is shown once more.
	darkHeld  = 15 * time.Second
	darkBack  = 25 * time.Second // How long a heal waits until the node can be reached; the guard tries twice.
	darkBlind = 10 * time.Second // How long before the end the last probe of the node may be.
	darkEvery = time.Second      // Between two rounds of the node's own probes.
)

// Dark cuts a node off from everything, the harness included; only the node's own pods still reach it and each other.
//
// The node carries the fault out alone: it has an order to cut, to probe meanwhile, and to end the cut. From outside
// the cut is shown by the other nodes, which reach it no more, and by the lease. What the node saw is fetched
// afterwards; a fault whose record cannot be fetched has failed. On a cluster of containers the harness still reaches
// the node through the engine, and the fault is the same.
func Dark() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "node-dark",
		Summary: "Cuts the victim's node off from every address but its own, the harness's too, IPv4 and IPv6.",
		Shown: "No other node connects to it over any family, and its lease is not renewed while that of another " +
			"node is. Its own probes, fetched afterwards, reached nothing all the time.",
		Healed: "The node deletes the nftables table at the end of its order; all probes connect, the lease is " +
			"renewed, and the node is Ready.",
		Needs:    []string{"nftables", "systemd"},
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "k/k#61832",
	}, newDark)
}

// darkParams are no parameters: the node ends the fault at a fixed time, so that there is nothing to wait for.
type darkParams struct{}

func (darkParams) Validate(s plan.Setting) (errs plan.FieldErrors) {
	if len(s.Fault.During)+len(s.Fault.Provoke) > 0 {
		errs.Add("during", "leave it out, and set hold",
			"the node ends fault %q by itself, at a fixed time", s.Fault.Name)
	}
	return errs
}

// dark is a fault that the victim's node carries out alone.
type dark struct {
	*filtered
	hold  time.Duration
	cutAt history.Time // When the node was to cut; zero if it was given no order.
	shown bool
}

func newDark(_ darkParams, spec plan.Fault, env fault.Env) (fault.Fault, error) {
	s := &filtered{Env: env, rejoins: true, find: nodeSides(env, env.Others)}
	return &dark{filtered: s, hold: spec.Hold.D()}, nil
}

// Undo also ends the order.
func (d *dark) Undo(context.Context) ([]undo.Task, error) {
	return d.Here(undo.DropOrder(d.Owner), undo.DeleteTable(d.Owner)), nil
}

// Inject checks that every way is open and gives the node its order.
func (d *dark) Inject(ctx context.Context) error {
	if err := d.openBefore(ctx); err != nil {
		return err
	}
	rules := filter{other: setOf(everything(), nil), spared: setOf(append(onLink(), d.sides.mine.prefixes...), nil)}
	end := undo.DeleteTable(d.Owner)
	looks := []nodeagent.Step{
		{Argv: append([]string{nodeagent.Path, "probe", "tcp", "--timeout", probeTimeout.String()}, d.targets()...)},
		{Argv: []string{"nft", "-j", "list", "counters", "table", "inet", d.Owner.Table()}},
	}
	d.cutAt = d.Clock().Add(darkLead)
	err := nodeagent.On(d.Node).StartOrder(ctx, d.Owner.Flags(), nodeagent.Order{
		Lead: darkLead, Act: nodeagent.Step{Argv: []string{"nft", "-f", "-"},
			Stdin: ruleset(d.Owner.Table(), rules, d.Life)},
		Looks: looks, Every: darkEvery, Lasts: darkShown + d.hold + darkHeld,
		End: nodeagent.Step{Argv: end.Argv, Stdin: end.Stdin},
	})
	if err != nil {
		return fmt.Errorf("give the node its order: %w", err)
	}
	_, err = d.NoteLeases(&d.leases)(ctx)
	return err
}

// everything is all addresses; nftables before 0.9.9 takes no /0 in a set.
func everything() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1"),
		netip.MustParsePrefix("::/1"), netip.MustParsePrefix("8000::/1"),
	}
}

// onLink is what is of use on one link only. A node needs it for itself and for its pods.
func onLink() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16"),
		netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("ff00::/8"),
	}
}

// targets are the addresses that the node probes.
func (d *dark) targets() (all []string) {
	for _, w := range d.sides.out() {
		for _, to := range w.targets() {
			all = append(all, to.String())
		}
	}
	return all
}

// in are the ways to the victim.
func (d *dark) in() []way { return d.sides.ways()[len(d.sides.others):] }

// Confirm shows the cut from outside, and ends at a fixed time after it.
func (d *dark) Confirm(ctx context.Context) ([]fault.Fact, error) {
	if err := await.For(ctx, d.cutAt.Sub(d.Clock())+darkEvery/2); err != nil {
		return nil, err // Before the cut there is nothing to probe.
	}
	facts, err := fault.All(ctx,
		fault.Await("no probe to connect to the node", time.Second, cutBound+darkLead, d.connects(d.in(), rounds)),
		d.LeaseSilent(&d.leases))
	if err != nil {
		return facts, fmt.Errorf("the node did not go dark: %w", err)
	}
	d.shown = true
	return facts, await.For(ctx, d.cutAt.Add(darkShown).Sub(d.Clock()))
}

// Held checks that the node still cannot be reached.
func (d *dark) Held(ctx context.Context) ([]fault.Fact, error) {
	facts, err := d.connects(d.in(), 1)(ctx)
	if err != nil {
		return facts, fmt.Errorf("the cut has ended by itself: %w", err)
	}
	return facts, nil
}

// Heal ends the order as soon as the node can be reached, which may be when the order is over.
func (d *dark) Heal(ctx context.Context) error {
	err := await.Until(ctx, fmt.Sprintf("node %q to be reached", d.Node.Name()), time.Second, darkBack,
		func(ctx context.Context) (bool, string, error) {
			err := nodeagent.On(d.Node).EndOrder(ctx, d.Owner.Flags())
			if err != nil && d.cutAt > 0 {
				return false, err.Error(), nil
			}
			return err == nil, "", err
		})
	if err != nil {
		return err
	}
	return d.filtered.Heal(ctx)
}

// ConfirmHealed also fetches what the node saw meanwhile.
func (d *dark) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	facts, err := d.healed(ctx)
	if err != nil || d.cutAt == 0 {
		return facts, err
	}
	seen, err := d.record(ctx)
	drop := undo.DropOrder(d.Owner)
	_, dropErr := undo.On(d.Node)(ctx, drop.Argv, drop.Stdin)
	return append(facts, seen...), errors.Join(err, dropErr)
}

// record fetches the node's record. It must say that the node cut itself off and reached nothing until the end.
func (d *dark) record(ctx context.Context) ([]fault.Fact, error) {
	if !d.shown {
		return nil, nil // Another harness gave the order, or it was given up before it had an effect.
	}
	r, err := nodeagent.On(d.Node).ReadOrder(ctx, d.Owner.Flags())
	if err != nil {
		return nil, fmt.Errorf("fetch what the node saw: %w", err)
	}
	return darkFacts(d.Node.Name(), d.Owner.Table(), r)
}

// darkFacts reads the record of a node that was dark.
func darkFacts(node, table string, r nodeagent.OrderRecord) ([]fault.Fact, error) {
	if len(r.Did) == 0 {
		return nil, fmt.Errorf("node %q has not carried out its order: it did nothing", node)
	}
	began, ended := r.Did[0], r.Did[len(r.Did)-1]
	if failed := cmp.Or(began.Error, ended.Error); !r.Over || failed != "" {
		return nil, fmt.Errorf("node %q has not carried out its order: it began with %q and ended with %q: %s", node,
			began.Argv, ended.Argv, cmp.Or(failed, "it is not over"))
	}
	tried, lost := 0, uint64(0)
	var reached, probed []string
	var span history.Span
	for _, did := range r.Did[1 : len(r.Did)-1] {
		switch {
		case did.Error != "": // The end of the order cut it short, or the table could not be read.
		case slices.Contains(did.Argv, "counters"):
			t, err := parseCounters(table, []byte(did.Out))
			if err != nil {
				return nil, err
			}
			in, _ := t.of(directionIn)
			out, _ := t.of(directionOut)
			lost = in + out
		default:
			var all []probe.Connect
			if err := json.Unmarshal([]byte(did.Out), &all); err != nil {
				return nil, fmt.Errorf("decode the probes of node %q: %w", node, err)
			}
			if tried++; tried == 1 {
				span.NotBefore = did.Begin
			}
			span.NotAfter, probed = did.End, nil
			for _, c := range all {
				probed = append(probed, c.Address)
				if c.Connected {
					reached = append(reached, c.Address)
				}
			}
		}
	}
	switch {
	case len(reached) > 0:
		return nil, fmt.Errorf("node %q was not dark: it reached %s", node, strings.Join(reached, ", "))
	case tried == 0 || len(probed) == 0:
		return nil, fmt.Errorf("node %q did not probe anything while it was dark", node)
	case ended.Begin.Sub(span.NotAfter) > darkBlind:
		return nil, fmt.Errorf("node %q did not probe for the last %s in which it was to be dark", node,
			ended.Begin.Sub(span.NotAfter).Round(time.Second))
	case lost == 0:
		return nil, errors.New("nothing was cut: our rules have counted no packet")
	}
	return []fault.Fact{
		{Span: history.Between(began.Begin, began.End), Sentence: fmt.Sprintf("node %q cut itself off", node)},
		{Span: span, Sentence: fmt.Sprintf("%s reached none of %s (%d rounds of probes); our rules cut %d packets",
			node, strings.Join(probed, ", "), tried, lost)},
		{Span: history.Between(ended.Begin, ended.End), Sentence: fmt.Sprintf("node %q ended the cut", node)},
	}, nil
}
