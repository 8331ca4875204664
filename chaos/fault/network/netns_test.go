package network

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/heal"
	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/chaos/probe"
)

// childEnv tells the test binary that it runs inside a network namespace, and what it is to do there.
const childEnv = "SEATRIAL_TEST_NETNS_CHILD"

// TestMain makes the test binary its own probe: inside a namespace it does what the agent does on a node.
func TestMain(m *testing.M) {
	child := strings.Fields(os.Getenv(childEnv))
	if len(child) == 0 {
		verifyNoLeaks(m)
		return
	}
	out := json.NewEncoder(os.Stdout)
	var err error
	switch child[0] {
	case "tcp":
		err = out.Encode(probe.TCP(context.Background(), child[1:], probeTimeout))
	case "flow":
		err = probe.Flow(context.Background(), child[1], time.Second, 20*time.Second,
			func(r probe.FlowReport) error { return out.Encode(r) })
	case "listen":
		err = listen(child[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
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

// namespaces is two nodes joined by a cable: 10.99.0.1 and fd99::1 in one, the same with 2 in the other.
type namespaces struct{ t *testing.T }

func (n namespaces) name(i int) string { return fmt.Sprintf("seatrial-test-%d-%d", os.Getpid(), i) }

func (n namespaces) must(stdin string, argv ...string) string {
	n.t.Helper()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	if err != nil {
		n.t.Fatalf("run %q: %v: %s", argv, err, out)
	}
	return string(out)
}

func (n namespaces) in(i int, argv ...string) []string {
	return append([]string{"ip", "netns", "exec", n.name(i)}, argv...)
}

// child starts the test binary in a namespace.
func (n namespaces) child(i int, do ...string) *exec.Cmd {
	argv := n.in(i, os.Args[0])
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), childEnv+"="+strings.Join(do, " "))
	cmd.Stderr = os.Stderr
	return cmd
}

func (n namespaces) up() {
	for i := 1; i <= 2; i++ {
		n.must("", "ip", "netns", "add", n.name(i))
		n.t.Cleanup(func() { n.must("", "ip", "netns", "del", n.name(i)) })
	}
	n.must("", "ip", "link", "add", "cable", "netns", n.name(1), "type", "veth",
		"peer", "name", "cable", "netns", n.name(2))
	for i := 1; i <= 2; i++ {
		n.must("", n.in(i, "ip", "link", "set", "lo", "up")...)
		n.must("", n.in(i, "ip", "addr", "add", fmt.Sprintf("10.99.0.%d/24", i), "dev", "cable")...)
		n.must("", n.in(i, "ip", "addr", "add", fmt.Sprintf("fd99::%d/64", i), "dev", "cable", "nodad")...)
		n.must("", n.in(i, "ip", "link", "set", "cable", "up")...)
	}
}

// serve listens on the ports of a node in namespace i.
func (n namespaces) serve(i, port int) {
	cmd := n.child(i, "listen", fmt.Sprintf("10.99.0.%d:%d", i, port), fmt.Sprintf("[fd99::%d]:%d", i, port))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		n.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = stdin.Close()
		_ = cmd.Wait()
	})
	if _, err := stdout.Read(make([]byte, 9)); err != nil {
		n.t.Fatal(err)
	}
}

func (n namespaces) connects(i int, addresses ...string) []bool {
	n.t.Helper()
	out, err := n.child(i, append([]string{"tcp"}, addresses...)...).Output()
	var answers []probe.Connect
	if err == nil {
		err = json.Unmarshal(out, &answers)
	}
	if err != nil {
		n.t.Fatal(err)
	}
	connected := make([]bool, len(answers))
	for j, a := range answers {
		connected[j] = a.Connected
	}
	return connected
}

// flows opens a flow from a namespace to each address, and returns what is said of it after that.
func (n namespaces) flows(i int, addresses []string) map[string]*json.Decoder {
	n.t.Helper()
	flows := map[string]*json.Decoder{}
	for _, to := range addresses {
		cmd := n.child(i, "flow", to)
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			n.t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			n.t.Fatal(err)
		}
		n.t.Cleanup(func() { _ = cmd.Wait() })
		flows[to] = json.NewDecoder(stdout)
		var r probe.FlowReport
		if err := flows[to].Decode(&r); err != nil || r.State != probe.FlowOpen {
			n.t.Fatalf("flow to %s: %+v, %v", to, r, err)
		}
	}
	return flows
}

func TestRulesetOnARealKernel(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: the rules on a real kernel; needs root, ip and nft; make e2e runs it")
	}
	for _, program := range []string{"ip", "nft"} { // A kind host needs neither; the node image has both.
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("NOT RUN: the rules on a real kernel; %q is not installed on this host", program)
		}
	}
	n := namespaces{t}
	n.up()
	n.serve(1, 6443)  // The control plane.
	n.serve(2, 10250) // The victim.
	out, in := []string{"10.99.0.1:6443", "[fd99::1]:6443"}, []string{"10.99.0.2:10250", "[fd99::2]:10250"}
	expect := func(what string, v4, v6 bool) {
		t.Helper()
		for _, got := range [][]bool{n.connects(2, out...), n.connects(1, in...)} {
			if got[0] != v4 || got[1] != v6 {
				t.Fatalf("%s: IPv4 and IPv6 connect: %v, want %v and %v", what, got, v4, v6)
			}
		}
	}
	from := []netip.Prefix{netip.MustParsePrefix("10.99.0.1/32"), netip.MustParsePrefix("fd99::1/128"),
		netip.MustParsePrefix("10.244.0.0/24")}
	table := mark.Owner{Run: "test-1", Step: 3}
	apply := func(text string) { n.must(text, n.in(2, heal.DeleteTable()...)...) }

	expect("before", true, true)
	apply(ruleset(table.Table(), cutOff(from, []string{"ipv4"}), time.Minute))
	expect("IPv4 cut", false, true)
	apply(heal.TableGone(table))
	expect("healed", true, true)
	flows := n.flows(2, out)
	begin := time.Now()
	apply(ruleset(table.Table(), cutOff(from, nil), 8*time.Second))
	expect("both cut", false, false)
	for to, words := range flows {
		var r probe.FlowReport
		if err := words.Decode(&r); err != nil || r.State != probe.FlowDead {
			t.Fatalf("established flow to %s: %+v, %v", to, r, err)
		}
	}
	for n.connects(2, out[0])[0] == false {
		if time.Since(begin) > 20*time.Second {
			t.Fatal("the kernel has not ended the cut")
		}
	}
	took := time.Since(begin)
	t.Logf("the kernel ended the cut of 8s after %s", took)
	if took < 8*time.Second || took > 8*time.Second+2*probeTimeout {
		t.Errorf("the kernel ended the cut of 8s after %s", took)
	}
	expect("after its life", true, true)
	apply(heal.TableGone(table))
	apply(heal.TableGone(table))
	if left := n.must("", n.in(2, "nft", "list", "ruleset")...); left != "" {
		t.Errorf("left over:\n%s", left)
	}
}
