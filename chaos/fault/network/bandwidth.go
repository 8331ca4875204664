package network

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// Bandwidth limits the rate at which packets leave the victim's node, with a token bucket (queueing discipline tbf; see
// line). A packet waits in the queue for at most 400 ms; a full queue drops it.
//
// It is measured with echo requests of 1,200 bytes to every other node over each family, one path at a time, at twice
// the rate for one second. Replies are not limited, so they arrive at the rate: at most 15 % above it, and not below
// half of it, since other traffic shares the devices.
func Bandwidth() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "network-bandwidth",
		Summary: "Limits the rate of packets that leave the victim's node, IPv4 and IPv6.",
		Shown: "Echo requests sent at twice the rate are answered at the rate, at most 15 % above it, on each path " +
			"and family; before, at more than 1.5 times the rate; and the kernel delayed packets.",
		Healed: "The queueing discipline is removed; the requests are answered at more than 1.5 times the rate, the " +
			"lease is renewed, and the node is Ready.",
		Needs:    []string{"tbf", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "NetworkChaos bandwidth",
		Example:  plan.Params{"kbits": 1000},
	}, func(p bandwidthParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		b := &bandwidth{bits: p.Kbits * 1000}
		b.line = newLine(env, "tbf", "rate", strconv.Itoa(p.Kbits)+"kbit",
			"burst", strconv.Itoa(b.burst())+"b", "latency", "400ms")
		b.measure, b.checkCounters = b.floods, heldBack
		return b, nil
	})
}

type bandwidthParams struct {
	Kbits int `json:"kbits"` // Kilobits a second that may leave the node.
}

// The limits of the rate: one second of echo requests must be able to fill it.
const (
	minKbits = 500
	maxKbits = 50_000
)

func (p bandwidthParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	errs.Range("kbits", p.Kbits, minKbits, maxKbits)
	return errs
}

// bandwidth limits the line to a number of bits a second.
type bandwidth struct {
	*line
	bits int
}

// burst returns the bytes that leave at once after an idle time: 20 ms at the rate, and room for several packets.
func (b *bandwidth) burst() int { return max(10_000, b.bits/8/50) }

// The bytes of a request on the wire beside the ICMP message: the Ethernet header and the one of IPv4 or IPv6.
const beside4, beside6 = 14 + 20, 14 + 40

// atTwice returns a volley at twice the rate that lasts one second and has at least 40 requests.
func (b *bandwidth) atTwice() probe.Volley {
	each := (probe.MaxEchoSize + beside6) * 8
	count := max(40, 2*b.bits/each)
	return probe.Volley{
		Count: count, Interval: time.Duration(float64(time.Second) * float64(each) / float64(2*b.bits)),
		Size: probe.MaxEchoSize, Timeout: echoTimeout,
	}
}

// floods sends a volley on each path, one after the other, since all paths share the line.
func (b *bandwidth) floods(ctx context.Context) ([]reading, error) {
	var all []reading
	for _, w := range b.sides.out() {
		for _, a := range w.addresses() {
			some, err := echoed(ctx, w, []netip.Addr{a}, b.atTwice())
			if err != nil {
				return all, err
			}
			m := b.judge(some[0])
			all = append(all, m)
			if some[0].Answered < 10 {
				return all, fmt.Errorf("too few echo requests are answered to measure anything: %s", m.Sentence)
			}
		}
	}
	return all, nil
}

// judge compares the measured bits a second, less the burst, with the rate.
func (b *bandwidth) judge(h echoResult) reading {
	each := probe.MaxEchoSize + beside6
	if h.path.to.Addr().Is4() {
		each = probe.MaxEchoSize + beside4
	}
	bytes, rate, planned := h.Answered*each, 0.0, float64(b.bits)
	if took := h.Last.Sub(h.First).Seconds(); took > 0 {
		rate = float64(bytes-b.burst()) * 8 / took
	}
	return reading{
		Fact:   h.fact("%d of %d answered, %.0f kbit/s (planned %d)", h.Answered, h.Sent, rate/1000, b.bits/1000),
		normal: rate > 1.5*planned, slowed: rate < 1.15*planned && rate > 0.5*planned, bytes: bytes,
	}
}

// heldBack checks that our queueing disciplines passed at least the answered bytes and delayed packets.
func heldBack(before, after []undo.Qdisc, all []reading) error {
	answered := 0
	for _, m := range all {
		answered += m.bytes
	}
	var bytes, held int64
	for _, q := range after {
		bytes, held = bytes+int64(q.Bytes), held+int64(q.Overlimits)
	}
	for _, q := range before {
		bytes, held = bytes-int64(q.Bytes), held-int64(q.Overlimits)
	}
	if bytes < int64(answered) || held <= 0 {
		return fmt.Errorf("%d bytes were answered, and our queueing disciplines have let %d go and held %d packets "+
			"back: they went another way", answered, bytes, held)
	}
	return nil
}
