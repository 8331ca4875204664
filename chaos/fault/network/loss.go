package network

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Loss drops a share of the packets between the victim's node and all other nodes, pods included, in one direction or
// both. A table of ours in the victim's nftables selects packets at random (numgen random).
//
// Outbound loss is measured by what the far end's kernel counted of what was sent, inbound loss by the replies to what
// arrived, with at most four other nodes. Each family and direction must be within four standard deviations of the
// binomial distribution plus one percentage point. Without a heal, the set elements expire in the kernel and the undo
// deletes the table.
func Loss() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "packet-loss",
		Summary: "Drops a share of the packets between the victim's node and all other nodes, IPv4 and IPv6.",
		Shown: "Of a thousand echo requests to each address, of a thousand of the victim's pod, if it was answered " +
			"before, and of all packets that our rules count, the planned share is lost, within four standard " +
			"deviations plus one percentage point, in each family and direction.",
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
	Percent   int    `json:"percent"`             // The share of packets to drop, 1 to 99.
}

func (p lossParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	validateDirection(&errs, p.Direction)
	errs.Range("percent", p.Percent, 1, 99)
	return errs
}

// farEnds bounds the other nodes that are probed, so that a large cluster fits into the time bound.
const farEnds = 4

// manyEchoes is a sample large enough to measure a share.
func manyEchoes() probe.Volley {
	return probe.Volley{Count: 1000, Interval: 2 * time.Millisecond, Timeout: echoTimeout}
}

// sparseEchoes is a sample large enough to detect a leftover loss of a few percent.
func sparseEchoes() probe.Volley {
	return probe.Volley{Count: 200, Interval: 2 * time.Millisecond, Timeout: echoTimeout}
}

type loss struct {
	*filtered
}

func newLoss(p lossParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
	return &loss{&filtered{
		Env: env, rules: filter{packets: packets{Direction: p.Direction}, percent: p.Percent}, rejoins: true,
		find: nodeSides(env, env.Others),
	}}, nil
}

// Inject checks that every way is open, also one of the victim's pod, then drops a share of the packets.
func (l *loss) Inject(ctx context.Context) error {
	if err := l.openBefore(ctx); err != nil {
		return err
	}
	l.notePods(ctx, func(mine end) ([]way, error) {
		return sides{mine: mine, others: l.sides.others[:1]}.out(), nil
	})
	return l.apply(ctx)
}

// sample is the number of packets of one direction and family, and how many of them were lost.
type sample struct {
	what     string
	lost, of uint64
	planned  int // Percent.
}

// observation compares the lost share with the planned one.
func (s sample) observation(span history.Span) observation {
	if s.of == 0 {
		return observation{fault.Fact{Span: span, Sentence: s.what + ": there were no packets"}, false}
	}
	planned, share := float64(s.planned)/100, float64(s.lost)/float64(s.of)
	tolerance := 4*math.Sqrt(planned*(1-planned)/float64(s.of)) + 0.01
	sentence := fmt.Sprintf("%s: %d of %d lost, %.1f %% (planned %d %%, within %.1f points)", s.what, s.lost, s.of,
		100*share, s.planned, 100*tolerance)
	ok := (s.lost > 0 || s.planned == 0) && math.Abs(share-planned) <= tolerance
	return observation{fault.Fact{Span: span, Sentence: sentence}, ok}
}

// Confirm also measures once from within the victim's pod, which need not be there to the end.
func (l *loss) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, l.Held,
		func(ctx context.Context) ([]fault.Fact, error) { return l.explainPod(l.fromPod(l.ofPod)(ctx)) })
}

// ofPod compares the share of the pod's echo requests that is lost with the planned one.
func (l *loss) ofPod(ctx context.Context) ([]fault.Fact, error) {
	begin := l.Clock()
	heard, err := pings(ctx, l.podWays, manyEchoes())
	if err != nil {
		return nil, err
	}
	samples := l.sampleEchoes(heard)
	for i := range samples {
		samples[i].what = l.Pod + ": " + samples[i].what
	}
	return l.compare(begin, samples)
}

func (l *loss) compare(begin history.Time, samples []sample) ([]fault.Fact, error) {
	var all []observation
	for _, s := range samples {
		all = append(all, s.observation(history.Between(begin, l.Clock())))
	}
	return observed(all)
}

// Held sends many echo requests and compares the lost share with the planned one.
func (l *loss) Held(ctx context.Context) ([]fault.Fact, error) {
	begin := l.Clock()
	before, err := readCounters(ctx, l.Node, l.Owner)
	if err != nil {
		return nil, err
	}
	heard, err := pings(ctx, l.outward(), manyEchoes())
	if err != nil {
		return nil, err
	}
	after, err := readCounters(ctx, l.Node, l.Owner)
	if err != nil {
		return nil, err
	}
	facts, err := l.compare(begin, append(l.sampleEchoes(heard), l.sampleRules(after.since(before))...))
	if err != nil {
		return facts, fmt.Errorf("the lost share differs from the planned one: %w", err)
	}
	return facts, nil
}

// outward returns the ways from the victim on which loss is measured.
func (l *loss) outward() []way {
	out := l.sides.out()
	return out[:min(len(out), farEnds)]
}

func (l *loss) planned(direction string) int {
	if l.rules.cuts(direction) {
		return l.rules.percent
	}
	return 0
}

// sampleEchoes takes outbound loss from the requests that arrived, and inbound loss from the replies to those.
func (l *loss) sampleEchoes(heard []ping) []sample {
	var all []sample
	for _, family := range families() {
		out := sample{what: "echo requests out, IPv" + family, planned: l.planned(directionOut)}
		in := sample{what: "their answers in, IPv" + family, planned: l.planned(directionIn)}
		for _, p := range heard {
			if familyOf(p.path.to.Addr()) != family {
				continue
			}
			sent, arrived, answered := uint64(p.Sent), uint64(min(p.arrived, p.Sent)), uint64(p.Answered)
			out.of, out.lost = out.of+sent, out.lost+sent-arrived
			in.of, in.lost = in.of+arrived, in.lost+arrived-min(answered, arrived)
		}
		if out.of > 0 {
			all = append(all, out, in)
		}
	}
	return all
}

// sampleRules takes both directions from the counters of our rules, of a family in which echo requests are sent: of
// another there may be few packets, or none.
func (l *loss) sampleRules(t counters) []sample {
	var all []sample
	for _, family := range families() {
		if !slices.ContainsFunc(l.outward(), func(w way) bool { return w.in(family) }) {
			continue
		}
		for _, direction := range []string{directionOut, directionIn} {
			lost, went := t["cut_"+direction+family], t["went_"+direction+family]
			all = append(all, sample{what: fmt.Sprintf("our rules, %sbound, IPv%s", direction, family),
				lost: lost, of: lost + went, planned: l.planned(direction)})
		}
	}
	return all
}

// ConfirmHealed shows that the table is gone, no packet is lost, and the node is back.
func (l *loss) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return l.healed(ctx, fault.Await("no packet to be lost any more", time.Second, healedBound,
		checkPings(l.outward, sparseEchoes(), func(p ping) bool { return p.Answered >= p.Sent })))
}
