package faulttest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"text/tabwriter"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/kind"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/fixtures"
	"github.com/seatrial/seatrial/fixtures/localpv"
	"github.com/seatrial/seatrial/fixtures/shareddisk"
	"github.com/seatrial/seatrial/fixtures/shareddisk/disk"
)

const (
	// leastLife is what every fault has to be healed in, however short it was armed for.
	leastLife = 15 * time.Second
	// briefLife is the life of faults whose effect is not waited for, longLife that of those whose effect is shown
	// first, which takes 30 s of those that end a lease; quickLife that of the others.
	briefLife, quickLife, longLife = 20 * time.Second, 30 * time.Second, 50 * time.Second
	// darkLife is that of node-dark, which is shown for 45 s, and then held to its end.
	darkLife = 80 * time.Second
	// undoSlack is what the undo itself may take, and one look at what is left: it begins when the time is over.
	undoSlack = 10 * time.Second
	// runPrefix begins the id of every run of the matrix.
	runPrefix = "rkill"
	// diskClass is the class of the volume that is a file system of its own.
	diskClass = "seatrial-faulttest-disk"
)

var onlyFaults = flag.String("faults", "", "kill the harness in these faults only, with commas between them; or in all")

// matrix kills harnesses at some steps of some faults on one cluster, several concurrently.
type matrix struct {
	cluster  clusters.Cluster
	kube     kubernetes.Interface
	nodes    []clusters.Node
	log      *slog.Logger
	dir      string
	watchdog undo.HostWatchdog // Beside the cluster.
	// kubeconfig is how harnesses reach an existing cluster; empty is through kind.
	kubeconfig string

	before  map[string][]history.Thing // What there was on each node.
	fresh   bool                       // Managers and schedulers end a few times in all.
	leftOut []string                   // Which faults nobody was killed in, and why.

	mu    sync.Mutex
	cells map[string]map[faulttest.KillPoint]cell
}

// cell is the outcome of one kill.
type cell struct {
	healed time.Duration // After the kill: it was seen that nothing was left.
	late   time.Duration // How long after it should have been so, at least; 0 when it was in time.
	last   string        // What was left when it was looked before, and when.
	err    error
}

// chosen returns the faults of the matrix unless others are asked for: some of each kind, and of each way to heal. They
// take half an hour on a cluster of four workers. TestKilledOnce has all of them in make long.
func chosen() []string {
	return []string{
		"claim-delete", "cordon", "etcd-kill", "kube-proxy-kill", "kubelet-freeze", "kubelet-kill", "kubelet-stop",
		"node-crash", "node-partition", "node-pause", "node-reboot", "out-of-service", "packet-loss",
		"pod-force-delete", "power-loss", "runtime-stop", "volume-read-only",
	}
}

// chosenOnce returns the faults of TestKilledOnce in make e2e: one for each place that stores an undo.
func chosenOnce() []string {
	return []string{
		"apiserver-stop",    // A static pod's manifest.
		"cordon",            // An API object.
		"csi-point",         // A line of the CSI driver.
		"kubelet-freeze",    // A process.
		"network-bandwidth", // A queueing discipline.
		"node-crash",        // The engine, which starts the node.
		"node-partition",    // The kernel's own time limit.
		"node-pause",        // The engine, which no node can ask.
		"power-loss",        // A block device.
	}
}

// TestKillMatrix kills the harness with SIGKILL before and after each stage of a fault is journalled, and lets the
// cluster heal itself.
func TestKillMatrix(t *testing.T) {
	table := os.Getenv("SEATRIAL_KILL_MATRIX") // Where the table is to be written.
	if table == "" {
		t.Skip("NOT RUN: the harness killed at every step of a fault, on a real kind cluster: make kill-matrix")
	}
	asked := *onlyFaults
	if asked == "" {
		*onlyFaults = strings.Join(chosen(), ",")
	}
	m := newMatrix(t, "seatrial-dev-killmatrix", 4)
	m.run(t, func(fault.Definition) []faulttest.KillPoint { return faulttest.KillPoints() })
	if err := os.WriteFile(table, []byte(m.report(t, faulttest.KillPoints())), 0o644); err != nil {
		t.Error(err)
	}
	if asked == "" && len(m.cells) != len(chosen()) {
		t.Errorf("%d faults, want %d", len(m.cells), len(chosen()))
	}
}

