package existing

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/existing/link"
)

const (
	// tryBound is how long one way to a node may take to answer; throughAtMost is how many other nodes are tried.
	tryBound      = 4 * time.Second
	throughAtMost = 3
	// mendEvery is how soon after one attempt to bring the unit back the next may be made.
	mendEvery = 15 * time.Second
	stderrCap = 64 << 10
)

// The ways to a node.
const (
	wayDirect  = "B: the node's agent, at its address"
	wayThrough = "B: the node's agent, through that of another node"
	wayPod     = "A: pods/exec into a privileged pod"
)

// node is a node of the cluster.
type node struct {
	cluster *Cluster
	name    string
	role    clusters.Role
	log     *slog.Logger

	mu       sync.Mutex
	addrs    []netip.Addr // As the API told last.
	port     string       // Of the unit; empty as long as there is none.
	noUnit   error        // Why there is none.
	lastWay  string
	lastMend time.Time
	brought  bool // Something of ours may be on the node.

	delivering sync.Mutex
}

var _ clusters.ClockedNode = (*node)(nil)

// Name returns the node's name.
func (n *node) Name() string { return n.name }

// Role returns what the node is for.
func (n *node) Role() clusters.Role { return n.role }

// Addresses returns the node's internal addresses, IPv4 first. Without an answer of the API they are the last known.
func (n *node) Addresses(ctx context.Context) ([]netip.Addr, error) {
	err := n.cluster.listNodes(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.addrs) > 0 {
		return slices.Clone(n.addrs), nil
	}
	return nil, errors.Join(fmt.Errorf("get addresses of node %q: it tells of none", n.name), err)
}

// saw takes the node's addresses from its object.
func (n *node) saw(object corev1.Node) {
	var addrs []netip.Addr
	for _, a := range object.Status.Addresses {
		if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP {
			addrs = append(addrs, addr.Unmap())
		}
	}
	slices.SortStableFunc(addrs, func(a, b netip.Addr) int { return a.BitLen() - b.BitLen() })
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs = addrs
}

func (n *node) podName() string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(n.name)) // A hash does not fail.
	return fmt.Sprintf("seatrial-link-%s-%x", n.cluster.session, sum.Sum64())
}

// inHost is an argv for the pod that runs one on the node.
func (n *node) inHost(argv ...string) []string {
	return append([]string{hostMount + n.cluster.session.Program(), "enter"}, argv...)
}

