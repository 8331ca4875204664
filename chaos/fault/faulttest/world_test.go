package faulttest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/fake"
)

// world is a small model of a cluster behind the fake's nodes: kubelets that renew leases, nftables that cut, systemd
// that restarts. It knows what the commands mean, so that a fault which says the wrong thing has no effect.
type world struct {
	cluster *fake.Cluster
	begin   time.Time
	root    string          // The nodes' directories, one for each, as far as they keep undos. Made when one is armed.
	over    context.Context //nolint:containedctx // Ends with the test; the timers that use it have no caller.
	stopped context.CancelFunc
	inert   bool   // Acts are accepted and do nothing.
	quiet   bool   // Nobody calls the disk's driver.
	past    bool   // What pods send, or are sent, goes past nftables.
	unheard string // The protocol of which the next lookup is lost.
	stray   bool   // Another pings what the victim's pod pings next.
	etcd2   bool   // A pod runs another etcd beside the control plane's.
	raised  int    // By how many minor versions etcd raised that of its data.

	api *fake.Node // Takes what is written to the API server, so that it is in the transcript.

	mesh     chaosMesh
	resolver string // The DNS server that the workload's pods are configured with.
	mu       sync.Mutex
	nodes    map[string]*machine
	echoes   map[place][2]uint64  // Echo requests that came there, by IPv4 and IPv6.
	placed   map[netip.Addr]place // See places.
	flows    int                  // How many connections were opened.
	objects
	armedBeside *armedBeside
	clients
}

// machine is one node of the world.
type machine struct {
	node     *fake.Node
	boots    int
	booted   time.Time
	pid      int // Of the kubelet.
	started  time.Time
	restarts int
	renewed  time.Time
	balanced bool               // Its kubelet reaches the API server by a load balancer.
	tables   map[string]*filter // Of nftables, by name.
	timers   map[string]*time.Timer
	order    *order               // What it does alone, nil for nothing.
	points   map[string]diskPoint // By service and id.
	services
	container
	wholeNode
	disks
	line
}

const workloadUID = "0a-1b"

// newWorld returns a world that is five seconds old, so that what is made now is later than what was there.
func newWorld() *world {
	defer time.Sleep(5 * time.Second)
	w := &world{cluster: fake.NewCluster("c", 2), begin: time.Now(), nodes: map[string]*machine{},
		echoes: map[place][2]uint64{}, resolver: dnsAddresses()[2]}
	w.over, w.stopped = context.WithCancel(context.Background())
	for _, suffix := range []string{"control-plane", "worker", "worker2"} {
		n := w.cluster.Node(suffix)
		m := &machine{node: n, boots: n.Boots(), booted: w.begin, pid: 214, started: w.begin, renewed: w.begin,
			tables: map[string]*filter{}, timers: map[string]*time.Timer{}, points: map[string]diskPoint{}}
		w.nodes[n.Name()] = m
		w.makeServices(m)
		do := func(ctx context.Context, cmd clusters.Command, stdin string) (clusters.Result, error) {
			return w.exec(ctx, m, cmd, stdin)
		}
		n.On([]string{"..."}, fake.Reply{Do: do})
	}
	w.makeObjects()
	w.makeArmedBeside()
	return w
}

// time returns t on the boot clock, which read 100 s when the world began.
func (w *world) time(t time.Time) history.Time { return history.Time(t.Sub(w.begin) + 100*time.Second) }

// stop ends what a test has left ticking.
func (w *world) stop() {
	w.stopped()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.nodes {
		for _, t := range m.timers {
			t.Stop()
		}
	}
	for _, t := range w.armedBeside.timers {
		t.Stop()
	}
	if w.root != "" {
		_ = os.RemoveAll(w.root)
	}
}

