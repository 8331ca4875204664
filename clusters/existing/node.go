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
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/existing/link"
)

const (
	// tryBound is how long one route to a node may take to answer; at most throughAtMost other nodes are tried.
	tryBound      = 4 * time.Second
	throughAtMost = 3
	// mendEvery is the least time between two attempts to restart the unit, and how long a command waits for one.
	mendEvery = 15 * time.Second
	// unitBound is how long an attempt may take, and a fault waits for the unit: each exec into the pod of a slow node
	// takes many seconds.
	unitBound = 90 * time.Second
	stderrCap = 64 << 10
	killedBy  = 128 // The exit code of a command that a signal ended is this and the signal's number.
)

// The routes to a node.
const (
	routeDirect  = "B: the node's agent, at its address"
	routeThrough = "B: the node's agent, through that of another node"
	routePod     = "A: pods/exec into a privileged pod"
)

// node is a node of the cluster.
type node struct {
	cluster *Cluster
	name    string
	role    clusters.Role
	log     *slog.Logger

	mu        sync.Mutex
	addrs     []netip.Addr // As last read from the API.
	port      string       // Of the unit; empty as long as there is none.
	noUnit    error        // Why there is none.
	lastRoute string
	lastMend  time.Time
	mending   bool // The unit is being started again.
	left      bool // It is started no more.
	brought   bool // The session may have left something on the node.
	ended     bool // The hook was asked to end the node's boot.

	delivering sync.Mutex
}

var (
	_ clusters.ClockedNode = (*node)(nil)
	_ clusters.LinkedNode  = (*node)(nil)
)

func (n *node) Name() string { return n.name }

func (n *node) Role() clusters.Role { return n.role }

// Addresses returns the node's internal addresses, IPv4 first; the last known ones while the API does not answer.
func (n *node) Addresses(ctx context.Context) ([]netip.Addr, error) {
	err := n.cluster.listNodes(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.addrs) > 0 {
		return slices.Clone(n.addrs), nil
	}
	return nil, errors.Join(fmt.Errorf("get addresses of node %q: it has none", n.name), err)
}

// LinkAddresses returns all addresses of the links that have an internal address, as the node has them now.
func (n *node) LinkAddresses(ctx context.Context) ([]netip.Addr, error) {
	known, err := n.Addresses(ctx)
	if err != nil {
		return nil, err
	}
	out, err := clusters.Run(ctx, n, "ip", "-json", "address", "show")
	if err != nil {
		return nil, fmt.Errorf("get the addresses of the links of node %q: %w", n.name, err)
	}
	all, err := sameLinks([]byte(out), known)
	if err != nil {
		return nil, fmt.Errorf("get the addresses of the links of node %q: %w", n.name, err)
	}
	return all, nil
}

