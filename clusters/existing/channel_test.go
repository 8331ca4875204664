package existing

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/existing/link"
)

// pod stands for the agent's pod of a node; what runs in it runs on this machine.
type pod struct {
	mu      sync.Mutex
	started []error // How each "link start" ends; those after the last succeed.
	gone    bool
	port    string // Where the unit says that it listens.
	asked   atomic.Int32
	bounds  *link.Bounds
	slow    chan struct{} // If there is one, the unit is started when it is closed.
}

func (p *pod) exec(ctx context.Context, _ string, argv []string, in io.Reader, out, _ io.Writer) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	line := strings.Join(argv, " ")
	switch {
	case p.gone:
		return errors.New("pods not found")
	case strings.HasPrefix(line, "/usr/bin/install ") && !strings.HasSuffix(line, ".new"):
		return errors.New("the agent is copied to where others run it: they are denied it meanwhile")
	case strings.Contains(line, " link stdio "):
		p.asked.Add(1)
		p.mu.Unlock()
		defer p.mu.Lock()
		link.ServeOne(ctx, in.(io.ReadWriteCloser), p.bounds)
	case strings.Contains(line, " link start "):
		if p.slow != nil {
			p.mu.Unlock()
			defer p.mu.Lock()
			select {
			case <-p.slow:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if len(p.started) > 0 {
			err := p.started[0]
			p.started = p.started[1:]
			return err
		}
		_, err := io.WriteString(out, cmp.Or(p.port, "1")+"\n") // Nobody listens on port 1.
		return err
	case strings.Contains(line, " link stop "):
		p.gone = true
	}
	return nil
}

// nodeWith returns a node whose pod runs.
func nodeWith(t *testing.T, p *pod) *node {
	t.Helper()
	l := link.Limits{Faults: []string{"any"}, Longest: time.Hour, Total: time.Hour}
	c, err := newCluster("c", nil, Options{Log: slog.New(slog.DiscardHandler), Faults: l}, []byte("agent"))
	must(t, err)
	p.bounds = link.NewBounds(t.TempDir(), l)
	n := &node{cluster: c, name: "n", log: c.log, addrs: []netip.Addr{netip.MustParseAddr("127.0.0.1")}}
	c.nodes, c.exec = []*node{n}, p.exec
	running := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: n.podName(), Namespace: c.namespace()}}
	running.Spec.Containers = []corev1.Container{{Image: "pause"}}
	running.Status.ContainerStatuses = []corev1.ContainerStatus{
		{State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}
	c.kube = fake.NewClientset(running)
	return n
}

// A node is without the unit for good only if the agent itself says so, and has never had one there.
func TestUnitIsStartedAgain(t *testing.T) {
	no := utilexec.CodeExitError{Err: errors.New("no systemd"), Code: 1}
	killed := utilexec.CodeExitError{Err: errors.New("killed"), Code: 137}
	for _, c := range []struct {
		name    string
		started []error
		again   bool
	}{
		{"started", []error{nil}, true},
		{"the connection was lost", []error{errors.New("connection reset")}, true},
		{"the pod was deleted meanwhile", []error{killed}, true},
		{"no systemd", []error{no}, false},
		{"systemd not up yet after a boot", []error{nil, no}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := nodeWith(t, &pod{started: c.started})
			for _, want := range c.started {
				err := n.deliver(t.Context())
				if (err == nil) != (want == nil || !c.again) {
					t.Errorf("deliver = %v", err)
				}
				if n.noUnit == nil && want == nil {
					n.port = "1" // The empty answer of a start that is scripted.
				}
			}
			if n.mayMend() != c.again {
				t.Errorf("the unit is started again: %t, want %t", !c.again, c.again)
			}
		})
	}
}

// TestAFaultWaitsForTheUnit, as after a boot: the pod's route would end with the kubelet.
func TestAFaultWaitsForTheUnit(t *testing.T) {
	p := &pod{}
	n := nodeWith(t, p)
	identity, err := n.cluster.authority.Node(link.Limits{Node: n.name})
	must(t, err)
	config, err := identity.Server()
	must(t, err)
	unit, err := tls.Listen("tcp", "127.0.0.1:0", config) // It takes connections, and answers later.
	must(t, err)
	p.port = strconv.Itoa(unit.Addr().(*net.TCPAddr).Port)
	n.port, n.lastMend = p.port, time.Now() // The unit was started again just now.
	began := make(chan error, 1)
	go func() { began <- n.BeginFault(t.Context(), "r1-1", "any", time.Minute) }()
	must(t, await.Until(t.Context(), "the pod's route to be tried", 10*time.Millisecond, time.Minute,
		func(context.Context) (bool, string, error) { return p.asked.Load() > 0, "", nil }))
	serving, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- link.Serve(serving, unit, p.bounds) }()
	must(t, <-began)
	if n.lastRoute != routeDirect {
		t.Errorf("the fault began by route %q, want %q", n.lastRoute, routeDirect)
	}
	stop()
	must(t, <-served)
}

