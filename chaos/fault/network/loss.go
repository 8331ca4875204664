package network

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// Loss returns the fault that loses a share of the packets between the victim's node and all other nodes.
//
// What: a table of our own in the victim's nftables drops each packet between the node with its pods and the other
// nodes with theirs by chance (numgen random), IPv4 and IPv6, in both directions or in one.
//
// Shown: a thousand echo requests to each address of the other nodes, at most four of them, are lost by the share that
// was planned. The way out is measured by what the kernel of the far end has counted of what was sent, the way in by
// the answers to what arrived; each family and direction by itself, within four standard deviations of the binomial
// distribution and one point. The counters of our own rules give the same share, within the same tolerance, of all that
// came by meanwhile.
//
// Healed: the table is deleted; every probe connects, 200 of 200 echo requests are answered, the lease is renewed, the
// node is Ready. The kernel takes the elements out of the sets, and a timer on the node the table, when nobody heals.
//
// Upstream: kubernetes#120150, a kubelet that starts while requests to the API server are lost.
func Loss() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "packet-loss",
		Summary: "Loses a share of the packets between the victim's node and all other nodes, IPv4 and IPv6.",
		Shown: "Of a thousand echo requests to each address, and of all packets by the counters of our own rules, " +
			"the planned share is lost, each family and direction by itself, within four standard deviations and a " +
			"point.",
		Healed: "The nftables table is deleted; all probes connect, 200 of 200 echo requests are answered, the lease " +
			"is renewed, and the node is Ready.",
		Needs:    []string{"nftables", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "k/k#120150",
		Example:  plan.Params{"percent": 30},
	}, newLoss)
}

type lossParams struct {
	Direction string `json:"direction,omitempty"` // "in" or "out" as seen from the victim; empty is both.
	Percent   int    `json:"percent"`             // The share of packets that are lost, 1 to 99.
}

// Validate implements fault.Validator.
func (p lossParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	validateDirection(&errs, p.Direction)
	errs.Range("percent", p.Percent, 1, 99)
	return errs
}

// farEnds is how many other nodes are sent echo requests, so that a large cluster does not take longer than the bound.
const farEnds = 4

// manyEchoes is what a share is measured by.
func manyEchoes() volley { return volley{count: 1000, interval: 2 * time.Millisecond} }

// sparseEchoes is what would miss none of a share of a few percent after the heal.
func sparseEchoes() volley { return volley{count: 200, interval: 2 * time.Millisecond} }

type loss struct {
	*rejoining
}

func newLoss(p lossParams, spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
	s, err := newSevered(severing{packets: packets{Direction: p.Direction}, Percent: p.Percent}, spec, step, env)
	if err != nil {
		return nil, err
	}
	s.find = func(ctx context.Context) (sides, error) {
		nodes, err := env.Cluster.Nodes(ctx)
		if err != nil {
			return sides{}, fmt.Errorf("list nodes: %w", err)
		}
		var found sides
		for _, n := range nodes {
			port := uint16(kubeletPort)
			if n.Role() == clusters.RoleControlPlane {
				port = apiServerPort
			}
			e, err := nodeEnd(ctx, env, n, port)
			if err != nil {
				return sides{}, err
			}
			if n.Name() == env.Node.Name() {
				found.mine = e
				continue
			}
			found.others = append(found.others, e)
		}
		if found.mine.node == nil {
			return sides{}, fmt.Errorf("list nodes: %q is not among them", env.Node.Name())
		}
		return found, nil
	}
	return &loss{&rejoining{severed: s}}, nil
}

// Inject shows that everything goes, and has a share of it dropped from then on.
func (l *loss) Inject(ctx context.Context) error {
	if err := l.locate(ctx); err != nil {
		return err
	}
	_, state, err := l.open(ctx)
	if err == nil && state != "" {
		err = fmt.Errorf("what does not connect before cannot be shown to be lost: %s", state)
	}
	if err != nil {
		return err
	}
	return l.apply(ctx)
}

// Confirm measures the share.
func (l *loss) Confirm(ctx context.Context) ([]fault.Fact, error) { return l.measure(ctx) }

// Held measures it again.
func (l *loss) Held(ctx context.Context) ([]fault.Fact, error) { return l.measure(ctx) }

// sample is how many packets of one direction and family there were, and how many of them were lost.
type sample struct {
	what     string
	lost, of uint64
	planned  int // Percent.
}

// share is the lost ones among all, and tolerance how far it may be from what was planned.
func (s sample) share() float64 { return float64(s.lost) / float64(s.of) }

func (s sample) tolerance() float64 {
	p := float64(s.planned) / 100
	return 4*math.Sqrt(p*(1-p)/float64(s.of)) + 0.01
}