// sameLinks returns the global addresses of the links that have a known one, sorted. Out is what "ip -json address
// show" prints.
func sameLinks(out []byte, known []netip.Addr) ([]netip.Addr, error) {
	var links []struct {
		Addresses []struct {
			Local netip.Addr `json:"local"`
			Scope string     `json:"scope"`
		} `json:"addr_info"`
	}
	if err := json.Unmarshal(out, &links); err != nil {
		return nil, err
	}
	var all []netip.Addr
	for _, l := range links {
		var its []netip.Addr
		for _, a := range l.Addresses {
			if a.Scope == "global" {
				its = append(its, a.Local.Unmap())
			}
		}
		if slices.ContainsFunc(its, func(a netip.Addr) bool { return slices.Contains(known, a) }) {
			all = append(all, its...)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all), nil
}

// saw updates the node's addresses from its object.
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

// inHost wraps an argv so that the pod runs it in the node's namespaces.
func (n *node) inHost(argv ...string) []string {
	return append([]string{hostMount + n.cluster.session.Program(), "enter"}, argv...)
}

// deliver makes the pod, copies the agent and starts its unit. A node that cannot run the unit is no error.
func (n *node) deliver(ctx context.Context) error {
	n.delivering.Lock()
	defer n.delivering.Unlock()
	if n.isLeft() {
		return errors.New("start the agent's unit: the session has ended")
	}
	c, program := n.cluster, n.cluster.session.Program()
	image, err := c.makePod(ctx, n.name, n.podName())
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.brought = true
	n.mu.Unlock()
	// Another goroutine may run the agent that is there.
	fresh := hostMount + program + ".new"
	install := []string{"/usr/bin/install", "-D", "-m", "0700", "/dev/stdin", fresh}
	_, err = c.runIn(ctx, n.podName(), install, bytes.NewReader(c.binary))
	if err == nil {
		_, err = c.runIn(ctx, n.podName(), []string{"/usr/bin/mv", "-f", fresh, hostMount + program}, nil)
	}
	if err != nil {
		return fmt.Errorf("copy the agent: %w", err)
	}
	identity, err := c.authority.Node(c.limits(n))
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
	n.mu.Lock()
	defer n.mu.Unlock()
	var exit utilexec.CodeExitError
	switch {
	case err == nil:
		n.port, n.noUnit = strings.TrimSpace(port), nil
	case n.port != "" || !errors.As(err, &exit) || exit.Code > killedBy:
		// A node that boots, that was not heard, or whose pod was deleted: a later try may do.
		return fmt.Errorf("start the agent's unit: %w", err)
	default:
		n.log.Warn("no agent that outlives kubelet and runtime", "error", err)
		n.noUnit = err
	}
	return nil
}

func (n *node) withoutUnit() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.port == "" && n.noUnit == nil {
		return errors.New("the node was not reached")
	}
	return n.noUnit
}

// startNoMore waits until no start of the unit goes on, at most unitBound, and refuses others.
func (n *node) startNoMore() {
	n.delivering.Lock()
	defer n.delivering.Unlock()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.left = true
}

func (n *node) isLeft() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.left
}

