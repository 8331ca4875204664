package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// The bounds of waits and probes. Each leaves room for the others within fault.ConfirmLimit.
const (
	cutBound    = 14 * time.Second // From the cut until no probe connects; it takes effect with the next packet.
	healedBound = 30 * time.Second // From the heal until all probes connect.
	rounds      = 3                // Probes of each path: one lost packet proves nothing.
)

// filtered is a fault that cuts traffic between two sides with nftables rules on the victim's node.
type filtered struct {
	fault.Env
	families []string
	rules    filter // locate sets its addresses.
	find     func(ctx context.Context) (sides, error)
	pod      bool // The victim's side is one pod instead of the node with all its pods.
	rejoins  bool // The victim is a node: after the heal its lease must be renewed and it must be Ready.

	sides       sides // Set by locate.
	flows       []*flow
	leases      fault.Leases // As of the cut, if noted, and later as of the heal.
	podWays     []way        // Those of the victim's pod whose echo requests were answered before, set by notePods.
	podUnproven string       // Why the fault of a node cannot be shown from within its pod.
}

// Undo deletes the owner's table on the victim's node.
func (s *filtered) Undo(context.Context) ([]undo.Task, error) {
	return s.Here(undo.DeleteTable(s.Owner)), nil
}

// locate finds both sides and sets the addresses to cut.
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

// Inject checks that every way is open, and cuts.
func (s *filtered) Inject(ctx context.Context) error {
	if err := s.openBefore(ctx); err != nil {
		return err
	}
	return s.cut(ctx)
}

// cut opens the flows that Confirm watches, and cuts in one nftables transaction.
func (s *filtered) cut(ctx context.Context) error {
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

// openBefore locates both sides and checks that every way is open.
func (s *filtered) openBefore(ctx context.Context) error {
	if _, err := s.open(ctx); err != nil {
		return fmt.Errorf("every path must be open before the cut: %w", err)
	}
	return nil
}

func (s *filtered) apply(ctx context.Context) error {
	_, err := undo.On(s.Node)(ctx, []string{"nft", "-f", "-"}, ruleset(s.Owner.Table(), s.rules, s.Life))
	if err != nil {
		return fmt.Errorf("make nftables table %q: %w", s.Owner.Table(), err)
	}
	return nil
}

// open locates both sides and checks that every connection succeeds and every echo request is answered.
func (s *filtered) open(ctx context.Context) ([]fault.Fact, error) {
	if err := s.locate(ctx); err != nil {
		return nil, err
	}
	ways := s.all()
	for i := range ways {
		ways[i].direction = "" // Expect it to be open.
	}
	return fault.All(ctx, s.connects(ways, 1), s.answers(ways))
}

// all returns the ways to cut and those that must stay open.
func (s *filtered) all() []way { return append(s.sides.ways(), s.sides.beside...) }

// connects checks that connections have the outcome that the rules imply.
func (s *filtered) connects(ways []way, rounds int) fault.Show {
	return func(ctx context.Context) ([]fault.Fact, error) {
		seen, err := connectAll(ctx, ways, rounds, s.rules.outcome)
		if err != nil {
			return nil, err
		}
		return observed(seen)
	}
}

// answers checks that echo requests and replies arrive where the rules let them pass, and nowhere else.
func (s *filtered) answers(ways []way) fault.Show {
	return checkPings(func() []way { return ways }, fewEchoes(), func(p ping) bool { return p.asPlanned(s.rules) })
}

// checkPings sends a volley on every path of the ways and checks each outcome with ok.
func checkPings(ways func() []way, v probe.Volley, ok func(ping) bool) fault.Show {
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

// Confirm shows the cut with new connections, echo requests, established flows and the counters of our rules.
func (s *filtered) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, s.probesMatch, s.flowsMatch, s.countersMatch)
}

// probesMatch waits until probes fail on cut ways and succeed on all others.
func (s *filtered) probesMatch(ctx context.Context) ([]fault.Fact, error) {
	facts, err := fault.All(ctx,
		fault.Await("no probe to connect", time.Second, cutBound, s.connects(s.all(), rounds)),
		fault.Await("echo requests to go as they should", time.Second, cutBound, s.answers(s.all())))
	if err != nil {
		return facts, s.explain(err)
	}
	return facts, nil
}

// flowsMatch checks that flows established before the cut went dead, or went on if only new ones are cut.
func (s *filtered) flowsMatch(ctx context.Context) ([]fault.Fact, error) {
	if s.rules.Flows == flowsNew {
		return flowsLive(ctx, s.flows, s.Clock)
	}
	return flowsDead(ctx, s.flows, cutBound, s.rules.Reject)
}

// countersMatch checks the counters of our rules: packets were cut in the planned directions only, and passed in the
// others.
func (s *filtered) countersMatch(ctx context.Context) ([]fault.Fact, error) {
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
		// If a flow is cut both ways, or we can send nothing from there, the far side may have nothing to send.
		idle := cuts && lost == 0 && (s.rules.Flows == flowsEstablished || direction == directionIn && s.sides.deaf())
		if cuts != (lost > 0) && !idle || (!cuts || some) != (went > 0) {
			return nil, fmt.Errorf("the cut differs from the planned one: our rules have counted: %s", t)
		}
	}
	if all == 0 {
		return nil, fmt.Errorf("nothing was cut: our rules have counted: %s", t)
	}
	return s.Saw(begin, "our rules have counted: %s", t), nil
}