// deliver makes the pod, brings the binary, and starts the unit. A node on which the unit cannot be is no error.
func (n *node) deliver(ctx context.Context) error {
	n.delivering.Lock()
	defer n.delivering.Unlock()
	c, program := n.cluster, n.cluster.session.Program()
	image, err := c.makePod(ctx, n.name, n.podName())
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.brought = true
	n.mu.Unlock()
	install := []string{"/usr/bin/install", "-D", "-m", "0700", "/dev/stdin", hostMount + program}
	if _, err := c.runIn(ctx, n.podName(), install, bytes.NewReader(c.binary)); err != nil {
		return fmt.Errorf("bring the agent: %w", err)
	}
	identity, err := c.authority.Node(n.name)
	if err != nil {
		return err
	}
	text, err := json.Marshal(identity)
	if err != nil {
		return err
	}
	port, err := c.runIn(ctx, n.podName(), n.inHost(program, "link", "start", string(c.session)),
		bytes.NewReader(text))
	n.log.Info("agent delivered", "image", image, "by", "standard input of pods/exec", "unit", err == nil)
	if err != nil {
		n.log.Warn("no agent that outlives kubelet and runtime", "error", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.port, n.noUnit = strings.TrimSpace(port), err
	return nil
}

// withoutUnit says why the node has no unit.
func (n *node) withoutUnit() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.port == "" && n.noUnit == nil {
		return errors.New("the node was not reached")
	}
	return n.noUnit
}

// leave removes the session from the node: over the pod or, when that has gone, by the unit itself.
func (n *node) leave(ctx context.Context) error {
	n.mu.Lock()
	brought := n.brought
	n.mu.Unlock()
	if !brought {
		return nil
	}
	argv := []string{n.cluster.session.Program(), "link", "stop", string(n.cluster.session)}
	_, podErr := n.cluster.runIn(ctx, n.podName(), n.inHost(argv...), nil)
	if podErr == nil {
		return nil
	}
	conn, _, err := n.find(ctx)
	if err != nil {
		return errors.Join(podErr, err)
	}
	_, err = link.Exec(ctx, conn, argv, link.Streams{Stdout: io.Discard, Stderr: io.Discard})
	if err != nil { // The unit may have ended with the answer on its way.
		_, _, silent := n.find(ctx)
		if silent == nil {
			return errors.Join(podErr, err)
		}
	}
	return nil
}

// way is one way to the agent of a node.
type way struct {
	name string
	open func(ctx context.Context) (net.Conn, error)
}

// ways lists them, the one that worked last first.
func (n *node) ways() []way {
	var list []way
	direct, pod := n.ownWays()
	n.mu.Lock()
	port, addrs, last := n.port, n.addrs, n.lastWay
	n.mu.Unlock()
	if port != "" && len(addrs) > 0 {
		list = append(list, direct)
		others := slices.DeleteFunc(n.cluster.known(), func(o *node) bool { return o == n })
		for _, other := range others[:min(len(others), throughAtMost)] {
			list = append(list, way{wayThrough, func(ctx context.Context) (net.Conn, error) {
				return n.through(ctx, other)
			}})
		}
	}
	list = append(list, pod)
	slices.SortStableFunc(list, func(a, b way) int {
		switch {
		case a.name == b.name || a.name != last && b.name != last:
			return 0
		case a.name == last && last != wayPod:
			return -1
		case b.name == last && last != wayPod:
			return 1
		}
		return 0
	})
	return list
}

// ownWays are those that need no other node.
func (n *node) ownWays() (direct, pod way) {
	direct = way{wayDirect, func(ctx context.Context) (net.Conn, error) {
		address, err := n.agentAddress()
		if err != nil {
			return nil, err
		}
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return n.secure(ctx, conn)
	}}
	pod = way{wayPod, func(ctx context.Context) (net.Conn, error) {
		argv := n.inHost(n.cluster.session.Program(), "link", "stdio")
		return greet(ctx, n.cluster.connectIn(n.podName(), argv))
	}}
	return direct, pod
}

// agentAddress is where the unit listens.
func (n *node) agentAddress() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.port == "" || len(n.addrs) == 0 {
		return "", fmt.Errorf("node %q has no agent that listens", n.name)
	}
	return net.JoinHostPort(n.addrs[0].String(), n.port), nil
}

// through connects to the node's agent from another node.
func (n *node) through(ctx context.Context, other *node) (net.Conn, error) {
	address, err := n.agentAddress()
	if err != nil {
		return nil, err
	}
	direct, pod := other.ownWays()
	conn, err := direct.open(ctx)
	if err != nil {
		var podErr error
		if conn, podErr = pod.open(ctx); podErr != nil {
			return nil, fmt.Errorf("through node %q: %w", other.name, errors.Join(err, podErr))
		}
	}
	if err := link.Dial(ctx, conn, "tcp", address); err != nil {
		return nil, fmt.Errorf("through node %q: %w", other.name, err)
	}
	return n.secure(ctx, conn)
}

// secure speaks TLS with the node's agent.
func (n *node) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	config, err := n.cluster.harness.Client(n.name)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return greet(ctx, tls.Client(conn, config))
}