// TestSlowStartOutlivesItsCommand: on a slow node it takes longer than most commands may.
func TestSlowStartOutlivesItsCommand(t *testing.T) {
	for _, c := range []struct {
		name string
		then func(t *testing.T, p *pod, n *node)
		port string
	}{
		{"it ends", func(_ *testing.T, p *pod, _ *node) { close(p.slow) }, "7"},
		{"the node is left meanwhile", func(t *testing.T, p *pod, n *node) {
			left := make(chan error, 1)
			go func() {
				n.startNoMore()
				left <- n.leave(t.Context())
			}()
			close(p.slow)
			must(t, <-left)
			if !p.gone {
				t.Error("the session was not removed from the node")
			}
		}, "7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &pod{slow: make(chan struct{}), port: "7"}
			n := nodeWith(t, p)
			n.port = "1" // No process listens on it, as after a boot.
			short, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
			defer cancel()
			if !n.mayMend() {
				t.Fatal("the unit may not be started")
			}
			if err := n.mend(short); err == nil || !n.isMending() {
				t.Fatalf("mend = %v, want an error, and that it goes on", err)
			}
			if n.mayMend() {
				t.Error("the unit may be started twice at once")
			}
			n.lastMend = time.Now().Add(-time.Minute)
			if slices.ContainsFunc(n.routes(), func(r route) bool { return r.name == routePod }) {
				t.Error("the pod's route is tried while a slow start goes on there")
			}
			c.then(t, p, n)
			must(t, await.Until(t.Context(), "the start to end", time.Millisecond, time.Minute,
				func(context.Context) (bool, string, error) { return !n.isMending(), "", nil }))
			if n.port != c.port {
				t.Errorf("the unit's port is %q, want %q", n.port, c.port)
			}
		})
	}
}

func TestNodeIsLeftOnce(t *testing.T) {
	p := &pod{}
	n := nodeWith(t, p)
	must(t, n.deliver(t.Context()))
	for range 2 {
		if err := n.leave(t.Context()); err != nil || !p.gone {
			t.Fatalf("leave = %v; the session was removed: %t", err, p.gone)
		}
	}
}

// A command through the pod ends with its caller's context, and so does what it started.
func TestCommandThroughPod(t *testing.T) {
	n := nodeWith(t, &pod{})
	n.noUnit = errors.New("not wanted in this test")
	if out, err := clusters.Run(t.Context(), n, "echo", "a  $b", "*"); err != nil || out != "a  $b *\n" {
		t.Errorf("echo = %q, %v", out, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	argv := []string{"sh", "-c", "setsid sleep 4712 & sleep 4712"}
	if _, err := clusters.Run(ctx, n, argv...); !errors.Is(err, link.ErrLimit) {
		t.Errorf("without a fault: %v, want the agent's refusal", err)
	}
	if err := n.BeginFault(ctx, "r1-1", "another", time.Minute); !errors.Is(err, link.ErrLimit) {
		t.Errorf("a fault that is not allowed: %v, want the agent's refusal", err)
	}
	must(t, n.BeginFault(ctx, "r1-1", "any", time.Minute))
	_, err := clusters.Run(ctx, n, argv...)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sleep = %v, want the context's error", err)
	}
	if out, _ := exec.Command("pgrep", "-f", "^sleep 4712$").Output(); len(out) > 0 {
		t.Errorf("left: process %s", out)
	}
}

// The allow-list of nodes is the user's, else the workers, and the control plane for faults of that.
func TestLimitsOfANode(t *testing.T) {
	n := nodeWith(t, &pod{})
	for _, c := range []struct {
		role    clusters.Role
		nodes   []string
		control bool
		want    bool
	}{
		{clusters.RoleWorker, nil, false, true},
		{clusters.RoleControlPlane, nil, false, false},
		{clusters.RoleControlPlane, nil, true, true},
		{clusters.RoleWorker, []string{"m", "n"}, false, true},
		{clusters.RoleWorker, []string{"m"}, false, false},
		{clusters.RoleControlPlane, []string{"m"}, true, false},
	} {
		n.role, n.cluster.opts.FaultNodes, n.cluster.opts.FaultControlPlane = c.role, c.nodes, c.control
		l := n.cluster.limits(n)
		if (len(l.Faults) > 0) != c.want || l.Node != "n" || l.Session != n.cluster.session {
			t.Errorf("%+v: %+v", c, l)
		}
	}
}

func TestRoutesToANode(t *testing.T) {
	n := nodeWith(t, &pod{})
	for _, name := range []string{"a", "b", "c", "d"} {
		n.cluster.nodes = append(n.cluster.nodes, &node{cluster: n.cluster, name: name})
	}
	through := []string{routeThrough, routeThrough, routeThrough}
	for _, c := range []struct {
		port, last string
		want       []string
	}{
		{"", routeDirect, []string{routePod}},
		{"1", "", append(append([]string{routeDirect}, through...), routePod)},
		{"1", routePod, append(append([]string{routeDirect}, through...), routePod)},
		{"1", routeThrough, append(append([]string{}, through...), routeDirect, routePod)},
	} {
		n.port, n.lastRoute = c.port, c.last
		var got []string
		for _, w := range n.routes() {
			got = append(got, w.name)
		}
		if strings.Join(got, "; ") != strings.Join(c.want, "; ") {
			t.Errorf("port %q, last route %q: %q, want %q", c.port, c.last, got, c.want)
		}
	}
}

// TestOnlyAMachineIsReset: a reset of a container is one of its host, and of all that runs there.
func TestOnlyAMachineIsReset(t *testing.T) {
	first, boots := "pid:[4026531836]", map[string]string{"n": "a", "o": "b", "p": ""}
	for _, c := range []struct{ pids, id, here, want string }{
		{first, "a", "h", ""},
		{"pid:[4026532185]", "a", "h", `its first process is in PID namespace "pid:[4026532185]"`},
		{"", "a", "h", "it is a container"},
		{first, "a", "a", "its kernel is that of the harness's machine"},
		{first, "", "h", "its boot id is empty"},
		{first, "b", "h", `its kernel is that of node "o": both have boot id b`},
	} {
		if err := isMachine("n", c.pids, c.id, c.here, boots); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("isMachine(%q, %q, %q) = %v, want %q", c.pids, c.id, c.here, err, c.want)
		}
	}
}