// catchUp lets everything happen to m that its power and the clock did. The lock is held.
func (w *world) catchUp(m *machine) {
	if boots := m.node.Boots(); boots != m.boots {
		for _, t := range m.timers {
			t.Stop()
		}
		now := time.Now()
		m.boots, m.booted, m.pid, m.started, m.renewed = boots, now, 180, now, now
		m.tables, m.timers, m.restarts = map[string]*filter{}, map[string]*time.Timer{}, 0
		m.stopped, m.qdisc = false, nil
		m.wholeNode.booted()
		w.remount(m)
	}
	if m.still() {
		return
	}
	if w.renews(m) {
		if tick := w.begin.Add(time.Since(w.begin).Truncate(10 * time.Second)); tick.After(m.renewed) {
			m.renewed = tick
		}
	}
}

func (w *world) exec(ctx context.Context, m *machine, cmd clusters.Command, stdin string) (clusters.Result, error) {
	w.mu.Lock()
	w.catchUp(m)
	if slices.Contains(cmd.Argv, "flow") {
		w.mu.Unlock()
		return clusters.Result{}, w.flow(ctx, m, cmd)
	}
	if undos(cmd.Argv) {
		w.mu.Unlock()
		out, err := w.agent(ctx, m, cmd.Argv, stdin)
		if err != nil {
			err = &clusters.ExitError{Node: m.node.Name(), Argv: cmd.Argv, ExitCode: 1, Stderr: err.Error()}
		}
		return clusters.Result{Stdout: []byte(out)}, err
	}
	out, exit, took, known := w.network(m, cmd.Argv, stdin)
	if !known {
		out, exit = w.answer(m, cmd.Argv, stdin)
	}
	w.mu.Unlock()
	time.Sleep(took) // In the bubble's time: a probe that is dropped takes its timeout.
	if exit != 0 {
		ended := clusters.Result{Stdout: []byte(out), ExitCode: exit}
		return ended, &clusters.ExitError{Node: m.node.Name(), Argv: cmd.Argv, ExitCode: exit}
	}
	return clusters.Result{Stdout: []byte(out)}, nil
}

// answer carries out a command. The lock is held.
func (w *world) answer(m *machine, argv []string, stdin string) (string, int) {
	last := argv[len(argv)-1]
	if out, exit, known := w.program(m, argv); known {
		return out, exit
	}
	if out, exit, known := w.disk(m, argv); known {
		return out, exit
	}
	if out, exit, known := w.kubectl(m, argv); known {
		return out, exit
	}
	if out, exit, known := w.service(m, argv, stdin); known {
		return out, exit
	}
	if out, exit, known := w.ctr(m, argv); known {
		return out, exit
	}
	switch line := strings.Join(argv, " "); {
	case strings.HasPrefix(line, "systemctl show kubelet"):
		return fmt.Sprintf("MainPID=%d\nNRestarts=%d\nActiveState=active\nSubState=running\n", m.pid, m.restarts), 0
	case line == "systemctl kill -s KILL kubelet":
		if !w.inert {
			m.pid, m.started, m.restarts, m.renewed = m.pid+100, time.Now(), m.restarts+1, time.Now()
		}
		return "", 0
	case line == "systemctl restart kubelet":
		w.register(m)
		return "", 0
	case argv[0] == "test":
		return "", 0
	case argv[0] == "systemd-run":
		return w.startTimer(m, argv)
	case argv[0] == "systemctl" && (argv[1] == "is-active" || argv[1] == "stop"):
		timer, ok := m.timers[last]
		if !ok {
			return "inactive\n", 5
		}
		if argv[1] == "stop" {
			timer.Stop()
			delete(m.timers, last)
		}
		return "active\n", 0
	case strings.HasPrefix(line, nodeagent.DiskPath+" points"):
		return w.points(m, argv[2:])
	case strings.HasPrefix(line, "ip -json -4"):
		return `[{"dst":"default","gateway":"172.18.0.1"},{"dst":"10.244.0.0/24","gateway":"172.18.0.2"}]`, 0
	case strings.HasPrefix(line, "ip -json -6"):
		return "", 0
	case line == "cat /proc/1/mountinfo":
		return "40 22 7:3 / /mnt/seatrial/a rw - ext4 /dev/loop3 rw\n" +
			"41 22 7:4 / /mnt/other rw - ext4 /dev/loop4 rw\n", 0
	case strings.HasPrefix(line, nodeagent.Path+" probe process"):
		return w.probeProcess(m, argv[3:]), 0
	}
	return "", 127
}

