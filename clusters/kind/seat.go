package kind

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/seatrial/seatrial/clusters"
)

// seatLife is how many seconds a seat lasts if nobody removes it.
const seatLife = "3600"

// seatBound bounds making or removing a seat.
const seatBound = 20 * time.Second

// seat is the name of the container that occupies the addresses of a stopped node.
func (n *node) seat() string { return n.name + "-seat" }

// goDown stops the node with do and then occupies its addresses, which docker would give to the next container.
func (n *node) goDown(ctx context.Context, what string, states []string, do func() error) error {
	before, err := n.inspect(ctx)
	if err != nil {
		return fmt.Errorf("%s node %q: get state: %w", what, n.name, err)
	}
	if !slices.Contains(states, before.state()) {
		return nil
	}
	if err := do(); err != nil {
		return fmt.Errorf("%s node %q: %w", what, n.name, err)
	}
	n.takeSeat(ctx, before)
	return nil
}

// takeSeat occupies the node's addresses with an idle container, whose interface is down so that nobody gets an answer.
// A seat with other addresses is removed. No error is lost: Start compares the addresses.
func (n *node) takeSeat(ctx context.Context, before container) {
	known := before.addresses()
	if n.engine.name != "docker" || len(known) == 0 || len(before.NetworkSettings.Networks) != 1 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, seatBound)
	defer cancel()
	if n.turn.Acquire(ctx, 1) != nil {
		return
	}
	defer n.turn.Release(1)
	release, err := n.hold(ctx, before, known)
	if err == nil {
		err = n.sitDown(ctx, before, known)
	}
	if err = errors.Join(err, release()); err != nil {
		_ = n.leaveSeat(ctx) // One that is left ends by itself.
	}
}

// sitDown starts the seat.
func (n *node) sitDown(ctx context.Context, before container, known []netip.Addr) error {
	var network string
	for name := range before.NetworkSettings.Networks {
		network = name
	}
	// Find runs the second command only after the first succeeded: no shell is needed.
	_, err := n.engine.output(ctx, "run", "--detach", "--rm", "--name", n.seat(), "--network", network,
		"--cap-add", "NET_ADMIN", "--entrypoint", "find", before.Image, "/", "-maxdepth", "0",
		"-exec", "ip", "link", "set", "eth0", "down", ";", "-exec", "sleep", seatLife, ";")
	if err != nil {
		return err
	}
	list, err := n.engine.inspect(ctx, n.seat())
	if err != nil || len(list) != 1 {
		return errors.Join(err, errors.New("it ended at once"))
	}
	if addrs := list[0].addresses(); !slices.Equal(addrs, known) {
		return fmt.Errorf("it has the addresses %v", addrs)
	}
	return nil
}

// removeSeats removes the seats of deleted nodes that were stopped.
func (p *Provider) removeSeats(ctx context.Context, nodes []container) error {
	var errs []error
	for _, c := range nodes {
		if c.state() == clusters.StateExited {
			errs = append(errs, (&node{engine: p.engine, name: c.Name}).leaveSeat(ctx))
		}
	}
	return errors.Join(errs...)
}

// leaveSeat removes the seat, if it exists.
func (n *node) leaveSeat(ctx context.Context) error {
	if n.engine.name != "docker" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), seatBound)
	defer cancel()
	if _, err := n.engine.output(ctx, "rm", "--force", "--volumes", n.seat()); err != nil && !notThere(err) {
		return fmt.Errorf("release the occupied addresses: %w", err)
	}
	return nil
}
