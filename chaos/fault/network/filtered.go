package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// The bounds of what is waited for; each is well within fault.ConfirmLimit with the others.
const (
	cutBound    = 14 * time.Second // From the cut to no probe connecting. It takes effect with the next packet.
	healedBound = 30 * time.Second // From the heal to all probes connecting.
	rounds      = 3                // Probes of each path, so that one lost packet proves nothing.
)

// filtered is the life of a fault that cuts what goes between two sides by rules on the victim's node.
type filtered struct {
	fault.Env
	families []string
	rules    filter // Its addresses are set by locate.
	find     func(ctx context.Context) (sides, error)
	pod      bool // The victim's side is a pod, not the node with all that is on it.
	rejoins  bool // The victim is a whole node, of which the control plane must hear again after the heal.

	sides  sides // Set by locate.
	flows  []*flow
	leases fault.Leases // When it was cut off, where that is noted, and then when it was healed.
}

func newFiltered(env fault.Env, rules filter) *filtered { return &filtered{Env: env, rules: rules} }

// Undo has the node delete the owner's table.
func (s *filtered) Undo(context.Context) ([]undo.Task, error) {
	return s.Here(undo.DeleteTable(s.Owner)), nil
}

// locate finds both sides, and what lies between them by the families that both have.
func (s *filtered) locate(ctx context.Context) error {
	found, err := s.find(ctx)
	if err != nil {
		return err
	}
	s.sides = found
	var other []netip.Prefix
	for _, e := range found.others {
		other = append(other, e.prefixes...)
	}
	s.rules.other = setOf(other, s.families)
	if s.pod {
		s.rules.own = setOf(found.mine.prefixes, nil)
	}
	if !found.reachable() || s.rules.other.empty() {
		return errors.New("find what to cut: the two sides have no address family in common")
	}
	if s.rules.someFlows() {
		for _, w := range found.ways() {
			if len(w.targets()) == 0 {
				return fmt.Errorf("find what to cut: flows is %q, and %s declares no port to which one could be opened",
					s.rules.Flows, w.to.name)
			}
		}
	}
	return nil
}

// Inject shows that everything goes, opens the flows whose end is to be seen, and makes the cut in one transaction.
func (s *filtered) Inject(ctx context.Context) error {
	if err := s.openBefore(ctx); err != nil {
		return err
	}
	for _, w := range s.sides.out() {
		for _, to := range w.targets() {
			f, err := openFlow(ctx, w.from, to, s.Life)
			if err != nil {
				return err
			}
			s.flows = append(s.flows, f)
		}
	}
	return s.apply(ctx)
}

// openBefore finds both sides, and shows that everything goes between them.
func (s *filtered) openBefore(ctx context.Context) error {
	if _, err := s.open(ctx); err != nil {
		return fmt.Errorf("what does not connect before cannot be shown to be cut: %w", err)
	}
	return nil
}

// apply makes the owner's table.
func (s *filtered) apply(ctx context.Context) error {
	_, err := undo.On(s.Node)(ctx, []string{"nft", "-f", "-"}, ruleset(s.Owner.Table(), s.rules, s.Life))
	if err != nil {
		return fmt.Errorf("make nftables table %q: %w", s.Owner.Table(), err)
	}
	return nil
}

// open finds both sides, and looks whether everything connects and every echo request is answered.
func (s *filtered) open(ctx context.Context) ([]fault.Fact, error) {
	if err := s.locate(ctx); err != nil {
		return nil, err
	}
	ways := append(s.sides.ways(), s.sides.beside...)
	for i := range ways {
		ways[i].direction = "" // None of them is cut.
	}
	return fault.All(ctx, s.connects(ways, 1), s.answers(ways))
}

// all are the ways that are cut, and those that must be left alone.
func (s *filtered) all() []way { return append(s.sides.ways(), s.sides.beside...) }

// connects looks whether attempts to connect have the outcome that the rules give them.
func (s *filtered) connects(ways []way, rounds int) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		seen, err := connectAll(ctx, ways, rounds, s.rules.opens)
		if err != nil {
			return nil, err
		}
		return observed(seen)
	}
}

