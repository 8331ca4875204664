package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// The bounds of what is waited for; each is well within fault.ConfirmLimit with the others.
const (
	cutBound     = 14 * time.Second // From the cut to no probe connecting. It takes effect with the next packet.
	silenceBound = 40 * time.Second // Two renew intervals, and room for a lease renewed at the very moment of the cut.
	healedBound  = 30 * time.Second // From the heal to all probes connecting.
	rounds       = 3                // Probes of each path, so that one lost packet proves nothing.
)

// sides are the two sides of a cut: the victim, and one or more others.
type sides struct {
	mine   end
	others []end
	beside []way // Ways that the fault must leave alone, and that are shown to be open all the while.
}

// ways are those between the sides, the victim's own first.
func (s sides) ways() []way {
	var out, in []way
	for _, other := range s.others {
		out = append(out, way{from: s.mine, to: other, direction: directionOut})
		in = append(in, way{from: other, to: s.mine, direction: directionIn})
	}
	return append(out, in...)
}

// reachable reports whether the sides have an address family in common.
func (s sides) reachable() bool {
	return slices.ContainsFunc(s.ways(), func(w way) bool { return len(w.addresses()) > 0 })
}

// severed is the life of a fault that cuts what goes between two sides by rules on the victim's node.
type severed struct {
	env      fault.Env
	owner    undo.Owner
	life     time.Duration
	families []string
	rules    severance // Its addresses are set by locate.
	find     func(ctx context.Context) (sides, error)
	own      bool // The victim's side is a pod, not the node with all that is on it.

	sides sides // Set by locate.
	flows []*flow
}

// severing is which packets a fault cuts.
type severing struct {
	Families []string
	packets
	Percent int // The share of them; 0 is all.
}

func newSevered(p severing, spec plan.Fault, step int, env fault.Env) (*severed, error) {
	if env.Log == nil {
		env.Log = slog.New(slog.DiscardHandler)
	}
	s := &severed{
		env: env, owner: undo.Owner{Run: env.RunID, Step: step}, families: p.Families, life: fault.Life(spec),
		rules: severance{direction: p.Direction, flows: p.Flows, reject: p.Reject, percent: p.Percent},
	}
	return s, s.owner.Check()
}

// Undo has the node delete the owner's table.
func (s *severed) Undo(context.Context) ([]undo.Task, error) {
	return []undo.Task{{Node: s.env.Node, Actions: []undo.Action{undo.DeleteTable(s.owner)}}}, nil
}

// locate finds both sides, and what lies between them by the families that both have.
func (s *severed) locate(ctx context.Context) error {
	found, err := s.find(ctx)
	if err != nil {
		return err
	}
	s.sides = found
	var other []netip.Prefix
	for _, e := range found.others {
		other = append(other, e.prefixes...)
	}
	s.rules.other = cutOff(other, s.families)
	if s.own {
		s.rules.own = cutOff(found.mine.prefixes, nil)
	}
	if !found.reachable() || s.rules.other.empty() {
		return errors.New("find what to cut: the two sides have no address family in common")
	}
	if s.rules.someFlows() {
		for _, w := range found.ways() {
			if len(w.targets()) == 0 {
				return fmt.Errorf("find what to cut: flows is %q, and %s declares no port to which one could be opened",
					s.rules.flows, w.to.name)
			}
		}
	}
	return nil
}

// untouched is what everything must come to while nothing is cut.
func untouched(string) reach { return connects }

// Inject shows that everything goes, opens the flows whose end is to be seen, and makes the cut in one transaction.
func (s *severed) Inject(ctx context.Context) error {
	if err := s.locate(ctx); err != nil {
		return err
	}
	if _, state, err := s.open(ctx); err != nil || state != "" {
		if err != nil {
			return err
		}
		return fmt.Errorf("what does not connect before cannot be shown to be cut: %s", state)
	}
	for _, w := range s.sides.ways() {
		if w.direction != directionOut {
			continue
		}
		for _, to := range w.targets() {
			f, err := openFlow(ctx, w.from, to, s.life)
			if err != nil {
				return err
			}
			s.flows = append(s.flows, f)
		}
	}
	return s.apply(ctx)
}

