package network

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Delay delays every packet that leaves the victim's node, with the queueing discipline netem (see line).
//
// It needs netem in the nodes' kernel and has run on the fake cluster only: no kernel tried so far had it. Other tools
// report a delay as injected that no ping shows, or one several times as long (chaos-mesh#3399).
func Delay() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "network-delay",
		Summary: "Delays every packet that leaves the victim's node, IPv4 and IPv6.",
		Shown: "Echo requests between the node and the others take at least the delay in each direction and " +
			"family, and half of them not much more; before, less than half of it.",
		Healed: "The queueing discipline is removed; round trips take less than half of the delay, the lease is " +
			"renewed, and the node is Ready.",
		Needs:    []string{"netem", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "chaosd#273",
		Example:  plan.Params{"delay": plan.Duration(100 * time.Millisecond)},
	}, func(p delayParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		d := &delay{by: p.Delay.D(), line: newLine(env, "netem", "limit", strconv.Itoa(delayedPackets),
			"delay", strconv.FormatInt(p.Delay.D().Microseconds(), 10)+"us")}
		d.measure = d.roundTrips
		return d, nil
	})
}

type delayParams struct {
	Delay plan.Duration `json:"delay"` // Added to every packet that leaves.
}

// The limits of the delay: long enough to show on a busy machine, short enough to keep connections open.
const (
	minDelay = 10 * time.Millisecond
	maxDelay = 5 * time.Second
)

func (p delayParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	if p.Delay.D() < minDelay || p.Delay.D() > maxDelay {
		errs.Add("delay", fmt.Sprintf("use %s to %s", minDelay, maxDelay), "%s is out of range", p.Delay)
	}
	return errs
}

// delayedPackets is the length of the queue: more packets than 1 Gbit/s sends in 100 ms.
const delayedPackets = 20000

// delaySlack is how much longer than the delay a round trip may take on a busy machine.
const delaySlack = 100 * time.Millisecond

type delay struct {
	*line
	by time.Duration
}

// roundTrips sends ten echo requests in each direction: at least one of ten meets an idle machine.
func (d *delay) roundTrips(ctx context.Context) ([]reading, error) {
	ten := probe.Volley{Count: 10, Interval: 20 * time.Millisecond, Timeout: d.by + echoTimeout}
	var all []reading
	for _, w := range d.sides.ways() {
		some, err := echoed(ctx, w, w.addresses(), ten)
		if err != nil {
			return all, err
		}
		for _, h := range some {
			all = append(all, d.judge(h))
		}
	}
	return all, nil
}

// judge compares round trips with the delay, allowing for the different clocks of the kernel's timer and the probe.
func (d *delay) judge(h echoResult) reading {
	whole := h.Answered == h.Sent
	return reading{
		Fact: h.fact("%d of %d answered, at the fastest in %s, half of them in %s (planned delay %s)", h.Answered,
			h.Sent, brief(h.Fastest), brief(h.Median), d.by),
		normal: whole && h.Fastest < d.by/2,
		slowed: whole && h.Fastest >= d.by-d.by/100-time.Millisecond && h.Median <= d.by+d.by/4+delaySlack,
	}
}

func brief(d time.Duration) time.Duration {
	if d < 10*time.Millisecond {
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(100 * time.Microsecond)
}