// answers looks whether echo requests arrive and are answered as the rules have it.
func (s *filtered) answers(ways []way) fault.Show {
	return pinged(func() []way { return ways }, fewEchoes(), func(p ping) bool { return p.asCut(s.rules) })
}

// pinged looks whether all paths of the ways answer a volley as ok has it.
func pinged(ways func() []way, v probe.Volley, ok func(ping) bool) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		all, err := pings(ctx, ways(), v)
		if err != nil {
			return nil, err
		}
		seen := make([]observation, len(all))
		for i, p := range all {
			seen[i] = p.observation(ok(p))
		}
		return observed(seen)
	}
}

// Confirm shows the cut: what is to be cut is, by TCP and by ICMP, what was established as well, and what is to go on
// does. The counters of our own rules say the same.
func (s *filtered) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, s.shown, s.flowsShown, s.counted)
}

// shown waits until what is cut does not go, and what is not goes.
func (s *filtered) shown(ctx context.Context) ([]fault.Fact, error) {
	facts, err := fault.All(ctx,
		fault.Await("no probe to connect", time.Second, cutBound, s.connects(s.all(), rounds)),
		fault.Await("echo requests to go as they should", time.Second, cutBound, s.answers(s.all())))
	if err != nil {
		return facts, s.explain(err)
	}
	return facts, nil
}

// flowsShown shows what became of the flows that were established before the cut.
func (s *filtered) flowsShown(ctx context.Context) ([]fault.Fact, error) {
	if s.rules.Flows == flowsNew {
		return flowsLive(ctx, s.flows, s.Clock)
	}
	return flowsDead(ctx, s.flows, cutBound, s.rules.Reject)
}

// counted holds the counters of our own rules against the plan: the probes were packets of both directions.
func (s *filtered) counted(ctx context.Context) ([]fault.Fact, error) {
	begin := s.Clock()
	t, err := readCounters(ctx, s.Node, s.Owner)
	if err != nil {
		return nil, err
	}
	some := s.rules.someFlows()
	all := uint64(0)
	for _, direction := range []string{directionIn, directionOut} {
		lost, went := t.of(direction)
		cuts := s.rules.cuts(direction)
		all += lost
		// Of a flow that is cut both ways, the far side may have nothing left to send.
		idle := cuts && lost == 0 && s.rules.Flows == flowsEstablished
		if cuts != (lost > 0) && !idle || (!cuts || some) != (went > 0) {
			return nil, fmt.Errorf("the cut is not what was planned: our rules have counted: %s", t)
		}
	}
	if all == 0 {
		return nil, fmt.Errorf("nothing was cut: our rules have counted: %s", t)
	}
	return s.Saw(begin, "our rules have counted: %s", t), nil
}

// explain says why probes did not come to what was wanted, and what to do.
func (s *filtered) explain(cause error) error {
	why := "the packets take another way than the addresses that were cut"
	fix := "look at the routes and the nftables of node " + s.Node.Name()
	if len(s.families) > 0 {
		why = "the cut is limited to " + strings.Join(s.families, " and ") + ", and a node has more ways than that"
		fix = "leave families out of the plan, so that all are cut"
	}
	return fmt.Errorf("the cut did not take effect within %s: %w\n  why:  %s\n  fix:  %s", cutBound, cause, why, fix)
}

// Held shows that the cut is there to the end. Where established flows alone were cut, they are dead by now: that our
// table is there is all that can be shown.
func (s *filtered) Held(ctx context.Context) ([]fault.Fact, error) {
	facts, err := fault.All(ctx, s.connects(s.all(), 1), s.answers(s.all()))
	if err != nil {
		return facts, fmt.Errorf("the cut has ended by itself: %w", err)
	}
	counted, err := s.counted(ctx)
	return append(facts, counted...), err
}