// TestKilledOnce kills it at one step of a fault: after the act and before its record; for the fault that may take 30 s
// to end, after the undo is armed. Meanwhile the journal is lost, and an experiment is left to Chaos Mesh; then two
// processes heal at once. SEATRIAL_LONG=1 takes every fault.
func TestKilledOnce(t *testing.T) {
	every := os.Getenv("SEATRIAL_LONG") == "1"
	if os.Getenv("SEATRIAL_E2E") != "1" && !every {
		t.Skip("NOT RUN: the harness killed once in a fault, on a real kind cluster; it needs an engine: make e2e")
	}
	if *onlyFaults == "" && !every {
		*onlyFaults = strings.Join(chosenOnce(), ",")
	}
	injected, armed := faulttest.KillPoint{Stage: history.StageInjected}, faulttest.KillPoint{
		Stage: history.StageArmed, After: true,
	}
	m := newMatrix(t, "seatrial-dev-killonce", 3)
	m.fresh = true
	at := func(def fault.Definition) []faulttest.KillPoint {
		if def.Name == "apiserver-stop" {
			return []faulttest.KillPoint{armed}
		}
		return []faulttest.KillPoint{injected}
	}
	m.run(t, at, func(on clusters.Node) { m.withoutJournal(t, on) }, func(on clusters.Node) { m.experiments(t, on) })
	m.healedTwice(t, m.nodes[1]) // Alone: a heal asks every node, and others are switched off in the lanes.
	m.report(t, []faulttest.KillPoint{injected, armed})
}

// run kills the harness at points of all faults that are asked for. Besides is what else is to be done on a worker
// while others are killed.
func (m *matrix) run(
	t *testing.T, points func(fault.Definition) []faulttest.KillPoint, besides ...func(on clusters.Node),
) {
	t.Helper()
	ctx := t.Context()
	anywhere, own, alone := m.sorted()
	work := make(chan func(on clusters.Node))
	var lanes sync.WaitGroup
	for i, on := range m.nodes[1:] {
		lanes.Go(func() {
			for _, def := range own[i] {
				m.row(ctx, def, on, points(def))
			}
			for do := range work {
				do(on)
			}
		})
	}
	for _, do := range besides {
		work <- do
	}
	for _, def := range anywhere {
		work <- func(on clusters.Node) { m.row(ctx, def, on, points(def)) }
	}
	close(work)
	lanes.Wait()
	for _, group := range alone {
		for _, lane := range group {
			lanes.Go(func() {
				for _, def := range lane {
					m.row(ctx, def, m.nodes[1], points(def))
				}
			})
		}
		lanes.Wait()
	}
	if left, err := m.leftAnywhere(ctx); err != nil || len(left) > 0 {
		t.Errorf("left when all was over: %s, %v", strings.Join(left, "; "), err)
	}
}

// newMatrix creates a cluster with a victim on every worker.
func newMatrix(t *testing.T, name string, workers int) *matrix {
	t.Helper()
	m := &matrix{
		log: slog.New(slog.NewTextHandler(t.Output(), nil)), dir: t.TempDir(),
		before: map[string][]history.Thing{}, cells: map[string]map[faulttest.KillPoint]cell{},
	}
	m.cluster, _ = kindtest.Cluster(t, m.log, name, workers)
	m.kube = realKube(t, m.cluster)
	m.prepare(t)
	return m
}

// sorted sorts the faults by where they are: on any worker, on the one of a number, or where there is no other of
// their kind. Of the last there are groups, one after the other, and in each lanes that can be beside each other.
func (m *matrix) sorted() (
	anywhere []fault.Definition, own map[int][]fault.Definition, alone [][][]fault.Definition,
) {
	own = map[int][]fault.Definition{}
	var peers, manager, scheduler, server []fault.Definition
	for _, def := range definitions() {
		worker, ofOne := ownWorker(def)
		if !asked(def.Name) {
			continue
		}
		if why := m.leaves(def); why != "" {
			m.leftOut = append(m.leftOut, def.Name+": "+why)
			continue
		}
		switch part := componentOf(def); {
		case ofOne:
			own[worker] = append(own[worker], def)
		case between(def):
			peers = append(peers, def)
		case part == "":
			anywhere = append(anywhere, def)
		case part == "scheduler":
			scheduler = append(scheduler, def)
		case part == "manager" || part == "force":
			manager = append(manager, def)
		default:
			server = append(server, def)
		}
	}
	return anywhere, own, [][][]fault.Definition{{peers, manager, scheduler}, {server}}
}

// asked reports whether harnesses are killed in this fault.
func asked(name string) bool {
	return *onlyFaults == "" || *onlyFaults == "all" || slices.Contains(strings.Split(*onlyFaults, ","), name)
}

