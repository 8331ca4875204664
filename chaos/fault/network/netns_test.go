package network

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"hash/crc32"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// childEnv tells the test binary that it runs inside a network namespace, and what it is to do there.
const childEnv = "SEATRIAL_TEST_NETNS_CHILD"

// TestMain makes the test binary its own probe: inside a namespace it does what the agent does on a node.
func TestMain(m *testing.M) {
	child := strings.Fields(os.Getenv(childEnv))
	if len(child) == 0 {
		// What runs beside others here waits more than it does, however few the cores are.
		if err := flag.Set("test.parallel", "6"); err != nil {
			panic(err)
		}
		verifyNoLeaks(m)
		return
	}
	if err := childMain(child); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func childMain(child []string) error {
	if child[0] == "listen" {
		return listen(child[1:])
	}
	switch child[0] {
	case "hear":
		return hear(child[1])
	case "stream":
		return stream(child[1])
	}
	fs := flag.NewFlagSet("probe", flag.ContinueOnError)
	timeout := fs.Duration("timeout", 0, "")
	silence, watch := fs.Duration("silence", 0, ""), fs.Duration("watch", 0, "")
	count, interval, size := fs.Int("count", 0, ""), fs.Duration("interval", 0, ""), fs.Int("size", 0, "")
	if err := fs.Parse(child[2:]); err != nil {
		return err
	}
	out, ctx := json.NewEncoder(os.Stdout), context.Background()
	switch child[1] {
	case "tcp":
		return out.Encode(probe.TCP(ctx, fs.Args(), *timeout))
	case "flow":
		return probe.Flow(ctx, fs.Arg(0), *silence, *watch, func(r probe.FlowReport) error { return out.Encode(r) })
	case "ping":
		var to []netip.Addr
		for _, text := range fs.Args() {
			to = append(to, netip.MustParseAddr(text))
		}
		v := probe.Volley{Count: *count, Interval: *interval, Timeout: *timeout, Size: *size}
		answers, err := probe.Ping(ctx, to, v)
		return errors.Join(err, out.Encode(answers))
	}
	return fmt.Errorf("no probe %q", child)
}

// listen accepts connections and reads whatever comes, until its standard input ends.
func listen(addresses []string) error {
	for _, a := range addresses {
		l, err := net.Listen("tcp", a)
		if err != nil {
			return err
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() { _, _ = bytes.NewBuffer(nil).ReadFrom(c) }()
			}
		}()
	}
	fmt.Println("listening")
	_, err := bytes.NewBuffer(nil).ReadFrom(os.Stdin)
	return err
}

// space is a network namespace that passes for a node: what runs on it runs in there, and the agent is this binary.
type space struct {
	t    testing.TB
	name string
	role clusters.Role
	ips  []netip.Addr
	pid  int    // Of the program that listens in it.
	dir  string // In the place of varLib.
}

// varLib is where marks are: on the host, whose file system all namespaces share, they are elsewhere.
const varLib = "/var/lib"

func (s *space) Name() string        { return s.name }
func (s *space) Role() clusters.Role { return s.role }

func (s *space) Addresses(context.Context) ([]netip.Addr, error) { return s.ips, nil }

func (s *space) Dial(context.Context, string) (net.Conn, error) {
	return nil, errors.New("nobody dials here")
}

// command makes a command in the namespace. Of a node, what concerns its first process concerns the namespace.
func (s *space) command(ctx context.Context, argv []string) *exec.Cmd {
	full, env := []string{"ip", "netns", "exec", s.name}, os.Environ()
	for i, a := range argv {
		if a == nodeagent.Path {
			full = append(full, os.Args[0])
			env = append(env, childEnv+"="+strings.Join(argv[i+1:], " "))
			break
		}
		full = append(full, strings.NewReplacer("/proc/1/net/", "/proc/self/net/", varLib, s.dir).Replace(a))
	}
	cmd := exec.CommandContext(ctx, full[0], full[1:]...)
	cmd.Env = env
	return cmd
}

func (s *space) Exec(ctx context.Context, c clusters.Command) (clusters.Result, error) {
	cmd := s.command(ctx, c.Argv)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, &out, &said
	if c.Stdout != nil {
		cmd.Stdout = c.Stdout
	}
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("run %q on %s: %w: %s", c.Argv, s.name, err, said.String())
	}
	return clusters.Result{Stdout: bytes.ReplaceAll(out.Bytes(), []byte(s.dir), []byte(varLib))}, err
}