// apply makes the owner's table.
func (s *severed) apply(ctx context.Context) error {
	_, err := undo.On(s.env.Node)(ctx, []string{"nft", "-f", "-"}, ruleset(s.owner.Table(), s.rules, s.life))
	if err != nil {
		return fmt.Errorf("make nftables table %q: %w", s.owner.Table(), err)
	}
	return nil
}

// open looks once whether everything connects and every echo request is answered. A state that is not empty says what
// does not.
func (s *severed) open(ctx context.Context) ([]fault.Fact, string, error) {
	ways := append(s.sides.ways(), s.sides.beside...)
	seen, err := survey(ctx, ways, 1, untouched)
	if err != nil {
		return nil, "", err
	}
	heard, err := pings(ctx, ways, fewEchoes())
	if err != nil {
		return nil, "", err
	}
	state := unwanted(seen)
	if state == "" {
		state = join(filter(heard, func(p ping) bool { return p.answered < p.sent || p.arrived < p.sent }))
	}
	return append(tallyFacts(seen), pingFacts(heard)...), state, nil
}

// Confirm shows the cut: what is to be cut is, by TCP and by ICMP, what was established as well, and what is to go on
// does. The counters of our own rules say the same.
func (s *severed) Confirm(ctx context.Context) ([]fault.Fact, error) {
	facts, err := s.shown(ctx)
	if err != nil {
		return facts, err
	}
	var flows []fault.Fact
	if s.rules.flows == flowsNew {
		flows, err = flowsLive(ctx, s.flows, s.env.Clock)
	} else {
		flows, err = flowsDead(ctx, s.flows, cutBound, s.rules.reject)
	}
	facts = append(facts, flows...)
	if err != nil {
		return facts, err
	}
	counted, err := s.counted(ctx)
	if err != nil {
		return facts, err
	}
	return append(facts, counted), nil
}

// shown waits until what is cut does not go, and what is not goes.
func (s *severed) shown(ctx context.Context) ([]fault.Fact, error) {
	ways := append(s.sides.ways(), s.sides.beside...)
	var seen []tally
	var heard []ping
	err := await.Until(ctx, "no probe to connect", time.Second, cutBound,
		func(ctx context.Context) (bool, string, error) {
			now, err := survey(ctx, ways, rounds, s.rules.opens)
			if err != nil {
				return false, "", err
			}
			seen = now
			return unwanted(seen) == "", "probes connect", nil
		})
	if err != nil {
		return nil, s.explain(unwanted(seen), err)
	}
	err = await.Until(ctx, "echo requests to go as they should", time.Second, cutBound,
		func(ctx context.Context) (bool, string, error) {
			now, err := pings(ctx, ways, fewEchoes())
			if err != nil {
				return false, "", err
			}
			heard = now
			return s.misheard(heard) == "", s.misheard(heard), nil
		})
	facts := append(tallyFacts(seen), pingFacts(heard)...)
	if err != nil {
		return facts, s.explain(s.misheard(heard), err)
	}
	return facts, nil
}

// unwanted lists the attempts to connect that did not come to what is wanted; empty when all did.
func unwanted(seen []tally) string {
	return join(filter(seen, func(t tally) bool { return !t.asWanted() }))
}

// misheard lists the echo requests of which other ones arrived or were answered than should be; empty when all did.
func (s *severed) misheard(heard []ping) string {
	return join(filter(heard, func(p ping) bool { return !p.asWanted(s.rules) }))
}

// counted holds the counters of our own rules against the plan: the probes were packets of both directions.
func (s *severed) counted(ctx context.Context) (fault.Fact, error) {
	begin := s.env.Clock()
	t, err := readTallied(ctx, s.env.Node, s.owner)
	if err != nil {
		return fault.Fact{}, err
	}
	fact := fault.Fact{Span: history.Between(begin, s.env.Clock()), Sentence: "our rules have counted: " + t.String()}
	some := s.rules.someFlows()
	all := uint64(0)
	for _, direction := range []string{directionIn, directionOut} {
		lost, went := t.of(direction)
		cuts := s.rules.cuts(direction)
		all += lost
		// Of a flow that is cut both ways, the far side may have nothing left to send.
		idle := cuts && lost == 0 && s.rules.flows == flowsEstablished
		if cuts != (lost > 0) && !idle || (!cuts || some) != (went > 0) {
			return fact, fmt.Errorf("the cut is not what was planned: %s", fact.Sentence)
		}
	}
	if all == 0 {
		return fact, fmt.Errorf("nothing was cut: %s", fact.Sentence)
	}
	return fact, nil
}