// leave removes the session from the node, after startNoMore: over the pod or, when that has gone, by the unit itself.
func (n *node) leave(ctx context.Context) error {
	n.mu.Lock()
	brought := n.brought
	n.mu.Unlock()
	if !brought {
		return nil
	}
	argv := []string{n.cluster.session.Program(), "link", "stop", string(n.cluster.session)}
	if _, err := n.cluster.runIn(ctx, n.podName(), n.inHost(argv...), nil); err != nil {
		conn, _, findErr := n.find(ctx)
		if findErr != nil {
			return errors.Join(err, findErr)
		}
		_, execErr := link.Exec(ctx, conn, argv, link.Streams{Stdout: io.Discard, Stderr: io.Discard})
		if execErr != nil { // The unit may have ended before its answer arrived.
			if _, _, silent := n.find(ctx); silent == nil {
				return errors.Join(err, execErr)
			}
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.brought = false
	return nil
}

// route is a connection to the agent of a node, by name.
type route struct {
	name string
	open func(ctx context.Context) (net.Conn, error)
}

// routes lists them in the order in which they are tried: those through other nodes first if the last one was.
func (n *node) routes() []route {
	direct, pod := n.ownRoutes()
	n.mu.Lock()
	listens, last := n.port != "" && len(n.addrs) > 0, n.lastRoute
	slow := n.mending && time.Since(n.lastMend) > mendEvery
	n.mu.Unlock()
	if !listens {
		return []route{pod}
	}
	pods := []route{pod}
	if slow { // More execs would only make it slower.
		pods = nil
	}
	var through []route
	others := slices.DeleteFunc(n.cluster.known(), func(o *node) bool { return o == n })
	for _, other := range others[:min(len(others), throughAtMost)] {
		through = append(through, route{routeThrough, func(ctx context.Context) (net.Conn, error) {
			return n.through(ctx, other)
		}})
	}
	if last == routeThrough {
		return slices.Concat(through, []route{direct}, pods)
	}
	return slices.Concat([]route{direct}, through, pods)
}

// ownRoutes are those that need no other node.
func (n *node) ownRoutes() (direct, pod route) {
	direct = route{routeDirect, func(ctx context.Context) (net.Conn, error) {
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
	pod = route{routePod, func(ctx context.Context) (net.Conn, error) {
		argv := n.inHost(n.cluster.session.Program(), "link", "stdio", string(n.cluster.session))
		return greet(ctx, n.cluster.connectIn(n.podName(), argv))
	}}
	return direct, pod
}

// agentAddress returns where the unit listens.
func (n *node) agentAddress() (string, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.port == "" || len(n.addrs) == 0 {
		return "", fmt.Errorf("node %q has no listening agent", n.name)
	}
	return net.JoinHostPort(n.addrs[0].String(), n.port), nil
}

func (n *node) through(ctx context.Context, other *node) (net.Conn, error) {
	address, err := n.agentAddress()
	if err != nil {
		return nil, err
	}
	direct, pod := other.ownRoutes()
	conn, err := direct.open(ctx)
	if err != nil {
		var podErr error
		if conn, podErr = pod.open(ctx); podErr != nil {
			return nil, fmt.Errorf("through node %q: %w", other.name, errors.Join(err, podErr))
		}
	}
	if err := link.Dial(ctx, conn, address); err != nil {
		return nil, fmt.Errorf("through node %q: %w", other.name, err)
	}
	return n.secure(ctx, conn)
}

func (n *node) secure(ctx context.Context, conn net.Conn) (net.Conn, error) {
	config, err := n.cluster.harness.Client(n.name)
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return greet(ctx, tls.Client(conn, config))
}

// greet waits until the far end of a connection answers.
func greet(ctx context.Context, conn net.Conn) (net.Conn, error) {
	if err := link.Hello(ctx, conn); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return conn, nil
}

// find connects to the node's agent by the first route on which it answers.
func (n *node) find(ctx context.Context) (net.Conn, string, error) {
	var errs []error
	for _, w := range n.routes() {
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

// connect finds the agent. If it answers over the pod only, or not at all, the node may have rebooted: the unit is
// started again first, at most every mendEvery.
func (n *node) connect(ctx context.Context) (net.Conn, error) {
	conn, _, err := n.connectBy(ctx)
	return conn, err
}

func (n *node) connectBy(ctx context.Context) (conn net.Conn, name string, err error) {
	conn, name, err = n.find(ctx)
	if (err != nil || name == routePod) && ctx.Err() == nil && n.mayMend() {
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
		return nil, "", errors.Join(ctx.Err(), err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lastRoute != name {
		n.log.Info("channel", "route", name, "before", n.lastRoute)
		n.lastRoute = name
	}
	return conn, name, nil
}

// lasting connects by a route that a fault may leave: the pod's ends with kubelet, runtime and API server. After a boot
// the unit may not be there yet. Where there can be none, the pod's route must do.
func (n *node) lasting(ctx context.Context) (conn net.Conn, err error) {
	what := fmt.Sprintf("the agent's unit on node %q", n.name)
	err = await.Until(ctx, what, time.Second, unitBound, func(ctx context.Context) (bool, string, error) {
		var name string
		mending := n.isMending()
		if conn, name, err = n.connectBy(ctx); err != nil {
			if ctx.Err() == nil && !mending && !n.isMending() {
				err = await.Stop(err)
			}
			return false, "", err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.mending { // A fault would cut off what is written there.
			return false, "it is being started again", conn.Close()
		}
		if name != routePod || n.noUnit != nil {
			return true, "", nil
		}
		return false, "it is reached by route " + name, conn.Close()
	})
	return conn, err
}

func (n *node) mayMend() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.noUnit != nil || n.mending || n.left || time.Since(n.lastMend) < mendEvery {
		return false
	}
	n.lastMend, n.mending = time.Now(), true
	return true
}

func (n *node) isMending() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mending
}

// mend starts the unit again, when mayMend said so. The attempt goes on when its caller waits no longer: on a slow node
// it takes longer than most commands may.
func (n *node) mend(ctx context.Context) error {
	going, cancel := context.WithTimeout(context.WithoutCancel(ctx), unitBound)
	done := make(chan error, 1)
	go func() {
		err := n.deliver(going)
		cancel()
		n.mu.Lock()
		n.mending = false
		n.mu.Unlock()
		done <- err
	}()
	waiting, stop := context.WithTimeout(ctx, mendEvery)
	defer stop()
	select {
	case err := <-done:
		return err
	case <-waiting.Done():
		return errors.New("the agent's unit is still being started again, through the pod")
	}
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
	stderr := &clusters.Tail{Max: stderrCap}
	streams := link.Streams{Stdin: cmd.Stdin, Stdout: cmd.Stdout, Stderr: stderr}
	if cmd.Stdout == nil {
		streams.Stdout = &stdout
	}
	code, err := link.Exec(ctx, conn, cmd.Argv, streams)
	res.Stdout, res.Stderr = stdout.Bytes(), stderr.Data
	if err != nil {
		return fail(err)
	}
	if res.ExitCode = code; code != 0 {
		return res, &clusters.ExitError{Node: n.name, Argv: cmd.Argv, ExitCode: code, Stderr: string(stderr.Data)}
	}
	return res, nil
}

var _ clusters.BoundedNode = (*node)(nil)

// BeginFault asks the node's agent for leave to do harm, within the limits of the session, once a route to it is there
// that lasts. From then on the direct route is tried first again: the fault may cut the node off from the others.
func (n *node) BeginFault(ctx context.Context, owner, fault string, life time.Duration) error {
	n.mu.Lock()
	n.lastRoute = ""
	n.mu.Unlock()
	conn, err := n.lasting(ctx)
	if err == nil {
		err = link.Begin(ctx, conn, owner, fault, life)
	}
	if err != nil {
		return fmt.Errorf("begin fault %q on node %q: %w", fault, n.name, err)
	}
	return nil
}

func (n *node) EndFault(ctx context.Context, owner string) error {
	conn, err := n.connect(ctx)
	if err == nil {
		err = link.End(ctx, conn, owner)
	}
	if err != nil {
		return fmt.Errorf("end the fault of %q on node %q: %w", owner, n.name, err)
	}
	return nil
}

// Dial connects over TCP from the node to an address that is an IP and a port: nothing resolves names there.
func (n *node) Dial(ctx context.Context, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, fmt.Errorf("dial tcp %s from node %q: %w", address, n.name, err)
	}
	if _, err := netip.ParseAddrPort(address); err != nil {
		return fail(fmt.Errorf("want an IP address and a port: %w", err))
	}
	conn, err := n.connect(ctx)
	if err != nil {
		return fail(err)
	}
	if err := link.Dial(ctx, conn, address); err != nil {
		return fail(err)
	}
	return conn, nil
}

// BootClock measures how the node's boot clock relates to the harness's.
func (n *node) BootClock(ctx context.Context) (clusters.NodeClock, error) {
	var clock clusters.NodeClock
	conn, err := n.connect(ctx)
	if err == nil {
		clock.Offset, clock.Error, err = link.Clock(ctx, conn, func() int64 { return int64(bootclock.Now()) })
	}
	if err != nil {
		return clusters.NodeClock{}, fmt.Errorf("read boot clock of node %q: %w", n.name, err)
	}
	return clock, nil
}

const (
	// rebootBound is how long a node may take to boot again: firmware of real machines needs minutes.
	rebootBound = 10 * time.Minute
	// rebootScript is one unit of systemd, so that a harness that is killed leaves no node behind that is half stopped.
	// With --force, what is left after the grace is killed, and file systems are unmounted (systemctl(1)).
	rebootScript = `timeout "$1" systemctl stop kubelet.service containerd.service; systemctl reboot --force`
	// resetScript has the kernel boot at once, without a sync or an unmount (sysrq.rst of Linux, command b), and only
	// outside of containers. It is late, so that the answer to the harness is not lost.
	resetScript = `[ "$(readlink /proc/1/ns/pid)" = "` + initialPIDs + `" ] && sleep 2 && echo b >/proc/sysrq-trigger`
	// initialPIDs is the first PID namespace of a kernel (PROC_PID_INIT_INO in Linux's proc_ns.h).
	initialPIDs = "pid:[4026531836]"
	// bootID is where Linux tells the name of its boot.
	bootID = "/proc/sys/kernel/random/boot_id"
)

var (
	_ clusters.Rebooter = (*node)(nil)
	_ clusters.Resetter = (*node)(nil)
)

// Reboot has systemd boot the node again: kubelet and runtime are stopped within grace, and then all else.
func (n *node) Reboot(ctx context.Context, grace time.Duration) error {
	err := n.bootBy(ctx, rebootScript, strconv.FormatFloat(grace.Seconds(), 'f', 3, 64))
	if err != nil {
		return fmt.Errorf("reboot node %q: %w", n.name, err)
	}
	return nil
}

// Reset has the kernel boot the machine again at once. In a container that would be the machine of all others, so it
// looks again that there is none.
func (n *node) Reset(ctx context.Context) error {
	boots, err := n.cluster.boots(ctx)
	if err == nil {
		err = n.ownKernel(ctx, boots)
	}
	if err == nil {
		err = n.bootBy(ctx, resetScript)
	}
	if err != nil {
		return fmt.Errorf("reset node %q: %w", n.name, err)
	}
	return nil
}

// ownKernel returns an error unless the node's kernel can be reset and is the node's alone, by the boot ids of all.
func (n *node) ownKernel(ctx context.Context, boots map[string]string) error {
	pids, err := clusters.Run(ctx, n, "readlink", "/proc/1/ns/pid")
	if err != nil {
		return err
	}
	id, err := clusters.Run(ctx, n, "cat", bootID)
	if err != nil {
		return err
	}
	here, err := os.ReadFile(bootID)
	if err != nil {
		return fmt.Errorf("read the boot id of the harness's machine: %w", err)
	}
	err = isMachine(n.name, strings.TrimSpace(pids), strings.TrimSpace(id), strings.TrimSpace(string(here)), boots)
	if err != nil {
		return err
	}
	if _, err := clusters.Run(ctx, n, "test", "-w", "/proc/sysrq-trigger"); err != nil {
		return fmt.Errorf("its kernel has no sysrq: %w", err)
	}
	return nil
}

// isMachine returns an error if a node is a container, by the PID namespace of its first process, or shares the kernel
// of the harness's machine or of another node, by its boot id.
func isMachine(name, pids, id, here string, boots map[string]string) error {
	switch {
	case pids != initialPIDs:
		return fmt.Errorf("it is a container: its first process is in PID namespace %q, and not in the kernel's first",
			pids)
	case id == "":
		return errors.New("its boot id is empty")
	case id == here:
		return errors.New("its kernel is that of the harness's machine")
	}
	for other, its := range boots {
		if its == id && other != name {
			return fmt.Errorf("its kernel is that of node %q: both have boot id %s", other, id)
		}
	}
	return nil
}

// bootBy runs a script that boots the node, and waits until it has booted.
func (n *node) bootBy(ctx context.Context, script string, args ...string) error {
	before, err := n.boot(ctx)
	if err != nil {
		return err
	}
	argv := append([]string{"systemd-run", "--quiet", "--no-block", "--collect", "--", "/bin/sh", "-c", script, "boot"},
		args...)
	if _, err := clusters.Run(ctx, n, argv...); err != nil {
		return err
	}
	what := fmt.Sprintf("node %q to boot again", n.name)
	return await.Until(ctx, what, askEvery, rebootBound, func(ctx context.Context) (bool, string, error) {
		now, err := n.boot(ctx)
		return err == nil && now != before, "it still runs", err
	})
}

// boot names the node's boot: that of its kernel, and the start of its first process, since a node may be a container.
func (n *node) boot(ctx context.Context) (string, error) {
	out, err := clusters.Run(ctx, n, "cat", bootID, "/proc/1/stat")
	if err != nil {
		return "", err
	}
	id, stat, _ := strings.Cut(out, "\n")
	start := clusters.ProcessStart(stat)
	if start == "" {
		return "", errors.New("/proc/1/stat tells no start time")
	}
	return id + " " + start, nil
}
