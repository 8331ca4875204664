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

	"golang.org/x/sys/unix"
)

// netnsCache remembers a node's first process, whose network namespace is the node's. Asking the engine for each
// connection would cost more than the connection.
type netnsCache struct {
	mu    sync.Mutex
	pid   int
	start string // The process's start time, by which another one with its number is told from it.
}

// dialInNetns connects with a socket in the node's network namespace. The error wraps errNoNetns when that is not
// possible here.
func (n *node) dialInNetns(ctx context.Context, network string, target netip.AddrPort) (net.Conn, error) {
	ns, err := n.openNetns(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = ns.Close() }() // Nothing was written to it.
	var conn net.Conn
	enter := func() error { return unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET) }
	err = inNetns(enter, func() (err error) { // Bounded by ctx, in the dialer.
		conn, err = (&net.Dialer{}).DialContext(ctx, network, target.String())
		return err
	})
	return conn, err
}

// inNetns lets a thread of its own enter another network namespace, do something there, and come back. One that cannot
// come back ends with its goroutine, since it stays locked. The error wraps errNoNetns when nothing was done.
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
		if backErr := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); backErr == nil {
			runtime.UnlockOSThread()
		}
		done <- err
	}()
	return <-done
}

// openNetns opens the node's network namespace.
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
	// Had the process ended and its number been given away before the open, the start time tells.
	if start, err := startTime(n.netns.pid); err != nil || start != n.netns.start {
		return nil, errors.Join(fmt.Errorf("the node stopped meanwhile"), ns.Close())
	}
	return ns, nil
}

// findInit asks the engine for the node's first process and makes sure that the number means that process here.
func (n *node) findInit(ctx context.Context) error {
	c, err := n.inspect(ctx)
	if err != nil {
		return err
	}
	if c.state() == stateExited || c.State.Pid == 0 {
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

// startTime returns field 22 of a process's stat, in clock ticks since boot. A zombie counts as gone: it has no
// namespaces any more.
func startTime(pid int) (string, error) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	// The name, field 2, is in parentheses and may hold anything.
	_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " ")
	fields := strings.Fields(rest) // From field 3 on.
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return "", fmt.Errorf("process %d has ended", pid)
	}
	return fields[19], nil
}