// undos reports whether a command is one of the agent about undos.
func undos(argv []string) bool {
	about := []string{"arm", "armed", "disarm", "marks", "restore-node", "undo"}
	return len(argv) > 1 && argv[0] == nodeagent.Path && slices.Contains(about, argv[1])
}

// flag returns the value of a flag in a command, empty without it.
func flagOf(argv []string, name string) string {
	if i := slices.Index(argv, name); i >= 0 {
		return argv[i+1]
	}
	return ""
}

// ownerOf reads --run and --step, nil without.
func ownerOf(argv []string) undo.Only {
	if flagOf(argv, "--run") == "" {
		return nil
	}
	n, err := strconv.Atoi(flagOf(argv, "--step"))
	if err != nil {
		panic(err)
	}
	return undo.Of(flagOf(argv, "--run"), n)
}

// host is what the agent does about undos on a node: on files of its own, with the node's own commands.
func (w *world) host(m *machine) undo.Host {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.root == "" {
		var err error
		if w.root, err = os.MkdirTemp("", "world-*"); err != nil {
			panic(err)
		}
	}
	return undo.Host{Root: filepath.Join(w.root, m.node.Name()), Run: w.runner(m)}
}

// runner runs commands on a node that the harness is not asked for.
func (w *world) runner(m *machine) undo.Runner {
	return func(ctx context.Context, argv []string, stdin string) (string, error) {
		if undos(argv) {
			return w.agent(ctx, m, argv, stdin)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		out, exit, _, known := w.network(m, argv, stdin)
		if !known {
			out, exit = w.answer(m, argv, stdin)
		}
		if exit != 0 {
			return out, fmt.Errorf("run %q: exit code %d", argv, exit)
		}
		return out, nil
	}
}

// agent carries out a command of the agent about undos. The lock is not held.
func (w *world) agent(ctx context.Context, m *machine, argv []string, stdin string) (string, error) {
	host, only := w.host(m), ownerOf(argv)
	switch argv[1] {
	case "arm":
		life, err := time.ParseDuration(flagOf(argv, "--life"))
		record := undo.Record{Owner: *only, Deadline: bootclock.Now().Add(life)}
		if err := errors.Join(err, json.Unmarshal([]byte(stdin), &record.Actions)); err != nil {
			return "", err
		}
		return "", host.Arm(ctx, record, slices.Contains(argv, "--until-boot"))
	case "disarm":
		return "", host.Disarm(ctx, *only)
	case "armed":
		armed, err := host.Armed(only)
		return encode(armed), err
	case "marks":
		did, err := undo.Unmark(ctx, undo.Kubectl(host.Run), only, argv[len(argv)-1])
		return strings.Join(did, "\n"), err
	case "restore-node":
		var was undo.NodeWas
		if err := json.Unmarshal([]byte(stdin), &was); err != nil {
			return "", err
		}
		return was.Restore(ctx, undo.Kubectl(host.Run))
	}
	bound := 30 * time.Minute
	if text := flagOf(argv, "--bound"); text != "" {
		var err error
		if bound, err = time.ParseDuration(text); err != nil {
			return "", err
		}
	}
	report, err := host.Undo(ctx, only, bound)
	return encode(report), err
}

// startTimer is what systemd does with the timer of an undo. The lock is held.
func (w *world) startTimer(m *machine, argv []string) (string, int) {
	var unit string
	var seconds float64
	for _, arg := range argv {
		if text, ok := strings.CutPrefix(arg, "--unit="); ok {
			unit = text
		}
		if text, ok := strings.CutPrefix(arg, "--on-active="); ok {
			if _, err := fmt.Sscanf(text, "%gs", &seconds); err != nil {
				return err.Error(), 1
			}
		}
	}
	owner := *ownerOf(argv)
	life := time.Duration(seconds * float64(time.Second)).Round(100 * time.Millisecond) // Arming took real time.
	m.timers[unit+".timer"] = time.AfterFunc(life, func() { w.expire(m, owner) })
	return "", 0
}

// expire is what a timer does: the agent's own undo, on the node's own commands.
func (w *world) expire(m *machine, owner undo.Owner) {
	_, _ = w.host(m).Undo(w.over, undo.Of(owner.Run, owner.Step), 30*time.Minute)
}

func (w *world) probeProcess(m *machine, argv []string) string {
	found := probe.Processes{At: w.time(time.Now()), PID1Start: w.time(m.booted), Processes: []probe.Process{}}
	all := []probe.Process{w.task(m)}
	all = slices.Concat(all, w.others(m), w.programs(m), w.stressor())
	if !m.shimless {
		all = append(all, probe.Process{PID: 800 + m.boots, Start: w.time(m.booted), Name: "containerd-shim"})
	}
	if m.node.Name() == "c-worker2" {
		all = append(all, probe.Process{PID: peerPID, Start: w.time(w.begin), Name: "mysqld", PodUID: peerUID})
	}
	for _, p := range all {
		named := p.Name == argv[len(argv)-1]
		if named || slices.Contains(argv, strconv.Itoa(p.PID)) || p.PodUID != "" && slices.Contains(argv, p.PodUID) {
			found.Processes = append(found.Processes, p)
		}
	}
	return encode(found)
}

func encode(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// idle is a node whose power switch does nothing.
type idle struct{ *fake.Node }

func (idle) Reboot(context.Context, time.Duration) error { return nil }
func (idle) Reset(context.Context) error                 { return nil }

// bench returns the world as a bench, with the worker as victim.
func (w *world) bench(t *testing.T, name string) faulttest.Bench {
	t.Helper()
	t.Cleanup(w.stop)
	w.mesh.absent, w.lists = name != "mesh", name == "node-isolate"
	var node clusters.Node = w.cluster.Node("worker")
	if w.inert {
		node = idle{w.cluster.Node("worker")}
	}
	kube := server{w.kube(), w}
	w.armedBeside.kube = kube
	b := faulttest.Bench{
		Env: fault.Env{
			Cluster: w.cluster, Kube: kube, Node: node, Pod: "mysql-1", Namespace: "trial", RunID: "r1",
			Watchdog: w.armedBeside,
			Clock:    func() history.Time { return w.time(time.Now()) },
		},
		Spec: spec(name),
	}
	if b.Spec.Params["peer"] != nil {
		b.Env.Peer, b.Env.PeerNode = peerPod, w.cluster.Node("worker2")
	}
	b.Before = func(ctx context.Context) (fault.Env, error) {
		w.renewClaim()
		return b.Env, await.For(ctx, 10*time.Second) // The pod is there again.
	}
	return b
}

// spec is a fault with the parameters that it is tried with; those of its example when none are given here.
func spec(name string) plan.Fault {
	params, given := map[string]plan.Params{
		"clock-step":     {"offset": -plan.Duration(time.Hour)},
		"csi-point":      {"csi": plan.Params{"rpc": "NodeUnstageVolume", "act": "hold"}},
		"mesh":           {"manifest": stress()},
		"network-delay":  {"delay": plan.Duration(200 * time.Millisecond)},
		"node-isolate":   {"peer": 2},
		"node-partition": nil,
		"pod-partition":  {"peer": 2},
	}[name]
	if i := slices.IndexFunc(definitions(), func(d fault.Definition) bool { return d.Name == name }); !given && i >= 0 {
		params = definitions()[i].Example
	}
	return plan.Fault{Name: name, Ordinal: 1, Hold: plan.Duration(20 * time.Second), Params: params}
}
