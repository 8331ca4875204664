package network

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// Bandwidth returns the fault that lets only so many bits leave the victim's node in a second.
//
// What: a queueing discipline of our own, tbf (a token bucket), at the root of every device by which the node reaches
// the other nodes: what the node and its pods send to them, and to whatever else is behind these devices, IPv4 and
// IPv6, waits for its turn, for at most 400 ms, and is dropped when the queue is full.
//
// Shown: echo requests of 1,200 bytes leave the node for each other node and over each family, one after the other, at
// twice the rate for a second. Their answers, which nothing holds back, come in at the rate: at most 15 % above it, and
// not below half of it, since others use the line as well. Before, they came at more than one and a half times the
// rate. The kernel says of our queueing discipline that it has held packets back meanwhile, and has let as many bytes
// go as were answered.
//
// Healed: the queueing discipline is removed, and the kernel gives the device its own again; the same requests are
// answered at more than one and a half times the rate, the lease is renewed, the node is Ready. A timer on the node
// does it when nobody heals.
//
// Upstream: NetworkChaos bandwidth, which is tbf as well.
func Bandwidth() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "network-bandwidth",
		Summary: "Lets only so many bits leave the victim's node in a second, IPv4 and IPv6.",
		Shown: "Echo requests sent at twice the rate to each node and over each family are answered at the rate, at " +
			"most 15 % above it; before, at more than one and a half times as much; and the kernel has held packets " +
			"back.",
		Healed: "The queueing discipline is removed; the same requests are answered at more than one and a half " +
			"times the rate, the lease is renewed, and the node is Ready.",
		Needs:    []string{"tbf", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "NetworkChaos bandwidth",
		Example:  plan.Params{"kbits": 1000},
	}, func(p bandwidthParams, spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
		b := &bandwidth{bits: p.Kbits * 1000}
		var err error
		b.line, err = newLine(step, env, "tbf", "rate", strconv.Itoa(p.Kbits)+"kbit",
			"burst", strconv.Itoa(b.burst())+"b", "latency", "400ms")
		return b, err
	})
}

type bandwidthParams struct {
	Kbits int `json:"kbits"` // How many thousand bits may leave in a second.
}

// The limits of a rate: a second of echo requests fills it.
const (
	minKbits = 500
	maxKbits = 50_000
)

// Validate implements fault.Validator.
func (p bandwidthParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	errs.Range("kbits", p.Kbits, minKbits, maxKbits)
	return errs
}

// bandwidth is a line of so many bits a second.
type bandwidth struct {
	*line
	bits int
}

// burst is how many bytes go at once after a silence: what the rate has in 20 ms, and some packets at the least.
func (b *bandwidth) burst() int { return max(10_000, b.bits/8/50) }

// The bytes that a request has on the line beside the ICMP message: an Ethernet header, and that of IPv4 or IPv6.
const beside4, beside6 = 14 + 20, 14 + 40

// atTwice is a volley of twice the rate: for a second, and 40 requests at the least.
func (b *bandwidth) atTwice() volley {
	each := (probe.MaxEchoSize + beside6) * 8
	count := max(40, 2*b.bits/each)
	return volley{
		count: count, interval: time.Duration(float64(time.Second) * float64(each) / float64(2*b.bits)),
		size: probe.MaxEchoSize, timeout: echoTimeout,
	}
}

// flood is what came of one volley on one path.
type flood struct {
	heard
	bits  int // Planned.
	burst int // Bytes.
}

// bytes are those that were answered, as they are on the line.
func (f flood) bytes() int {
	each := probe.MaxEchoSize + beside6
	if f.path.to.Addr().Is4() {
		each = probe.MaxEchoSize + beside4
	}
	return f.echo.Answered * each
}

// rate is how many bits a second came through, but for what may go at once.
func (f flood) rate() float64 {
	took := f.echo.Last.Sub(f.echo.First).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(f.bytes()-f.burst) * 8 / took
}

func (f flood) wide() bool { return f.rate() > 1.5*float64(f.bits) }

func (f flood) narrow() bool {
	return f.rate() < 1.15*float64(f.bits) && f.rate() > 0.5*float64(f.bits)
}

// String gives the rate.
func (f flood) String() string {
	return fmt.Sprintf("%s: %d of %d answered, %.0f kbit/s (planned %d)", f.path, f.echo.Answered, f.echo.Sent,
		f.rate()/1000, f.bits/1000)
}