// leaves returns why a fault is skipped, "" if it is not.
func (m *matrix) leaves(def fault.Definition) string {
	switch cannot := kind.Capabilities().Lacks(def.Needs); {
	case len(cannot) > 0:
		return fmt.Sprintf("no cluster here can do it: %q", cannot)
	case def.Lasts:
		return "what it does stays, for the checks to find"
	}
	return ""
}

// The workers whose pods have a volume, by their numbers: a claim that can be deleted, and a file system of its own.
// The first has the driver of the shared disks, too.
const workerOfClaim, workerOfDisk = 0, 1

// ownWorker returns the worker that a fault needs, if it needs one.
func ownWorker(def fault.Definition) (int, bool) {
	switch {
	case def.Name == "claim-delete" || def.Storage != "":
		return workerOfClaim, true
	case def.Name == "power-loss" || slices.Contains(def.Takes, plan.PartVolume):
		return workerOfDisk, true
	}
	return 0, false
}

// between reports whether a fault acts between nodes, so that the others must be left alone.
func between(def fault.Definition) bool {
	return def.Name == "node-dark" || faulttest.Pairs(def) || slices.ContainsFunc(def.Params, func(p string) bool {
		return p == "percent" || p == "delay" || p == "kbits"
	})
}

// componentOf returns the control-plane program that a fault concerns, "" for any other fault.
func componentOf(def fault.Definition) string {
	if def.Name == "api-reject" {
		return "apiserver"
	}
	part, _, _ := strings.Cut(def.Name, "-")
	if slices.Contains([]string{"apiserver", "etcd", "force", "manager", "scheduler"}, part) {
		return part
	}
	return ""
}

// lifeOf is the life of a fault for a harness that is killed at a point.
func lifeOf(def fault.Definition, at faulttest.KillPoint) time.Duration {
	quick := []string{
		"api-reject", "cordon", "drain", "node-delete", "node-isolate", "out-of-service", "packet-loss",
		"pod-partition", "pod-quota", "runtime-stop",
	}
	switch {
	case at.Stage == history.StageInjected && (slices.Contains([]string{"api-reject", "apiserver-stop"}, def.Name) ||
		between(def)):
		return quickLife // It takes 30 s to end, or its lines are measured first: the undo would come before the act.
	case at.Stage == history.StageIntent || at.Stage == history.StageArmed || at.Stage == history.StageInjected:
		return briefLife
	case slices.Contains(quick, def.Name):
		return quickLife
	case def.Name == "node-dark":
		return darkLife
	}
	return longLife
}

// prepare installs the agent on every node and creates a victim on every worker.
func (m *matrix) prepare(t *testing.T) {
	ctx := t.Context()
	var err error
	if m.watchdog, err = realWatchdog(ctx, m.log, filepath.Join(m.dir, "outside"), m.cluster.Name()); err != nil {
		t.Fatal(err)
	}
	m.nodes = withAgents(t, m.log, m.cluster)
	disks := localpv.Provisioner{
		Env: fixtures.Env{
			Cluster: part{m.cluster, m.nodes[1+workerOfDisk:][:1]}, Kube: m.kube, Recorder: nobody{},
			Clock: bootclock.Now, Log: m.log,
		},
		Spec: localpv.Spec{Class: diskClass, Sizes: [][]int{{64}}, FileSystem: "ext4",
			Binding: storagev1.VolumeBindingWaitForFirstConsumer},
	}
	if err := errors.Join(disks.Make(ctx), m.fillDisk(ctx), m.installDriver(t)); err != nil {
		t.Fatal(err)
	}
	if err := m.lookBefore(ctx); err != nil {
		t.Fatal(err)
	}
}

// lookBefore notes what there is on every node, and creates a victim on every worker.
func (m *matrix) lookBefore(ctx context.Context) (err error) {
	for _, n := range m.nodes {
		if m.before[n.Name()], err = thingsOn(ctx, n); err != nil {
			return err
		}
		if n.Role() == clusters.RoleControlPlane {
			continue
		}
		if err := m.target(n).MakeAnchor(ctx); err != nil {
			return err
		}
	}
	return nil
}

// installDriver installs the driver of the shared disks.
func (m *matrix) installDriver(t *testing.T) error {
	programs, err := shareddisk.Ensure(t.Context(), fixtures.Builds{Progress: t.Output(), Log: m.log})
	if err != nil {
		return err
	}
	driver := &shareddisk.Fixture{
		Env: fixtures.Env{
			Cluster: part{m.cluster, m.nodes[:2+workerOfClaim]}, Kube: m.kube, RunID: "disks", Log: m.log,
		},
		Programs: programs, Fencing: disk.FencingSingle,
	}
	return driver.Install(t.Context())
}