// explain says which probes did not come to what was wanted, why, and what to do.
func (s *severed) explain(saw string, cause error) error {
	if saw == "" {
		return fmt.Errorf("the cut was not shown: %w", cause)
	}
	why := "the packets take another way than the addresses that were cut"
	fix := "look at the routes and the nftables of node " + s.env.Node.Name()
	if len(s.families) > 0 {
		why = "the cut is limited to " + strings.Join(s.families, " and ") + ", and a node has more ways than that"
		fix = "leave families out of the plan, so that all are cut"
	}
	return fmt.Errorf("the cut did not take effect within %s: %w\n  saw:  %s\n  why:  %s\n  fix:  %s",
		cutBound, cause, saw, why, fix)
}

// Held shows that the cut is there to the end.
func (s *severed) Held(ctx context.Context) ([]fault.Fact, error) {
	ways := append(s.sides.ways(), s.sides.beside...)
	seen, err := survey(ctx, ways, 1, s.rules.opens)
	if err != nil {
		return nil, err
	}
	if wrong := unwanted(seen); wrong != "" {
		return nil, fmt.Errorf("the cut has ended by itself: %s", wrong)
	}
	heard, err := pings(ctx, ways, fewEchoes())
	if err != nil {
		return nil, err
	}
	if wrong := s.misheard(heard); wrong != "" {
		return nil, fmt.Errorf("the cut has ended by itself: %s", wrong)
	}
	// Where established flows alone were cut, they are dead by now: that our table is there is all that can be shown.
	counted, err := s.counted(ctx)
	if err != nil {
		return nil, err
	}
	return append(append(tallyFacts(seen), pingFacts(heard)...), counted), nil
}

// Heal deletes our table, whether it is there or not, and ends the watches of flows then.
func (s *severed) Heal(ctx context.Context) error {
	defer func() {
		for _, f := range s.flows {
			f.close()
		}
		s.flows = nil
	}()
	gone := undo.DeleteTable(s.owner)
	if _, err := undo.On(s.env.Node)(ctx, gone.Argv, gone.Stdin); err != nil {
		return fmt.Errorf("delete nftables table %q: %w", s.owner.Table(), err)
	}
	return nil
}

// ConfirmHealed shows that the table is gone and that everything connects, at the addresses of now.
func (s *severed) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	gone, err := s.tableGone(ctx)
	if err != nil {
		return nil, err
	}
	facts := []fault.Fact{gone}
	err = await.Until(ctx, "all probes to connect", time.Second, healedBound,
		func(ctx context.Context) (bool, string, error) {
			if err := s.locate(ctx); err != nil {
				return false, "", err
			}
			seen, state, err := s.open(ctx)
			facts = append([]fault.Fact{gone}, seen...)
			return err == nil && state == "", state, err
		})
	return facts, err
}

func (s *severed) tableGone(ctx context.Context) (fault.Fact, error) {
	begin := s.env.Clock()
	out, err := clusters.Run(ctx, s.env.Node, "nft", "list", "tables")
	if err != nil {
		return fault.Fact{}, fmt.Errorf("list nftables tables: %w", err)
	}
	for line := range strings.Lines(out) {
		if word := strings.Fields(line); len(word) > 0 && word[len(word)-1] == s.owner.Table() {
			return fault.Fact{}, fmt.Errorf("nftables table %q is still there after it was deleted", s.owner.Table())
		}
	}
	return fault.Fact{Span: history.Between(begin, s.env.Clock()),
		Sentence: fmt.Sprintf("the nftables table %q is gone", s.owner.Table())}, nil
}

func tallyFacts(tallies []tally) []fault.Fact {
	facts := make([]fault.Fact, len(tallies))
	for i, t := range tallies {
		facts[i] = fault.Fact{Span: t.span, Sentence: t.String()}
	}
	return facts
}

func pingFacts(heard []ping) []fault.Fact {
	facts := make([]fault.Fact, len(heard))
	for i, p := range heard {
		facts[i] = fault.Fact{Span: p.span, Sentence: p.String()}
	}
	return facts
}