// notePods finds out whether ways of the victim's pod are open. The rules may hit its node and not the pod: a network
// plugin can forward packets of pods past them.
func (s *filtered) notePods(ctx context.Context, find func(mine end) ([]way, error)) {
	mine, err := victimEnd(ctx, s.Env)
	if err == nil {
		s.podWays, err = find(mine)
	}
	if err == nil {
		var before []ping
		before, err = pings(ctx, s.podWays, fewEchoes())
		if slices.ContainsFunc(before, func(p ping) bool { return p.Answered == 0 }) {
			err = errors.New("no echo request was answered before")
		}
	}
	if err != nil { // One may not run, or answer nobody: the fault hits the node all the same.
		s.podUnproven = err.Error()
	}
}

// podsCut waits until echo requests of the pod go as those between the nodes. The far end's counter has those of others
// too.
func (s *filtered) podsCut(ctx context.Context) ([]fault.Fact, error) {
	return s.explainPod(fault.Until(ctx, "echo requests of the pod to go as they should", time.Second, cutBound,
		s.fromPod(s.answers(s.podWays))))
}

// fromPod runs look, unless the pod cannot be probed. What was seen from within a pod that is gone by then shows
// nothing.
func (s *filtered) fromPod(look fault.Show) fault.Show {
	return func(ctx context.Context) (facts []fault.Fact, err error) {
		if s.podUnproven == "" {
			facts, err = look(ctx)
			s.podUnproven = s.podGone(ctx)
		}
		if s.podUnproven != "" {
			return s.Saw(s.Clock(), "the fault is not shown from within %s: %s", s.Pod, s.podUnproven), nil
		}
		return facts, err
	}
}

// podGone says which pod has gone since its process was found, if one has.
func (s *filtered) podGone(ctx context.Context) string {
	for _, w := range s.podWays {
		for _, e := range []end{w.from, w.to} {
			if e.pid == 0 {
				continue
			}
			found, err := nodeagent.On(e.node).Processes(ctx, probe.Query{PIDs: []int{e.pid}})
			if err == nil && len(found.Processes) == 0 { // Without an answer it is not gone.
				return fmt.Sprintf("process %d of %s has ended", e.pid, e.name)
			}
		}
	}
	return ""
}

// explainPod adds why the fault may not show from within the pod, where that was seen.
func (s *filtered) explainPod(facts []fault.Fact, err error) ([]fault.Fact, error) {
	if fault.IsNotYet(err) {
		err = fmt.Errorf("the fault shows between the nodes, and not from within %s: %w\n"+
			"  why:  where requests arrive, the network plugin forwards packets of pods past nftables, as with eBPF\n"+
			"  fix:  leave the fault out on such a cluster", s.Pod, err)
	}
	return facts, err
}

// explain adds why the probes still connect and what to do.
func (s *filtered) explain(cause error) error {
	why := "the packets take another way than the addresses that were cut"
	fix := "look at the routes and the nftables of node " + s.Node.Name()
	if len(s.families) > 0 {
		why = "the cut is limited to " + strings.Join(s.families, " and ") + ", and a node has more ways than that"
		fix = "leave families out of the plan, so that all are cut"
	}
	return fmt.Errorf("the cut did not take effect within %s: %w\n  why:  %s\n  fix:  %s", cutBound, cause, why, fix)
}

// Held checks that the cut is still in place. Flows that were established before it are dead by now; if only those are
// cut, the counters of our table are the evidence.
func (s *filtered) Held(ctx context.Context) ([]fault.Fact, error) {
	facts, err := fault.All(ctx, s.connects(s.all(), 1), s.answers(s.all()))
	if err != nil {
		return facts, fmt.Errorf("the cut has ended by itself: %w", err)
	}
	counted, err := s.countersMatch(ctx)
	return append(facts, counted...), err
}

// Heal deletes our table, if it exists, and stops watching the flows.
func (s *filtered) Heal(ctx context.Context) error {
	defer func() {
		for _, f := range s.flows {
			_ = f.Stop() // The error only says that the flow was cut.
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

// noteAfterHeal records the leases after the heal: a renewal since then has passed the former cut.
func noteAfterHeal(ctx context.Context, env fault.Env, leases *fault.Leases) {
	if _, err := env.NoteLeases(leases)(ctx); err != nil {
		env.Log.Warn("read leases after the heal", "error", err) // The cut is healed even if the API server is down.
	}
}

// ConfirmHealed shows that the table is gone and that every way is open at the ends' present addresses.
func (s *filtered) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) { return s.healed(ctx) }

// healed is ConfirmHealed with more checks before those of the node's lease and readiness.
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

// The directions and flows that can be cut; an empty value is all of them.
const (
	directionIn      = "in"
	directionOut     = "out"
	flowsEstablished = "established"
	flowsNew         = "new"
)

// packets are the parameters that select the packets to cut.
type packets struct {
	// Direction is seen from the victim: "in" cuts packets to it, "out" packets from it; empty is both.
	Direction string `json:"direction,omitempty"`
	// Flows selects TCP connections: "established" when the cut began, or "new" since; empty cuts all packets.
	Flows  string `json:"flows,omitempty"`
	Reject bool   `json:"reject,omitempty"` // Answer a cut packet with a TCP reset or an ICMP error.
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

// betweenParams are the parameters of faults between the victim and another pod.
type betweenParams struct {
	packets
	Peer *int `json:"peer,omitempty"` // The other pod's ordinal.
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