// fillDisk writes a file to the volume with a file system of its own, so that its loss can be shown.
func (m *matrix) fillDisk(ctx context.Context) error {
	on := m.nodes[1+workerOfDisk]
	pv, err := m.kube.CoreV1().PersistentVolumes().Get(ctx, fmt.Sprintf("%s-%s-0", diskClass, on.Name()),
		metav1.GetOptions{})
	if err != nil {
		return err
	}
	for _, argv := range [][]string{
		{"cp", "/etc/hostname", pv.Spec.Local.Path}, {"sync", "--file-system", pv.Spec.Local.Path},
	} {
		if _, err := clusters.Run(ctx, on, argv...); err != nil {
			return err
		}
	}
	return nil
}

// part is some nodes of a cluster.
type part struct {
	clusters.Cluster
	nodes []clusters.Node
}

// Nodes returns the nodes.
func (p part) Nodes(context.Context) ([]clusters.Node, error) {
	return p.nodes, nil
}

// nobody is a recorder that discards events.
type nobody struct{}

// Record discards the event.
func (nobody) Record(history.Event) {}

func (m *matrix) target(on clusters.Node) faulttest.Target {
	t := faulttest.Target{
		Cluster: m.cluster, Kube: m.kube, Clock: bootclock.Now, Log: m.log, On: on.Name(), Watchdog: m.watchdog,
	}
	if m.kubeconfig != "" {
		return t
	}
	switch on.Name() {
	case m.nodes[1+workerOfClaim].Name():
		t.Claims = true
	case m.nodes[1+workerOfDisk].Name():
		t.Claims, t.Class = true, diskClass
	}
	return t
}

// row kills the harness at each point of one fault, one after the other, on one worker.
func (m *matrix) row(ctx context.Context, def fault.Definition, on clusters.Node, points []faulttest.KillPoint) {
	for i, at := range points {
		run := fmt.Sprintf("%s%d-%s", runPrefix, i, def.Name)
		c, ok := m.kill(ctx, def, on, at, run)
		if !ok {
			continue
		}
		m.log.Info("killed", "fault", def.Name, "at", at, "node", on.Name(), "healed", c.healed, "late", c.late,
			"before", c.last, "error", c.err)
		m.mu.Lock()
		if m.cells[def.Name] == nil {
			m.cells[def.Name] = map[faulttest.KillPoint]cell{}
		}
		m.cells[def.Name][at] = c
		m.mu.Unlock()
	}
}

// fit makes the cluster fit for a fault. A kubelet that has seen a program of the control plane end before, or a
// container, holds it back: 10 s at the second time, and twice as long each time after. One that is started anew has
// forgotten it. For the API server and etcd that is always done, since all wait for them.
func (m *matrix) fit(ctx context.Context, def fault.Definition, on clusters.Node, run string) (fault.Env, error) {
	part := componentOf(def)
	if part == "apiserver" || part == "etcd" || part != "" && !m.fresh {
		if err := rested(ctx, m.target(on), m.nodes); err != nil {
			return fault.Env{}, err
		}
	}
	if slices.Contains([]string{"container-kill", "kube-proxy-kill"}, def.Name) {
		if _, err := clusters.Run(ctx, on, "systemctl", "restart", "kubelet"); err != nil {
			return fault.Env{}, err
		}
	}
	env, err := m.target(on).Fit(ctx, run)
	if err != nil || !faulttest.Pairs(def) {
		return env, err
	}
	other, err := m.target(m.nodes[2]).Fit(ctx, run)
	env.Peer, env.PeerNode = other.Pod, other.Node
	return env, err
}

// assign returns the assignment of a harness.
func (m *matrix) assign(def string, env fault.Env, at faulttest.KillPoint, run string, life time.Duration) assignment {
	e := assignment{
		Engine: os.Getenv("SEATRIAL_ENGINE"), Kubeconfig: filepath.Join(m.dir, run+".kubeconfig"),
		Cluster: m.cluster.Name(), Fault: def, Node: env.Node.Name(), Pod: env.Pod, Namespace: env.Namespace, Run: run,
		At: at.String(), Journal: filepath.Join(m.dir, run+".journal"), Life: life, Hold: time.Second,
		Watchdog: m.watchdog, Peer: env.Peer,
	}
	if env.PeerNode != nil {
		e.PeerNode = env.PeerNode.Name()
	}
	if e.Existing = m.kubeconfig != ""; e.Existing {
		e.Kubeconfig, e.NoPods = m.kubeconfig, !at.After
	}
	return e
}