func (s *space) must(argv ...string) string {
	s.t.Helper()
	out, err := clusters.Run(context.Background(), s, argv...)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

// serve listens on a port of all addresses, until the test is over.
func (s *space) serve(port int) {
	s.t.Helper()
	argv := []string{nodeagent.Path, "listen"}
	for _, ip := range s.ips {
		argv = append(argv, netip.AddrPortFrom(ip, uint16(port)).String())
	}
	cmd := s.command(context.Background(), argv)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	if _, err := stdout.Read(make([]byte, 9)); err != nil {
		s.t.Fatal(err)
	}
	s.pid = cmd.Process.Pid
}

// lab is three namespaces in a row: a far node, the victim's node, and a pod of the victim's, which its node forwards
// for. Each cable has addresses of both families.
type lab struct{ far, node, pod *space }

func newLab(t testing.TB) lab {
	t.Helper()
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: the rules on a real kernel; needs root, ip and nft; make e2e runs it")
	}
	for _, program := range []string{"ip", "nft", "nsenter", "tc"} { // A kind host needs none; the node image has all.
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT RUN: the rules on a real kernel; %q is not installed on this host", program)
		}
	}
	host := func(argv ...string) {
		t.Helper()
		if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("run %q: %v: %s", argv, err, out)
		}
	}
	n := crc32.ChecksumIEEE([]byte(t.Name())) // Several can be there at a time.
	made := func(name string, role clusters.Role) *space {
		s := &space{t: t, role: role, dir: t.TempDir()}
		s.name = fmt.Sprintf("seatrial-test-%d-%d-%s", os.Getpid(), n, name)
		host("ip", "netns", "add", s.name)
		t.Cleanup(func() { host("ip", "netns", "del", s.name) })
		s.must("ip", "link", "set", "lo", "up")
		return s
	}
	l := lab{
		made("far", clusters.RoleControlPlane), made("node", clusters.RoleWorker), made("pod", clusters.RoleWorker),
	}
	join := func(cable string, net int, a, b *space) {
		host("ip", "link", "add", cable, "netns", a.name, "type", "veth", "peer", "name", cable, "netns", b.name)
		for i, s := range []*space{a, b} {
			v4, v6 := fmt.Sprintf("10.99.%d.%d", net, i+1), fmt.Sprintf("fd99:%d::%d", net, i+1)
			s.must("ip", "addr", "add", v4+"/24", "dev", cable)
			s.must("ip", "addr", "add", v6+"/64", "dev", cable, "nodad")
			s.must("ip", "link", "set", cable, "up")
			s.ips = append(s.ips, netip.MustParseAddr(v4), netip.MustParseAddr(v6))
		}
	}
	join("cable0", 0, l.far, l.node)
	l.node.ips, l.far.ips = l.node.ips[:2:2], l.far.ips[:2:2]
	join("cable1", 1, l.node, l.pod)
	l.node.ips = l.node.ips[:2]
	for _, family := range []struct{ flag, node, pod string }{
		{"-4", "10.99.0.2", "10.99.1.1"}, {"-6", "fd99:0::2", "fd99:1::1"},
	} {
		l.far.must("ip", family.flag, "route", "add", "default", "via", family.node)
		l.pod.must("ip", family.flag, "route", "add", "default", "via", family.pod)
	}
	l.node.must("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	l.far.serve(6443)
	l.node.serve(10250)
	l.pod.serve(3306)
	return l
}

func (s *space) end(port uint16) end {
	e := end{name: s.name[strings.LastIndexByte(s.name, '-')+1:], node: s, addresses: s.ips, port: port}
	for _, ip := range s.ips {
		e.prefixes = append(e.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
	}
	return e
}

// filtered returns a fault between the far node and the victim's, or its pod, which is entered through its node.
func (l lab) filtered(t testing.TB, rules filter, pod bool) *filtered {
	t.Helper()
	spec := plan.Fault{Hold: plan.Duration(time.Second)}
	s := &filtered{rules: rules, pod: pod, Env: fault.Env{
		Node: l.node, Clock: bootclock.Now, Owner: undo.Owner{Run: "test-1", Step: 3}, Life: fault.Life(spec),
		Kube: fake.NewClientset(), // Without the pod: the fault is shown on the node's ways alone.
	}}
	s.find = func(context.Context) (sides, error) {
		node, far := l.node.end(10250), l.far.end(6443)
		if !pod {
			return sides{mine: node, others: []end{far}}, nil
		}
		mine := l.pod.end(3306)
		mine.node, mine.pid = l.node, l.pod.pid
		return sides{mine: mine, others: []end{far}, beside: []way{{from: node, to: mine}, {from: node, to: far}}}, nil
	}
	t.Cleanup(func() {
		if err := s.Heal(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// filter returns a whole cut between the two nodes, ready to be applied.
func (l lab) filter(t testing.TB) *filtered {
	t.Helper()
	s := l.filtered(t, filter{}, false)
	if err := s.locate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}