// asPlanned reports whether the share is what was planned.
func (s sample) asPlanned() bool {
	if s.of == 0 || s.planned > 0 && s.lost == 0 {
		return false
	}
	return math.Abs(s.share()-float64(s.planned)/100) <= s.tolerance()
}

// String gives the share with its tolerance.
func (s sample) String() string {
	if s.of == 0 {
		return s.what + ": there were no packets"
	}
	return fmt.Sprintf("%s: %d of %d lost, %.1f %% (planned %d %%, within %.1f points)", s.what, s.lost, s.of,
		100*s.share(), s.planned, 100*s.tolerance())
}

// measure sends many echo requests and compares what is lost with what was planned.
func (l *loss) measure(ctx context.Context) ([]fault.Fact, error) {
	begin := l.env.Clock()
	before, err := readTallied(ctx, l.env.Node, l.owner)
	if err != nil {
		return nil, err
	}
	heard, err := pings(ctx, l.outward(), manyEchoes())
	if err != nil {
		return nil, err
	}
	after, err := readTallied(ctx, l.env.Node, l.owner)
	if err != nil {
		return nil, err
	}
	span := history.Between(begin, l.env.Clock())
	all := append(l.sampleEchoes(heard), l.sampleRules(after.since(before))...)
	facts := make([]fault.Fact, len(all))
	for i, s := range all {
		facts[i] = fault.Fact{Span: span, Sentence: s.String()}
	}
	if wrong := filter(all, func(s sample) bool { return !s.asPlanned() }); len(wrong) > 0 {
		return facts, fmt.Errorf("the share that is lost is not what was planned: %s", join(wrong))
	}
	return facts, nil
}

// outward are the ways from the victim on which the share is measured.
func (l *loss) outward() []way {
	out := filter(l.sides.ways(), func(w way) bool { return w.direction == directionOut })
	return out[:min(len(out), farEnds)]
}

func (l *loss) planned(direction string) int {
	if l.rules.cuts(direction) {
		return l.rules.percent
	}
	return 0
}

// sampleEchoes takes the way out from what arrived, and the way in from what of that was answered.
func (l *loss) sampleEchoes(heard []ping) []sample {
	var all []sample
	for _, v4 := range []bool{true, false} {
		out := sample{what: "echo requests out, " + familyName(v4), planned: l.planned(directionOut)}
		in := sample{what: "their answers in, " + familyName(v4), planned: l.planned(directionIn)}
		for _, p := range heard {
			if p.path.to.Addr().Is4() != v4 {
				continue
			}
			sent, arrived, answered := uint64(p.sent), uint64(min(p.arrived, p.sent)), uint64(p.answered)
			out.of, out.lost = out.of+sent, out.lost+sent-arrived
			in.of, in.lost = in.of+arrived, in.lost+arrived-min(answered, arrived)
		}
		if out.of > 0 {
			all = append(all, out, in)
		}
	}
	return all
}

// sampleRules takes both ways from the counters of our own rules.
func (l *loss) sampleRules(t tallied) []sample {
	var all []sample
	for _, v4 := range []bool{true, false} {
		if v4 && len(l.rules.other.v4) == 0 || !v4 && len(l.rules.other.v6) == 0 {
			continue
		}
		family := map[bool]string{true: "4", false: "6"}[v4]
		for _, direction := range []string{directionOut, directionIn} {
			lost, went := t["cut_"+direction+family], t["went_"+direction+family]
			all = append(all, sample{what: fmt.Sprintf("our rules, %sbound, %s", direction, familyName(v4)),
				lost: lost, of: lost + went, planned: l.planned(direction)})
		}
	}
	return all
}

func familyName(v4 bool) string {
	if v4 {
		return "IPv4"
	}
	return "IPv6"
}

// ConfirmHealed shows that the table is gone and that nothing is lost any more.
func (l *loss) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	facts, err := l.severed.ConfirmHealed(ctx)
	if err != nil {
		return facts, err
	}
	var heard []ping
	err = await.Until(ctx, "all echo requests to be answered", time.Second, healedBound,
		func(ctx context.Context) (bool, string, error) {
			now, err := pings(ctx, l.outward(), sparseEchoes())
			if err != nil {
				return false, "", err
			}
			heard = now
			lost := filter(heard, func(p ping) bool { return p.answered < p.sent })
			return len(lost) == 0, join(lost), nil
		})
	facts = append(facts, pingFacts(heard)...)
	if err != nil {
		return facts, errors.Join(errors.New("packets are still lost after the heal"), err)
	}
	return nodeBack(ctx, l.env, l.leases, facts)
}
