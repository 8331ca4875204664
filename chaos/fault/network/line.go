package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// line is a fault that changes how packets leave the victim's node. It adds a queueing discipline of ours at the root
// of every device that leads to other nodes. All traffic of the node and its pods through these devices passes it, IPv4
// and IPv6. Once it is removed, the kernel restores the device's default.
type line struct {
	fault.Env
	qdisc []string // The arguments of tc, its kind first.
	find  func(ctx context.Context) (sides, error)
	// measure sends echo requests on every way of interest, one after the other.
	measure func(ctx context.Context) ([]reading, error)
	// checkCounters, if set, compares the change of the queueing disciplines' counters with the measurement.
	checkCounters func(before, after []undo.Qdisc, all []reading) error

	sides   sides        // Set by locate.
	devices []string     // Set by Undo.
	leases  fault.Leases // As of the heal.
}

// reading is the result of a volley on one path.
type reading struct {
	fault.Fact
	bytes  int  // Answered, counted on the wire.
	normal bool // It matches a line without the fault.
	slowed bool // It matches the planned effect.
}

// judge returns the facts of all readings, and an error that names the paths that are not ok.
func judge(all []reading, ok func(reading) bool) ([]fault.Fact, error) {
	seen := make([]observation, len(all))
	for i, m := range all {
		seen[i] = observation{m.Fact, ok(m)}
	}
	return observed(seen)
}

func newLine(env fault.Env, qdisc ...string) *line {
	return &line{Env: env, qdisc: qdisc, find: nodeSides(env, func(ctx context.Context) ([]clusters.Node, error) {
		others, err := env.Others(ctx)
		return others[:min(len(others), farEnds)], err
	})}
}

// Undo finds the devices that lead to the other nodes, and removes our queueing disciplines from them.
func (l *line) Undo(ctx context.Context) ([]undo.Task, error) {
	if err := l.locate(ctx); err != nil {
		return nil, err
	}
	l.devices = nil
	task := undo.Task{Node: l.Node}
	for _, w := range l.sides.out() {
		for _, a := range w.addresses() {
			device, err := l.deviceTo(ctx, a)
			if err != nil {
				return nil, err
			}
			if !slices.Contains(l.devices, device) {
				l.devices = append(l.devices, device)
				task.Actions = append(task.Actions, undo.RemoveQdisc(l.Owner, device))
			}
		}
	}
	return []undo.Task{task}, nil
}

func (l *line) locate(ctx context.Context) error {
	found, err := l.find(ctx)
	if err != nil {
		return err
	}
	if l.sides = found; !l.sides.reachable() {
		return fmt.Errorf("find other nodes: none has an address family in common with %q", l.Node.Name())
	}
	return nil
}

// deviceTo returns the device by which the node reaches an address.
func (l *line) deviceTo(ctx context.Context, a netip.Addr) (string, error) {
	routes, err := clusters.Ask[[]struct {
		Device string `json:"dev"`
	}](ctx, l.Node, "ip", "-json", "route", "get", a.String())
	if err == nil && (len(routes) == 0 || routes[0].Device == "") {
		err = errors.New("the answer names no device")
	}
	if err != nil {
		return "", fmt.Errorf("ask for the way to %s: %w", a, err)
	}
	return routes[0].Device, nil
}

// Inject checks that packets pass unhindered, then adds the queueing disciplines. If a device has one of somebody else,
// tc fails.
func (l *line) Inject(ctx context.Context) error {
	if len(l.devices) == 0 {
		return errors.New("no device is known by which the node reaches the others: Undo notes them first")
	}
	if _, err := l.unhindered(ctx); err != nil {
		return fmt.Errorf("what is slow before cannot be shown to be slowed: %w", err)
	}
	for _, d := range l.devices {
		add := append([]string{"tc", "qdisc", "add", "dev", d, "root", "handle", l.Owner.Qdisc()}, l.qdisc...)
		if _, err := clusters.Run(ctx, l.Node, add...); err != nil {
			return fmt.Errorf("give device %q a queueing discipline of ours: %w", d, err)
		}
	}
	return nil
}

func (l *line) unhindered(ctx context.Context) ([]fault.Fact, error) {
	if err := l.locate(ctx); err != nil {
		return nil, err
	}
	all, err := l.measure(ctx)
	if err != nil {
		return nil, err
	}
	return judge(all, func(m reading) bool { return m.normal })
}

func (l *line) Confirm(ctx context.Context) ([]fault.Fact, error) { return l.Held(ctx) }

func (l *line) Held(ctx context.Context) ([]fault.Fact, error) {
	before, err := l.ownQdiscs(ctx)
	if err != nil {
		return nil, err
	}
	all, err := l.measure(ctx)
	if err != nil {
		return nil, err
	}
	facts, err := judge(all, func(m reading) bool { return m.slowed })
	if err != nil {
		return facts, fmt.Errorf("packets do not leave as planned: %w", err)
	}
	after, err := l.ownQdiscs(ctx)
	if err == nil && l.checkCounters != nil {
		err = l.checkCounters(before, after, all)
	}
	return facts, err
}

// ownQdiscs returns our queueing disciplines; it is an error if there is none.
func (l *line) ownQdiscs(ctx context.Context) ([]undo.Qdisc, error) {
	ours, err := undo.ListQdiscs(ctx, undo.On(l.Node), l.Owner)
	if err == nil && len(ours) == 0 {
		err = fmt.Errorf("no device has the queueing discipline %s %s", l.qdisc[0], l.Owner.Qdisc())
	}
	return ours, err
}

// Heal removes our queueing disciplines, if they exist.
func (l *line) Heal(ctx context.Context) error {
	if err := l.CarryOut(ctx); err != nil {
		return err
	}
	noteAfterHeal(ctx, l.Env, &l.leases)
	return nil
}

// ConfirmHealed shows that the queueing disciplines are gone, packets pass unhindered, and the node is back.
func (l *line) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, l.restored, l.NodeBack(&l.leases))
}

// restored shows that the queueing disciplines are gone and packets pass unhindered.
func (l *line) restored(ctx context.Context) ([]fault.Fact, error) {
	begin := l.Clock()
	gone := func(ctx context.Context) ([]fault.Fact, error) {
		ours, err := undo.ListQdiscs(ctx, undo.On(l.Node), l.Owner)
		if err == nil && len(ours) > 0 {
			err = fmt.Errorf("device %q still has the queueing discipline %s", ours[0].Device, ours[0].Handle)
		}
		return l.Saw(begin, "no device has the queueing discipline %s", l.Owner.Qdisc()), err
	}
	return fault.All(ctx, gone, fault.Await("packets to leave as before", time.Second, healedBound, l.unhindered))
}
