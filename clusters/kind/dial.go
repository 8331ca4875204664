package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/linux"
)

// errNoNetns is wrapped if the node's network namespace cannot be entered: this is not the engine's machine, or we are
// not root.
var errNoNetns = errors.New("network namespace not within reach")

// Dial connects over TCP from inside the node's network namespace to an address that is an IP and a port: nothing
// resolves names here.
//
// For root on the engine's machine the connection is a socket in the node's network namespace. Elsewhere it goes
// through socat in the node, by the engine's exec; then the end of one direction ends the other after socatLinger.
func (n *node) Dial(ctx context.Context, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, fmt.Errorf("dial tcp %s from node %q: %w", address, n.name, err)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fail(fmt.Errorf("want an IP address and a port: %w", err))
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	conn, err := n.dialInNetns(ctx, target)
	if err == nil {
		return conn, nil
	}
	if !errors.Is(err, errNoNetns) {
		return fail(err)
	}
	socat, err := n.dialSocat(ctx, target)
	if err != nil {
		return fail(err)
	}
	return socat, nil
}

// netnsCache remembers a node's first process, whose network namespace is the node's: asking the engine costs more than
// a connection.
type netnsCache struct {
	mu    sync.Mutex
	pid   int
	start string // The process's start time, which tells it from a later one with its pid.
}

// dialInNetns connects with a socket in the node's network namespace. The error wraps errNoNetns if it cannot be
// entered.
func (n *node) dialInNetns(ctx context.Context, target netip.AddrPort) (net.Conn, error) {
	ns, err := n.openNetns(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }() // Nothing was written to it.
	var conn net.Conn
	enter := func() error { return linux.Setns(int(ns.Fd()), linux.NewNetworkNS) }
	err = inNetns(enter, func() (err error) { // Bounded by ctx, in the dialer.
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", target.String())
		return err
	})
	return conn, err
}

// inNetns calls do on a thread that enters another network namespace and returns from it. A thread that cannot return
// ends with its goroutine. The error wraps errNoNetns if do was not called.
func inNetns(enter, do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := os.Open("/proc/thread-self/ns/net")
		if err == nil {
			defer func() { _ = home.Close() }() // Nothing was written to it.
			err = enter()
		}
		if err != nil {
			runtime.UnlockOSThread()
			done <- fmt.Errorf("%w: %w", errNoNetns, err)
			return
		}
		err = do()
		if backErr := linux.Setns(int(home.Fd()), linux.NewNetworkNS); backErr == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

func (n *node) openNetns(ctx context.Context) (*os.File, error) {
	n.netns.mu.Lock()
	defer n.netns.mu.Unlock()
	if start, err := startTime(n.netns.pid); err != nil || start != n.netns.start {
		if err := n.findInit(ctx); err != nil {
			return nil, err
		}
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", n.netns.pid))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoNetns, err)
	}
	// The pid may have been reused before the open.
	if start, err := startTime(n.netns.pid); err != nil || start != n.netns.start {
		return nil, errors.Join(fmt.Errorf("the node stopped meanwhile"), ns.Close())
	}
	return ns, nil
}

// findInit asks the engine for the node's first process and checks that its pid is valid on this machine.
func (n *node) findInit(ctx context.Context) error {
	c, err := n.inspect(ctx)
	if err != nil {
		return err
	}
	if c.state() == clusters.StateExited || c.State.Pid == 0 {
		return fmt.Errorf("its state is %q", c.state())
	}
	cgroups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", c.State.Pid))
	if err != nil || c.ID == "" || !strings.Contains(string(cgroups), c.ID) {
		return fmt.Errorf("%w: process %d here is not the node's", errNoNetns, c.State.Pid)
	}
	start, err := startTime(c.State.Pid)
	if err != nil {
		return fmt.Errorf("%w: %w", errNoNetns, err)
	}
	n.netns.pid, n.netns.start = c.State.Pid, start
	return nil
}

// startTime returns when a process of this machine was started.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	start := clusters.ProcessStart(string(stat))
	if start == "" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return start, nil
}
