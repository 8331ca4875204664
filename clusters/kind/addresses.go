package kind

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seatrial/seatrial/clusters"
)

const (
	// maxHolders bounds the addresses held for one start. On a busier network the start is tried without.
	maxHolders = 16
	// holderLife is how many seconds a holder lives if the harness dies.
	holderLife = "60"
	// releaseHolders bounds the removal of holders.
	releaseHolders = 20 * time.Second
)

// network is what docker reports of a network.
type network struct {
	IPAM struct {
		Config []struct {
			Subnet string `json:"Subnet"`
		} `json:"Config"`
	} `json:"IPAM"`
	Containers map[string]struct {
		IPv4Address string `json:"IPv4Address"`
		IPv6Address string `json:"IPv6Address"`
	} `json:"Containers"`
}

// hold occupies all free addresses below the node's with idle containers, since docker gives the lowest free address to
// the next container. Release removes them; they also end after holderLife. Other engines assign addresses differently:
// nothing is held there.
func (n *node) hold(ctx context.Context, c container, known []netip.Addr) (release func() error, err error) {
	none := func() error { return nil }
	names := slices.Sorted(maps.Keys(c.NetworkSettings.Networks))
	if n.engine.name != "docker" || len(known) == 0 || len(names) != 1 {
		return none, nil
	}
	out, err := n.engine.output(ctx, "network", "inspect", names[0])
	if err != nil {
		return none, fmt.Errorf("find free addresses: %w", err)
	}
	var list []network
	if err := json.Unmarshal(out, &list); err != nil || len(list) != 1 {
		return none, fmt.Errorf("find free addresses: read %q of %s: %w", out, names[0], err)
	}
	count := maxHolders + 1
	for _, addr := range known {
		count = min(count, list[0].freeBelow(addr))
	}
	if count == 0 || count > maxHolders {
		return none, nil
	}
	var holders []string
	for range count {
		holders = append(holders, n.name+"-hold-"+rand.Text())
	}
	release = func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseHolders)
		defer cancel()
		_, err := n.engine.output(ctx, append([]string{"rm", "--force", "--volumes"}, holders...)...)
		if err != nil && !notThere(err) {
			return fmt.Errorf("release held addresses: %w", err)
		}
		return nil
	}
	g, gctx := errgroup.WithContext(ctx)
	for _, name := range holders {
		g.Go(func() error {
			_, err := n.engine.output(gctx, "run", "--detach", "--rm", "--name", name, "--network", names[0],
				"--entrypoint", "sleep", c.Image, holderLife)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return none, errors.Join(fmt.Errorf("hold free addresses: %w", err), release())
	}
	return release, nil
}

// freeBelow counts the free addresses of a network below one. The lowest address of each subnet is the network's own
// and the next its gateway's.
func (w network) freeBelow(addr netip.Addr) int {
	used := map[netip.Addr]bool{}
	for _, c := range w.Containers {
		for _, text := range []string{c.IPv4Address, c.IPv6Address} {
			text, _, _ = strings.Cut(text, "/")
			if a, err := netip.ParseAddr(text); err == nil {
				used[a] = true
			}
		}
	}
	for _, config := range w.IPAM.Config {
		subnet, err := netip.ParsePrefix(config.Subnet)
		if err != nil || !subnet.Contains(addr) {
			continue
		}
		count := 0
		for a := subnet.Masked().Addr().Next().Next(); a.Less(addr) && count <= maxHolders; a = a.Next() {
			if !used[a] {
				count++
			}
		}
		return count
	}
	return 0
}

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
