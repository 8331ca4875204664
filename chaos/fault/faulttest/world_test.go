package faulttest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/probe"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
	"github.com/seatrial/seatrial/e2e/history"
)

// world is a small model of a cluster behind the fake's nodes: kubelets that renew leases, nftables that cut, systemd
// that restarts. It knows what the commands mean, so that a fault which says the wrong thing has no effect.
type world struct {
	cluster *fake.Cluster
	begin   time.Time
	inert   bool // Acts are accepted and do nothing.
	quiet   bool // Nobody calls the disk's driver.

	api *fake.Node // Takes what is written to the API server, so that it is in the transcript.

	mesh  chaosMesh
	mu    sync.Mutex
	nodes map[string]*machine
	objects
	kennel *kennel
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
	tables   map[string]map[string]bool // By table: the families that it cuts.
	timers   map[string]*time.Timer
	points   map[string]diskPoint // By service and id.
	services
	container
	wholeNode
	disks
}

const workloadUID = "0a-1b"

// newWorld returns a world that is five seconds old, so that what is made now is later than what was there.
func newWorld() *world {
	defer time.Sleep(5 * time.Second)
	w := &world{cluster: fake.NewCluster("c", 2), begin: time.Now(), nodes: map[string]*machine{}}
	for _, suffix := range []string{"control-plane", "worker", "worker2"} {
		n := w.cluster.Node(suffix)
		m := &machine{node: n, boots: n.Boots(), booted: w.begin, pid: 214, started: w.begin, renewed: w.begin,
			tables: map[string]map[string]bool{}, timers: map[string]*time.Timer{}, points: map[string]diskPoint{}}
		w.nodes[n.Name()] = m
		w.makeServices(m)
		do := func(ctx context.Context, cmd clusters.Command, stdin string) (clusters.Result, error) {
			return w.exec(ctx, m, cmd, stdin)
		}
		n.On([]string{"..."}, fake.Reply{Do: do})
	}
	w.makeObjects()
	w.makeKennel()
	return w
}

// time returns t on the boot clock, which read 100 s when the world began.
func (w *world) time(t time.Time) history.Time { return history.Time(t.Sub(w.begin) + 100*time.Second) }

// stop ends what a test has left ticking.
func (w *world) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.nodes {
		for _, t := range m.timers {
			t.Stop()
		}
	}
	for _, t := range w.kennel.dogs {
		t.Stop()
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
		m.tables, m.timers, m.restarts = map[string]map[string]bool{}, map[string]*time.Timer{}, 0
		m.stopped = false
		m.wholeNode.booted()
		m.remount()
	}
	if m.still() {
		return
	}
	if !w.cut(m, "ipv4") || !w.cut(m, "ipv6") {
		if tick := w.begin.Add(time.Since(w.begin).Truncate(10 * time.Second)); tick.After(m.renewed) {
			m.renewed = tick
		}
	}
}

func (w *world) cut(m *machine, family string) bool {
	for families := range maps.Values(m.tables) {
		if families[family] && !w.inert {
			return true
		}
	}
	return false
}

func (w *world) exec(ctx context.Context, m *machine, cmd clusters.Command, stdin string) (clusters.Result, error) {
	w.mu.Lock()
	w.catchUp(m)
	if slices.Contains(cmd.Argv, "flow") {
		w.mu.Unlock()
		return clusters.Result{}, w.flow(ctx, m, cmd)
	}
	out, exit := w.answer(m, cmd.Argv, stdin)
	w.mu.Unlock()
	if strings.HasPrefix(strings.Join(cmd.Argv, " "), mark.AgentPath+" probe tcp") && strings.Contains(out, "false") {
		time.Sleep(1500 * time.Millisecond) // In the bubble's time: a probe that is dropped takes its timeout.
	}
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
	case strings.HasPrefix(line, "systemctl list-units"):
		out := ""
		for _, name := range slices.Sorted(maps.Keys(m.timers)) {
			out += name + " loaded active waiting dead-man\n"
		}
		return out, 0
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
	case argv[0] == "systemd-run":
		return w.arm(m, argv)
	case argv[0] == "nft":
		return w.nft(m, line, stdin)
	case line == "find /usr/local/bin -maxdepth 1 -name seatrial-disk":
		return mark.DiskPath + "\n", 0
	case strings.HasPrefix(line, "find /var/lib "):
		return mark.DiskStates + "node\n" + mark.DiskStates + "controller\n", 0
	case strings.HasPrefix(line, mark.DiskPath+" points"):
		return w.points(m, argv[2:])
	case strings.HasPrefix(line, "ip -json -4"):
		return `[{"dst":"default","gateway":"172.18.0.1"},{"dst":"10.244.0.0/24","gateway":"172.18.0.2"}]`, 0
	case strings.HasPrefix(line, "ip -json -6"):
		return "", 0
	case line == "cat /proc/1/mountinfo":
		return "40 22 7:3 / /mnt/seatrial/a rw - ext4 /dev/loop3 rw\n" +
			"41 22 7:4 / /mnt/other rw - ext4 /dev/loop4 rw\n", 0
	case strings.HasPrefix(line, mark.AgentPath+" probe tcp"):
		return w.probeTCP(m, argv[5:]), 0
	case strings.HasPrefix(line, mark.AgentPath+" probe process"):
		return w.probeProcess(m, argv[3:]), 0
	}
	return "", 127
}

