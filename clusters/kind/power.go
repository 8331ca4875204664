package kind

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/clusters"
)

// Reboot restarts the container with one command of the engine, which goes on if ctx ends or the harness dies: a node
// is never left down by half a reboot. Nodes of one provider reboot one after the other. A paused node is thawed first,
// a stopped one is started. A node that comes back with other addresses is an error: it runs, and kind's entrypoint has
// adapted its configuration, but what others know of its addresses is wrong.
func (n *node) Reboot(ctx context.Context, grace time.Duration) error {
	return n.comeBack(ctx, "reboot", func(c container) error {
		if c.state() == clusters.StatePaused {
			if _, err := n.engine.output(ctx, "unpause", n.name); err != nil {
				return err
			}
		}
		return n.engine.unattended(ctx, "restart", "-t", seconds(grace), n.name)
	})
}

// Start starts a container if it is stopped. A node that comes back with other addresses is an error.
func (n *node) Start(ctx context.Context) error {
	state, err := n.State(ctx)
	if err != nil {
		return fmt.Errorf("start node %q: %w", n.name, err)
	}
	if state != clusters.StateExited {
		return nil
	}
	return n.comeBack(ctx, "start", func(container) error {
		return n.engine.unattended(ctx, "start", n.name)
	})
}

// comeBack starts the node with do, holding lower addresses so that it gets its own, and compares its addresses before
// and after.
func (n *node) comeBack(ctx context.Context, what string, do func(container) error) error {
	fail := func(err error) error { return fmt.Errorf("%s node %q: %w", what, n.name, err) }
	if err := n.turn.Acquire(ctx, 1); err != nil {
		return fail(err)
	}
	defer n.turn.Release(1)
	before, err := n.inspect(ctx)
	if err != nil {
		return fail(err)
	}
	known := before.addresses()
	if len(known) == 0 {
		known = n.lastAddresses(ctx)
	}
	release, holdErr := n.hold(ctx, before, known)
	if before.state() == clusters.StateExited {
		holdErr = errors.Join(holdErr, n.leaveSeat(ctx))
	}
	err = do(before)
	holdErr = errors.Join(holdErr, release()) // Reported only if the addresses differ.
	if err != nil {
		return fail(err)
	}
	after, err := n.inspect(ctx)
	if err != nil {
		return fail(err)
	}
	if after.state() == clusters.StateExited {
		return fail(fmt.Errorf("it is not running after that: the engine says %q", after.State.Status))
	}
	addrs := after.addresses()
	for _, addr := range known {
		if !slices.Contains(addrs, addr) {
			err := fmt.Errorf("node %q came back with other addresses, before %v, now %v: another container took one "+
				"while it was down", n.name, known, addrs)
			return fail(errors.Join(err, holdErr))
		}
	}
	return nil
}

// lastAddresses returns the addresses of a stopped node, which kind's entrypoint keeps in files, or none.
func (n *node) lastAddresses(ctx context.Context) []netip.Addr {
	var out []netip.Addr
	for _, file := range []string{"/kind/old-ipv4", "/kind/old-ipv6"} {
		archive, err := n.engine.output(ctx, "cp", n.name+":"+file, "-")
		if err != nil {
			continue
		}
		r := tar.NewReader(bytes.NewReader(archive))
		if _, err := r.Next(); err != nil {
			continue
		}
		text, err := io.ReadAll(r)
		if err != nil {
			continue
		}
		if addr, err := netip.ParseAddr(strings.TrimSpace(string(text))); err == nil {
			out = append(out, addr)
		}
	}
	return out
}

// Stop stops the container unless it is stopped. The engine thaws a paused one first.
func (n *node) Stop(ctx context.Context, grace time.Duration) error {
	return n.goDown(ctx, "stop", []string{clusters.StateRunning, clusters.StatePaused}, func() error {
		return n.engine.unattended(ctx, "stop", "-t", seconds(grace), n.name)
	})
}

func (n *node) Kill(ctx context.Context) error {
	return n.goDown(ctx, "kill", []string{clusters.StateRunning, clusters.StatePaused}, func() error {
		_, err := n.engine.output(ctx, "kill", "--signal", "KILL", n.name)
		return err
	})
}

// Pause freezes the container's processes unless they are frozen. A stopped container is an error.
func (n *node) Pause(ctx context.Context) error {
	return n.change(ctx, "pause", []string{clusters.StateRunning, clusters.StateExited}, "pause")
}

// Unpause thaws the container's processes if they are frozen. A stopped container is an error.
func (n *node) Unpause(ctx context.Context) error {
	return n.change(ctx, "unpause", []string{clusters.StatePaused, clusters.StateExited}, "unpause")
}

// change runs the engine's command if the node's state is one of states.
func (n *node) change(ctx context.Context, what string, states []string, args ...string) error {
	state, err := n.State(ctx)
	if err != nil {
		return fmt.Errorf("%s node %q: %w", what, n.name, err)
	}
	if !slices.Contains(states, state) {
		return nil
	}
	_, err = n.engine.output(ctx, append(args, n.name)...)
	if err == nil {
		return nil
	}
	if now, again := n.State(ctx); again == nil && !slices.Contains(states, now) {
		return nil // Another process did it.
	}
	return fmt.Errorf("%s node %q: %w", what, n.name, err)
}

func (n *node) State(ctx context.Context) (string, error) {
	c, err := n.inspect(ctx)
	if err != nil {
		return "", fmt.Errorf("get state of node %q: %w", n.name, err)
	}
	return c.state(), nil
}

// seconds formats a grace for engines: whole seconds, rounded up.
func seconds(grace time.Duration) string {
	return strconv.FormatInt(int64((max(grace, 0)+time.Second-1)/time.Second), 10)
}