// greet returns a connection whose far end has answered.
func greet(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if err := link.Hello(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// find connects to the node's agent by the first way on which it answers.
func (n *node) find(ctx context.Context) (net.Conn, string, error) {
	var errs []error
	for _, w := range n.ways() {
		tried, cancel := context.WithTimeout(ctx, tryBound)
		conn, err := w.open(tried)
		cancel()
		if err == nil {
			return conn, w.name, nil
		}
		errs = append(errs, fmt.Errorf("%s: %w", w.name, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, "", errors.Join(errs...)
}

// connect finds the agent. Where it answers over the pod alone, or not at all, the unit is brought back first, but not
// each time: the node may have booted again.
func (n *node) connect(ctx context.Context) (net.Conn, error) {
	conn, name, err := n.find(ctx)
	if (err != nil || name == wayPod) && ctx.Err() == nil && n.mayMend() {
		if mendErr := n.mend(ctx); mendErr != nil {
			err = errors.Join(err, mendErr)
		} else if again, other, againErr := n.find(ctx); againErr == nil {
			if conn != nil {
				_ = conn.Close() // The other one is used.
			}
			conn, name, err = again, other, nil
		}
	}
	if conn == nil {
		return nil, errors.Join(ctx.Err(), err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lastWay != name {
		n.log.Info("channel", "way", name, "before", n.lastWay)
		n.lastWay = name
	}
	return conn, nil
}

func (n *node) mayMend() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.noUnit != nil || time.Since(n.lastMend) < mendEvery {
		return false
	}
	n.lastMend = time.Now()
	return true
}

func (n *node) mend(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, mendEvery)
	defer cancel()
	return n.deliver(ctx)
}

// Exec runs a command in the node's namespaces. When ctx ends, what it started is killed before Exec returns.
func (n *node) Exec(ctx context.Context, cmd clusters.Command) (clusters.Result, error) {
	var res clusters.Result
	if len(cmd.Argv) == 0 {
		return res, fmt.Errorf("run command on node %q: its argv is empty", n.name)
	}
	fail := func(err error) (clusters.Result, error) {
		return res, fmt.Errorf("run %q on node %q: %w", strings.Join(cmd.Argv, " "), n.name, err)
	}
	conn, err := n.connect(ctx)
	if err != nil {
		return fail(err)
	}
	var stdout bytes.Buffer
	stderr := &lastBytes{}
	streams := link.Streams{Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: stderr}
	if cmd.Stdout == nil {
		streams.Stdout = &stdout
	}
	code, err := link.Exec(ctx, conn, cmd.Argv, streams)
	res.Stdout, res.Stderr = stdout.Bytes(), stderr.data
	if err != nil {
		return fail(err)
	}
	if res.ExitCode = code; code != 0 {
		return res, &clusters.ExitError{Node: n.name, Argv: cmd.Argv, ExitCode: code, Stderr: string(stderr.data)}
	}
	return res, nil
}

// lastBytes keeps the last of what was written.
type lastBytes struct{ data []byte }

func (l *lastBytes) Write(p []byte) (int, error) {
	l.data = append(l.data, p...)
	if over := len(l.data) - stderrCap; over > 0 {
		l.data = append(l.data[:0], l.data[over:]...)
	}
	return len(p), nil
}

// Dial connects over TCP from the node to an address that is an IP and a port: nothing resolves names there.
func (n *node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, fmt.Errorf("dial %s %s from node %q: %w", network, address, n.name, err)
	}
	if _, err := netip.ParseAddrPort(address); err != nil {
		return fail(fmt.Errorf("want an IP address and a port: %w", err))
	}
	if !slices.Contains([]string{"tcp", "tcp4", "tcp6"}, network) {
		return fail(errors.New("want tcp"))
	}
	conn, err := n.connect(ctx)
	if err != nil {
		return fail(err)
	}
	if err := link.Dial(ctx, conn, network, address); err != nil {
		return fail(err)
	}
	return conn, nil
}

// BootClock measures how the node's boot clock relates to the harness's.
func (n *node) BootClock(ctx context.Context) (clusters.NodeClock, error) {
	conn, err := n.connect(ctx)
	if err != nil {
		return clusters.NodeClock{}, fmt.Errorf("read boot clock of node %q: %w", n.name, err)
	}
	offset, margin, err := link.Clock(ctx, conn, func() int64 { return int64(bootclock.Now()) })
	if err != nil {
		return clusters.NodeClock{}, fmt.Errorf("read boot clock of node %q: %w", n.name, err)
	}
	return clusters.NodeClock{Offset: offset, Error: margin}, nil
}