// Heal deletes our table, whether it is there or not, and ends the watches of flows then.
func (s *filtered) Heal(ctx context.Context) error {
	defer func() {
		for _, f := range s.flows {
			_ = f.Stop() // It was cut, and says so.
		}
		s.flows = nil
	}()
	gone := undo.DeleteTable(s.Owner)
	if _, err := undo.On(s.Node)(ctx, gone.Argv, gone.Stdin); err != nil {
		return fmt.Errorf("delete nftables table %q: %w", s.Owner.Table(), err)
	}
	if s.rejoins {
		noteAfterHeal(ctx, s.Env, &s.leases)
	}
	return nil
}

// noteAfterHeal notes the leases: the one that the node renews from then on is one that went through.
func noteAfterHeal(ctx context.Context, env fault.Env, leases *fault.Leases) {
	if _, err := env.NoteLeases(leases)(ctx); err != nil {
		env.Log.Warn("read leases after the heal", "error", err) // The API server may be gone; the cut is, too.
	}
}

// ConfirmHealed shows that the table is gone and that everything connects, at the addresses of now.
func (s *filtered) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) { return s.healed(ctx) }

// healed shows what ConfirmHealed says, and more before the node's return.
func (s *filtered) healed(ctx context.Context, more ...fault.Show) ([]fault.Fact, error) {
	shows := append([]fault.Show{
		s.tableGone, fault.Await("all probes to connect", time.Second, healedBound, s.open),
	}, more...)
	if s.rejoins {
		shows = append(shows, s.NodeBack(&s.leases))
	}
	return fault.All(ctx, shows...)
}

func (s *filtered) tableGone(ctx context.Context) ([]fault.Fact, error) {
	begin := s.Clock()
	out, err := clusters.Run(ctx, s.Node, "nft", "list", "tables")
	if err != nil {
		return nil, fmt.Errorf("list nftables tables: %w", err)
	}
	for line := range strings.Lines(out) {
		if word := strings.Fields(line); len(word) > 0 && word[len(word)-1] == s.Owner.Table() {
			return nil, fmt.Errorf("nftables table %q is still there after it was deleted", s.Owner.Table())
		}
	}
	return s.Saw(begin, "the nftables table %q is gone", s.Owner.Table()), nil
}

// The directions and the flows of a fault that cuts, beside the empty ones, which are all of them.
const (
	directionIn      = "in"
	directionOut     = "out"
	flowsEstablished = "established"
	flowsNew         = "new"
)

// packets are the parameters that say which packets a fault cuts.
type packets struct {
	// Direction is as seen from the victim: "in" are packets that come to it, "out" those that leave it; empty is both.
	Direction string `json:"direction,omitempty"`
	// Flows is which TCP connections are cut: those that were "established" when it began, or "new" ones; empty is all,
	// and every other packet as well.
	Flows  string `json:"flows,omitempty"`
	Reject bool   `json:"reject,omitempty"` // What is cut is answered with a reset, or by ICMP.
}

func (p packets) validate(errs *plan.FieldErrors) {
	validateDirection(errs, p.Direction)
	if p.Flows != "" {
		errs.OneOf("flows", "flows", p.Flows, "all", flowsEstablished, flowsNew)
	}
}

func validateDirection(errs *plan.FieldErrors, direction string) {
	if direction != "" {
		errs.OneOf("direction", "direction", direction, "both", directionIn, directionOut)
	}
}

// betweenParams are those of faults between the victim and another pod.
type betweenParams struct {
	packets
	Peer *int `json:"peer,omitempty"` // The ordinal of the other side.
}

func (p betweenParams) Other() *int { return p.Peer }

func (p betweenParams) Validate(s plan.Setting) (errs plan.FieldErrors) {
	p.validate(&errs)
	switch {
	case p.Peer == nil:
		errs.Add("peer", "set it to the ordinal of the other side", "is missing for fault %q", s.Fault.Name)
	case *p.Peer == s.Fault.Ordinal:
		errs.Add("peer", "use another ordinal than the victim's", "%d is the victim itself", *p.Peer)
	default:
		s.Ordinal(&errs, "peer", *p.Peer)
	}
	return errs
}