func (w *world) arm(m *machine, argv []string) (string, int) {
	unit, life := "", time.Duration(0)
	for _, a := range argv {
		if v, ok := strings.CutPrefix(a, "--unit="); ok {
			unit = v + ".timer"
		}
		if v, ok := strings.CutPrefix(a, "--on-active="); ok {
			life, _ = time.ParseDuration(v)
		}
	}
	owner, ok := mark.FromTimer(unit)
	if _, there := m.timers[unit]; !ok || there || life <= 0 {
		return "", 1
	}
	m.timers[unit] = time.AfterFunc(life, func() {
		defer w.healObjects(m, owner)
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(m.tables, owner.Table())
		delete(m.timers, unit)
		w.release(m, owner)
		for key := range m.points {
			if strings.HasSuffix(key, "/"+owner.Name()) {
				delete(m.points, key)
			}
		}
	})
	return "", 0
}

func (w *world) nft(m *machine, line, stdin string) (string, int) {
	if line == "nft list tables" {
		out := "table inet kube-proxy\n"
		for _, name := range slices.Sorted(maps.Keys(m.tables)) {
			out += "table inet " + name + "\n"
		}
		return out, 0
	}
	var name string
	if _, err := fmt.Sscanf(stdin, "add table inet %s\n", &name); line != "nft -f -" || err != nil {
		return "", 1
	}
	delete(m.tables, name)
	if !strings.Contains(stdin, "table inet "+name+" {") {
		return "", 0
	}
	_, sets, _ := strings.Cut(stdin, "set cut4")
	v4, v6, _ := strings.Cut(sets, "set cut6")
	m.tables[name] = map[string]bool{"ipv4": strings.Contains(v4, "elements"), "ipv6": strings.Contains(v6, "elements")}
	return "", 0
}

// severed reports whether packets between m and the owner of an address are cut: by m or by that owner.
func (w *world) severed(m *machine, to netip.AddrPort) bool {
	family := "ipv6"
	if to.Addr().Is4() {
		family = "ipv4"
	}
	for _, other := range w.nodes {
		all, _ := other.node.Addresses(context.Background())
		if slices.Contains(all, to.Addr()) {
			return w.cut(m, family) || w.cut(other, family)
		}
	}
	return true
}

func (w *world) probeTCP(m *machine, addresses []string) string {
	var answers []probe.Connect
	now := w.time(time.Now())
	for _, a := range addresses {
		connected := !w.severed(m, netip.MustParseAddrPort(a))
		answers = append(answers, probe.Connect{Address: a, Connected: connected, Begin: now, End: now})
	}
	return encode(answers)
}

func (w *world) probeProcess(m *machine, argv []string) string {
	found := probe.Processes{At: w.time(time.Now()), PID1Start: w.time(m.booted), Processes: []probe.Process{}}
	pid, began := m.mysqld()
	all := []probe.Process{
		{PID: pid, Start: w.time(began), Name: "mysqld", PodUID: workloadUID},
	}
	all = append(append(all, w.programs(m)...), w.stressor()...)
	if !m.shimless {
		all = append(all, probe.Process{PID: 800 + m.boots, Start: w.time(m.booted), Name: "containerd-shim"})
	}
	for _, p := range all {
		named := p.Name == argv[len(argv)-1]
		if named || slices.Contains(argv, strconv.Itoa(p.PID)) || p.PodUID != "" && slices.Contains(argv, p.PodUID) {
			found.Processes = append(found.Processes, p)
		}
	}
	return encode(found)
}

// flow is the agent's watch of an established flow.
func (w *world) flow(ctx context.Context, m *machine, cmd clusters.Command) error {
	to := netip.MustParseAddrPort(cmd.Argv[len(cmd.Argv)-1])
	out := json.NewEncoder(cmd.Stdout)
	heard := time.Now()
	say := func(state probe.FlowState) error {
		return out.Encode(probe.FlowReport{Address: to.String(), State: state, At: w.time(time.Now()),
			LastAck: w.time(heard), Pending: 9})
	}
	if err := say(probe.FlowOpen); err != nil {
		return err
	}
	for ticks := time.NewTicker(200 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			ticks.Stop()
			return ctx.Err()
		case <-ticks.C:
		}
		w.mu.Lock()
		w.catchUp(m)
		severed := w.severed(m, to)
		w.mu.Unlock()
		if !severed {
			heard = time.Now()
		}
		if time.Since(heard) >= 3*time.Second {
			ticks.Stop()
			return say(probe.FlowDead)
		}
	}
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

// bench returns the world as a bench, with the worker as victim.
func (w *world) bench(t *testing.T, name string) faulttest.Bench {
	t.Helper()
	t.Cleanup(w.stop)
	var node clusters.Node = w.cluster.Node("worker")
	if w.inert {
		node = idle{w.cluster.Node("worker")}
	}
	b := faulttest.Bench{
		Env: fault.Env{
			Cluster: w.cluster, Kube: server{w.kube(), w}, Node: node, Pod: "mysql-1", Namespace: "trial", RunID: "r1",
			Outside: w.kennel,
			Clock:   func() history.Time { return w.time(time.Now()) },
		},
		Spec: spec(name),
	}
	b.Before = func(ctx context.Context) (fault.Env, error) {
		w.renewClaim()
		return b.Env, await.For(ctx, 10*time.Second) // The pod is there again.
	}
	return b
}

func spec(name string) plan.Fault {
	f := plan.Fault{Name: name, Ordinal: 1, Hold: plan.Duration(20 * time.Second)}
	if name == "mesh" {
		f.Manifest = stress()
	}
	if name == "csi-point" {
		f.CSI = &plan.CSI{RPC: "NodeUnstageVolume", Act: "hold"}
	}
	return f
}
