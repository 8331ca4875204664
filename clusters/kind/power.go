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

// AddressError is a node that was started and has other addresses than before. It runs, and kind's entrypoint has
// rewritten its own configuration; what others know of its addresses is wrong.
type AddressError struct {
	Node          string
	Before, After []netip.Addr
}

// Error names the node and its addresses before and after.
func (e *AddressError) Error() string {
	return fmt.Sprintf("node %q came back with other addresses, before %v, now %v: "+
		"another container took one while it was down", e.Node, e.Before, e.After)
}

// Reboot restarts the container with one command of the engine, which goes on although ctx ends or the harness dies: a
// node is never left down by half a reboot. Nodes of one provider reboot one after the other; for an outage of several
// at once there are Kill and Start. A paused node is thawed first, a stopped one is started. The error is an
// *AddressError when the node is up with other addresses.
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

// Start starts a stopped container; one that runs is left alone. The error is an *AddressError when the node is up with
// other addresses than it had.
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

// comeBack does something that ends with the node running, sees to it that its own addresses are the next to be given
// out, and compares them before and after.
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
	holdErr = errors.Join(holdErr, release()) // Of interest only if the addresses differ: no start is to fail for it.
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
			return fail(errors.Join(&AddressError{Node: n.name, Before: known, After: addrs}, holdErr))
		}
	}
	return nil
}

// lastAddresses returns the addresses that a stopped node had when it last ran. The engine has forgotten them, but
// kind's entrypoint keeps them in files. Without these there is nothing to compare with, and that is no error.
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

// Stop stops the container; a paused one is thawed by the engine first. One that is stopped is left alone.
func (n *node) Stop(ctx context.Context, grace time.Duration) error {
	return n.goDown(ctx, "stop", []string{clusters.StateRunning, clusters.StatePaused}, func() error {
		return n.engine.unattended(ctx, "stop", "-t", seconds(grace), n.name)
	})
}

// Kill ends all processes of the container with SIGKILL. One that is stopped is left alone.
func (n *node) Kill(ctx context.Context) error {
	return n.goDown(ctx, "kill", []string{clusters.StateRunning, clusters.StatePaused}, func() error {
		_, err := n.engine.output(ctx, "kill", "--signal", "KILL", n.name)
		return err
	})
}

// Pause freezes the container's processes. One that is paused is left alone; one that is stopped is an error.
func (n *node) Pause(ctx context.Context) error {
	return n.change(ctx, "pause", []string{clusters.StateRunning, clusters.StateExited}, "pause")
}

// Unpause thaws the container's processes. One that runs is left alone; one that is stopped is an error.
func (n *node) Unpause(ctx context.Context) error {
	return n.change(ctx, "unpause", []string{clusters.StatePaused, clusters.StateExited}, "unpause")
}

// change runs the engine's command when the node's state is one of those given, and otherwise does nothing.
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
		return nil // Somebody else did it at the same time.
	}
	return fmt.Errorf("%s node %q: %w", what, n.name, err)
}

// State returns "running", "paused" or "exited", as the engine tells it.
func (n *node) State(ctx context.Context) (string, error) {
	c, err := n.inspect(ctx)
	if err != nil {
		return "", fmt.Errorf("get state of node %q: %w", n.name, err)
	}
	return c.state(), nil
}

// seconds writes a grace the way engines take it: whole seconds, rounded up.
func seconds(grace time.Duration) string {
	return strconv.FormatInt(int64((max(grace, 0)+time.Second-1)/time.Second), 10)
}
