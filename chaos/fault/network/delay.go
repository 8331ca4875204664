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
)

// Delay returns the fault that lets every packet leave the victim's node later.
//
// What: a queueing discipline of our own, netem with a delay, at the root of every device by which the node reaches
// the other nodes: what the node and its pods send to them, and to whatever else is behind these devices, leaves that
// much later, IPv4 and IPv6.
//
// Shown: echo requests between the node and the others, in either direction and over each family, take at least the
// delay for the way there and back, and half of them not much more; before, they took less than half of it.
//
// Healed: the queueing discipline is removed, and the kernel gives the device its own again; the round trips take less
// than half of the delay, the lease is renewed, the node is Ready. A timer on the node does it when nobody heals.
//
// It needs netem in the kernel of the nodes. It was seen on the model of a cluster alone: no kernel that it was tried
// on had one.
//
// Upstream: chaosd#273, a delay that is reported as injected, with its queueing discipline in place, and that no ping
// shows; chaos-mesh#3399, one that is several times as long.
func Delay() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "network-delay",
		Summary: "Lets every packet leave the victim's node later, IPv4 and IPv6.",
		Shown: "Echo requests between the node and the others take at least the delay in either direction and over " +
			"each family, and half of them not much more; before, they took less than half of it.",
		Healed: "The queueing discipline is removed; round trips take less than half of the delay, the lease is " +
			"renewed, and the node is Ready.",
		Needs:    []string{"netem", "systemd"},
		Takes:    []plan.Part{plan.PartNetwork},
		Upstream: "chaosd#273",
		Example:  plan.Params{"delay": plan.Duration(100 * time.Millisecond)},
	}, func(p delayParams, spec plan.Fault, step int, env fault.Env) (fault.Fault, error) {
		l, err := newLine(step, env, "netem", "limit", strconv.Itoa(delayedPackets),
			"delay", strconv.FormatInt(p.Delay.D().Microseconds(), 10)+"us")
		return &delay{line: l, by: p.Delay.D()}, err
	})
}

type delayParams struct {
	Delay plan.Duration `json:"delay"` // How much later every packet leaves.
}

// The limits of a delay: round trips show it on a busy machine, and no connection dies of it.
const (
	minDelay = 10 * time.Millisecond
	maxDelay = 5 * time.Second
)

// Validate implements fault.Validator.
func (p delayParams) Validate(plan.Setting) (errs plan.FieldErrors) {
	if p.Delay.D() < minDelay || p.Delay.D() > maxDelay {
		errs.Add("delay", fmt.Sprintf("use %s to %s", minDelay, maxDelay), "%s is out of range", p.Delay)
	}
	return errs
}

// delayedPackets is how many packets are kept while they are delayed: more than a gigabit a second has in 100 ms.
const delayedPackets = 20000

// delaySlack is what a round trip may take beside the delay, on a busy machine.
const delaySlack = 100 * time.Millisecond

type delay struct {
	*line
	by time.Duration
}

// tenEchoes is what round trips are measured by: the fastest of ten is not one that the machine was busy in.
func (d *delay) tenEchoes() volley {
	return volley{count: 10, interval: 20 * time.Millisecond, timeout: d.by + echoTimeout}
}

// roundTrips measures all ways, one after the other.
func (d *delay) roundTrips(ctx context.Context) ([]heard, error) {
	var all []heard
	for _, w := range d.sides.ways() {
		some, err := d.echoed(ctx, w, d.tenEchoes())
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// quick reports whether a path is as it is without the fault.
func (d *delay) quick(h heard) bool {
	return h.echo.Answered == h.echo.Sent && h.echo.Fastest < d.by/2
}

// delayed reports whether a path is as the fault makes it.
func (d *delay) delayed(h heard) bool {
	return h.echo.Answered == h.echo.Sent && atLeast(h.echo, d.by) && h.echo.Median <= d.by+d.by/4+delaySlack
}

// atLeast reports whether no round trip was shorter. The kernel's timer and the probe read their clocks apart.
func atLeast(e probe.Echo, d time.Duration) bool { return e.Fastest >= d-d/100-time.Millisecond }

// Inject shows that round trips are quick, and delays what leaves from then on.
func (d *delay) Inject(ctx context.Context) error {
	if err := d.locate(ctx); err != nil {
		return err
	}
	before, err := d.roundTrips(ctx)
	if err != nil {
		return err
	}
	if slow := filter(before, func(h heard) bool { return !d.quick(h) }); len(slow) > 0 {
		return fmt.Errorf("what is slow before cannot be shown to be delayed by %s: %s", d.by, join(slow))
	}
	return d.apply(ctx)
}

// Confirm measures the round trips.
func (d *delay) Confirm(ctx context.Context) ([]fault.Fact, error) { return d.shown(ctx) }

// Held measures them again.
func (d *delay) Held(ctx context.Context) ([]fault.Fact, error) { return d.shown(ctx) }

func (d *delay) shown(ctx context.Context) ([]fault.Fact, error) {
	all, err := d.roundTrips(ctx)
	if err != nil {
		return nil, err
	}
	var facts []fault.Fact
	for _, h := range all {
		facts = append(facts, h.fact())
	}
	if wrong := filter(all, func(h heard) bool { return !d.delayed(h) }); len(wrong) > 0 {
		return facts, fmt.Errorf("packets are not delayed by %s: %s", d.by, join(wrong))
	}
	_, err = d.there(ctx)
	return facts, err
}

// ConfirmHealed shows that the queueing discipline is gone and that all is as before.
func (d *delay) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	facts, err := d.quickAgain(ctx)
	if err != nil {
		return facts, err
	}
	return nodeBack(ctx, d.env, d.leases, facts)
}

// quickAgain shows that the queueing discipline is gone and that round trips are quick.
func (d *delay) quickAgain(ctx context.Context) ([]fault.Fact, error) {
	gone, err := d.gone(ctx)
	if err != nil {
		return nil, err
	}
	facts := []fault.Fact{gone}
	err = await.Until(ctx, "round trips to be quick", time.Second, healedBound,
		func(ctx context.Context) (bool, string, error) {
			if err := d.locate(ctx); err != nil {
				return false, "", err
			}
			all, err := d.roundTrips(ctx)
			if err != nil {
				return false, "", err
			}
			facts = []fault.Fact{gone}
			for _, h := range all {
				facts = append(facts, h.fact())
			}
			slow := filter(all, func(h heard) bool { return !d.quick(h) })
			return len(slow) == 0, join(slow), nil
		})
	if err != nil {
		return facts, errors.Join(errors.New("packets are still late after the heal"), err)
	}
	return facts, nil
}