func (f flood) fact() fault.Fact {
	fact := f.heard.fact()
	fact.Sentence = f.String()
	return fact
}

// floods sends the volleys, one path after the other: they share the line. Each may be held against the rules by check.
func (b *bandwidth) floods(ctx context.Context, check func(flood) error) ([]flood, error) {
	var all []flood
	for _, w := range b.ways(directionOut) {
		for _, a := range w.addresses() {
			one := w
			one.to.addresses = append(one.to.addresses[:0:0], a)
			some, err := b.echoed(ctx, one, b.atTwice())
			if err != nil {
				return all, err
			}
			f := flood{heard: some[0], bits: b.bits, burst: b.burst()}
			all = append(all, f)
			if f.echo.Answered < 10 {
				return all, fmt.Errorf("%w: %s", errNoAnswers, f)
			}
			if err := check(f); err != nil {
				return all, err
			}
		}
	}
	return all, nil
}

// Inject shows that the line is wide, and makes it narrow.
func (b *bandwidth) Inject(ctx context.Context) error {
	if err := b.locate(ctx); err != nil {
		return err
	}
	_, err := b.floods(ctx, func(f flood) error {
		if !f.wide() {
			return fmt.Errorf("a line that is narrow before cannot be shown to be made so: %s", f)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return b.apply(ctx)
}

// Confirm measures what goes through.
func (b *bandwidth) Confirm(ctx context.Context) ([]fault.Fact, error) { return b.shown(ctx) }

// Held measures it again.
func (b *bandwidth) Held(ctx context.Context) ([]fault.Fact, error) { return b.shown(ctx) }

func (b *bandwidth) shown(ctx context.Context) ([]fault.Fact, error) {
	before, err := b.there(ctx)
	if err != nil {
		return nil, fmt.Errorf("the line is not narrow: %w", err)
	}
	sent := 0
	all, err := b.floods(ctx, func(f flood) error {
		sent += f.bytes()
		if !f.narrow() {
			return fmt.Errorf("the line is not as narrow as planned: %s", f)
		}
		return nil
	})
	var facts []fault.Fact
	for _, f := range all {
		facts = append(facts, f.fact())
	}
	if err != nil {
		return facts, err
	}
	after, err := b.there(ctx)
	if err != nil {
		return facts, err
	}
	was, is := sum(before), sum(after)
	if is.Bytes-min(is.Bytes, was.Bytes) < uint64(sent) || is.Overlimits <= was.Overlimits {
		return facts, fmt.Errorf("%d bytes were answered, and our queueing disciplines have let %d go and held %d "+
			"packets back: they went another way", sent, is.Bytes-was.Bytes, is.Overlimits-was.Overlimits)
	}
	return facts, nil
}

// sum adds the counters up.
func sum(all []undo.Qdisc) undo.Qdisc {
	var s undo.Qdisc
	for _, q := range all {
		s.Bytes, s.Overlimits = s.Bytes+q.Bytes, s.Overlimits+q.Overlimits
	}
	return s
}

// ConfirmHealed shows that the queueing discipline is gone and that all is as before.
func (b *bandwidth) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	facts, err := b.wideAgain(ctx)
	if err != nil {
		return facts, err
	}
	return nodeBack(ctx, b.env, b.leases, facts)
}

// wideAgain shows that the queueing discipline is gone and that the line is wide.
func (b *bandwidth) wideAgain(ctx context.Context) ([]fault.Fact, error) {
	gone, err := b.gone(ctx)
	if err != nil {
		return nil, err
	}
	facts := []fault.Fact{gone}
	err = await.Until(ctx, "the line to be wide", time.Second, healedBound,
		func(ctx context.Context) (bool, string, error) {
			if err := b.locate(ctx); err != nil {
				return false, "", err
			}
			all, err := b.floods(ctx, func(flood) error { return nil })
			if err != nil {
				return false, "", err
			}
			facts = []fault.Fact{gone}
			for _, f := range all {
				facts = append(facts, f.fact())
			}
			narrow := filter(all, func(f flood) bool { return !f.wide() })
			return len(narrow) == 0, join(narrow), nil
		})
	if err != nil {
		return facts, errors.Join(errors.New("the line is still narrow after the heal"), err)
	}
	return facts, nil
}