// kill kills the harness once and waits until nothing is left. It returns false for a point that the fault never
// reaches.
func (m *matrix) kill(ctx context.Context, def fault.Definition, on clusters.Node, at faulttest.KillPoint, run string) (
	cell, bool,
) {
	env, err := m.fit(ctx, def, on, run)
	if err != nil {
		return cell{err: fmt.Errorf("before the kill: %w", err)}, true
	}
	e := m.assign(def.Name, env, at, run, lifeOf(def, at))
	f, err := def.New(e.spec(), 1, env)
	if err != nil {
		return cell{err: err}, true
	}
	if _, arms := f.(fault.Undoer); !arms && at.Stage == history.StageArmed {
		return cell{}, false
	}
	limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	killed, err := e.send(limited)
	if err != nil {
		return cell{err: err}, true
	}
	armed, err := e.armed()
	due := killed.Add(leastLife)
	if at.Stage != history.StageIntent {
		if armed == 0 {
			armed = killed
		}
		due = max(due, armed.Add(def.Life(e.spec())))
	}
	if componentOf(def) != "" {
		on = m.nodes[0]
	}
	c := m.wait(ctx, on, run, killed, due)
	c.err = errors.Join(err, c.err)
	if c.err == nil {
		c.err = m.well(ctx, f)
	}
	return c, true
}

// wait waits until nothing is left.
func (m *matrix) wait(ctx context.Context, on clusters.Node, run string, killed, due history.Time) cell {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	c, dirty := cell{}, history.Time(0)
	for {
		begin := bootclock.Now()
		left, err := m.left(ctx, on, run)
		if err == nil && len(left) == 0 {
			c.healed = bootclock.Now().Sub(killed)
			c.late = max(0, dirty.Sub(due))
			if c.late > undoSlack {
				c.err = fmt.Errorf("healed %s too late", c.late)
			}
			return c
		}
		if begin > due.Add(time.Minute) {
			c.err = errors.Join(fmt.Errorf("left a minute after the deadline: %s", strings.Join(left, "; ")), err)
			return c
		}
		if err == nil { // Looks take their time, or fail: what is told is what was certainly so.
			dirty = begin
		}
		c.last = fmt.Sprintf("%s, %v, %.1f s after the kill", strings.Join(left, "; "), err,
			begin.Sub(killed).Seconds())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return cell{err: ctx.Err()}
		}
	}
}

// well checks from the victim's side that the effect is gone, without calling any undo.
func (m *matrix) well(ctx context.Context, f fault.Fault) error {
	limited, cancel := context.WithTimeout(ctx, fault.DefaultLimits().ConfirmHealed)
	defer cancel()
	facts, err := f.ConfirmHealed(limited)
	if err == nil && len(facts) == 0 {
		err = fault.ErrNothingShown
	}
	if err != nil {
		return fmt.Errorf("confirm healed: %w", err)
	}
	return nil
}

// report returns and prints the table, and fails if a cell is wrong.
func (m *matrix) report(t *testing.T, points []faulttest.KillPoint) string {
	t.Helper()
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprint(table, "healed without the harness, s after the kill\t")
	for _, p := range points {
		fmt.Fprintf(table, "%s\t", p)
	}
	kills, worst := 0, time.Duration(0)
	for _, def := range definitions() {
		row := m.cells[def.Name]
		if row == nil {
			continue
		}
		fmt.Fprintf(table, "\n%s\t", def.Name)
		for _, p := range points {
			c, ok := row[p]
			switch {
			case !ok:
				fmt.Fprint(table, "-\t")
				continue
			case c.err != nil:
				fmt.Fprint(table, "FAIL\t")
				t.Errorf("%s %s: %v", def.Name, p, c.err)
			default:
				fmt.Fprintf(table, "%.1f\t", c.healed.Seconds())
			}
			kills++
			worst = max(worst, c.late)
		}
	}
	if err := table.Flush(); err != nil {
		t.Error(err)
	}
	fmt.Fprintln(&text)
	for _, why := range m.leftOut {
		fmt.Fprintf(&text, "left out: %s\n", why)
	}
	fmt.Fprintf(&text, "%d kills in %d faults; left: nothing, unless it says FAIL; at most %.1f s after "+
		"max(deadline, %s)\n", kills, len(m.cells), worst.Seconds(), leastLife)
	t.Log("\n" + text.String())
	return text.String()
}
