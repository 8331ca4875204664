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

	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/deadman/outside"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/faulttest"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/kind"
	"github.com/seatrial/seatrial/e2e/history"
	"github.com/seatrial/seatrial/e2e/observe/agentbin"
	"github.com/seatrial/seatrial/e2e/observe/install"
)

const (
	// leastLife is what every fault has to be healed in, however short it was armed for.
	leastLife = 15 * time.Second
	// briefLife is the life of faults whose effect is not waited for, longLife that of those whose effect is shown
	// first, which takes 30 s of the slowest.
	briefLife, longLife = 12 * time.Second, 50 * time.Second
	// undoSlack is what the undo itself may take, and one look at what is left: it begins when the time is over.
	undoSlack = 10 * time.Second
	// runPrefix begins the id of every run of the matrix.
	runPrefix = "rkill"
)

var onlyFaults = flag.String("faults", "", "kill the harness in these faults only, with commas between them")

// matrix is the harness killed at some steps of some faults on one cluster, several beside each other.
type matrix struct {
	cluster clusters.Cluster
	kube    kubernetes.Interface
	nodes   []clusters.Node
	log     *slog.Logger
	dir     string
	dogs    outside.Dogs // Beside the cluster.

	before map[string][]history.Thing // What there was on each node.

	mu    sync.Mutex
	cells map[string]map[faulttest.KillPoint]cell
}

// cell is what came of one kill.
type cell struct {
	healed time.Duration // After the kill: it was seen that nothing was left.
	late   time.Duration // How long after it should have been so, at least; 0 when it was in time.
	last   string        // What was left when it was looked before, and when.
	err    error
}

// TestKillMatrix kills the harness with SIGKILL before and after every stage of every fault is in the journal, and
// lets the cluster heal itself. It takes up to an hour, on a cluster of three workers.
func TestKillMatrix(t *testing.T) {
	table := os.Getenv("SEATRIAL_KILL_MATRIX") // Where the table is to be written.
	if table == "" {
		t.Skip("NOT RUN: the harness killed at every step of every fault, on a real kind cluster: make kill-matrix")
	}
	m := runMatrix(t, "seatrial-dev-killmatrix", faulttest.KillPoints())
	if err := os.WriteFile(table, []byte(m.report(t, faulttest.KillPoints())), 0o644); err != nil {
		t.Error(err)
	}
	if *onlyFaults == "" && len(m.cells) < 12 {
		t.Errorf("%d faults, want at least 12", len(m.cells))
	}
}

// TestKilledOnceInEveryFault does it at one step of every fault: when it was injected, and nobody was told. Of those of
// the control plane, of which only one can be at a time, it takes one of each kind and of each program; the matrix has
// the others.
func TestKilledOnceInEveryFault(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: the harness killed in every fault, on a real kind cluster; it needs an engine: make e2e")
	}
	points := []faulttest.KillPoint{{Stage: history.StageInjected}}
	few := []string{
		"apiserver-freeze", "etcd-kill", "manager-kill", "network-bandwidth", "node-isolate", "packet-loss",
		"pod-partition", "scheduler-stop",
	}
	runMatrix(t, "seatrial-dev-killonce", points, few...).report(t, points)
}

// runMatrix takes all faults; of those that concern the whole cluster only a few, when they are named.
func runMatrix(t *testing.T, name string, points []faulttest.KillPoint, few ...string) *matrix {
	t.Helper()
	m := &matrix{
		log: slog.New(slog.NewTextHandler(t.Output(), nil)), dir: t.TempDir(),
		before: map[string][]history.Thing{}, cells: map[string]map[faulttest.KillPoint]cell{},
	}
	m.cluster = realClusterOf(t, m.log, name, 3)
	m.kube = realKube(t, m.cluster)
	m.prepare(t)
	var beside, alone []fault.Definition
	for _, def := range definitions() {
		if *onlyFaults != "" && !slices.Contains(strings.Split(*onlyFaults, ","), def.Name) {
			continue
		}
		switch ofCluster, reason := whereKilled(def); {
		case reason != "":
			t.Logf("left out: %s: %s", def.Name, reason)
		case ofCluster && len(few) > 0 && !slices.Contains(few, def.Name):
			t.Logf("left to the whole matrix: %s", def.Name)
		case ofCluster:
			alone = append(alone, def)
		default:
			beside = append(beside, def)
		}
	}
	workers := m.nodes[1:]
	work := make(chan func(on clusters.Node))
	var lanes sync.WaitGroup
	for _, on := range workers {
		lanes.Go(func() {
			for do := range work {
				do(on)
			}
		})
	}
	for _, def := range beside {
		work <- func(on clusters.Node) { m.row(t.Context(), def, on, points) }
	}
	close(work)
	lanes.Wait()
	for _, def := range alone {
		m.row(t.Context(), def, workers[0], points)
	}
	if left, err := m.leftAnywhere(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("left when all was over: %s, %v", strings.Join(left, "; "), err)
	}
	return m
}

// whereKilled says whether a fault concerns the whole cluster, and so none can be beside it; and of a fault that a
// cluster of this kind has no victim for, why.
func whereKilled(def fault.Definition) (ofCluster bool, reason string) {
	if def.CSI {
		return false, "the victim's pod has no volume of a CSI driver"
	}
	switch def.Name {
	case "claim-delete", "power-loss":
		return false, "the victim's pod has no claim"
	case "mesh":
		return false, "there is no Chaos Mesh on the cluster"
	}
	for need, why := range kind.Cannot(def.Needs) {
		return false, fmt.Sprintf("it needs %q: %s", need, why)
	}
	component, _, _ := strings.Cut(def.Name, "-")
	programs := []string{"apiserver", "etcd", "force", "manager", "scheduler"}
	return between(def) || slices.Contains(programs, component), ""
}

// between reports that a fault is one between nodes: the others have to be left alone.
func between(def fault.Definition) bool {
	return def.Network.Peer || def.Network.Percent || def.Network.Delay || def.Network.Kbits
}

// prepare puts the agent on every node, and a victim on every worker.
func (m *matrix) prepare(t *testing.T) {
	ctx := t.Context()
	var err error
	if m.nodes, err = m.cluster.Nodes(ctx); err != nil {
		t.Fatal(err)
	}
	if m.dogs, err = realDogs(ctx, m.log, filepath.Join(m.dir, "outside"), m.cluster.Name()); err != nil {
		t.Fatal(err)
	}
	agent, err := agentbin.Find(ctx, m.log)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range m.nodes {
		if _, err := install.Install(ctx, n, agent); err != nil {
			t.Fatal(err)
		}
		if m.before[n.Name()], err = thingsOn(ctx, n); err != nil {
			t.Fatal(err)
		}
		if n.Role() == clusters.RoleControlPlane {
			continue
		}
		if err := m.target(n).MakeAnchor(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *matrix) target(on clusters.Node) faulttest.Target {
	return faulttest.Target{
		Cluster: m.cluster, Kube: m.kube, Clock: bootclock.Now, Log: m.log, On: on.Name(), Outside: m.dogs,
	}
}

// row kills the harness at each of the points of one fault, one after the other, on one worker.
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

// fit makes the cluster fit for a fault. A kubelet that has seen a program of the control plane end several times holds
// it back for minutes, unless it is a new one.
func (m *matrix) fit(ctx context.Context, def fault.Definition, on clusters.Node, run string) (fault.Env, error) {
	if ofCluster, _ := whereKilled(def); ofCluster && !between(def) {
		if err := rested(ctx, m.target(on), m.nodes); err != nil {
			return fault.Env{}, err
		}
	}
	env, err := m.target(on).Fit(ctx, run)
	if err != nil || !def.Network.Peer {
		return env, err
	}
	other, err := m.target(m.nodes[2]).Fit(ctx, run)
	env.Peer, env.PeerNode = other.Pod, other.Node
	return env, err
}

// kill kills the harness once, and waits until nothing is left. It reports false for a point that the fault never
// comes to.
func (m *matrix) kill(ctx context.Context, def fault.Definition, on clusters.Node, at faulttest.KillPoint, run string) (
	cell, bool,
) {
	env, err := m.fit(ctx, def, on, run)
	if err != nil {
		return cell{err: fmt.Errorf("before the kill: %w", err)}, true
	}
	e := errand{
		Engine: os.Getenv("SEATRIAL_ENGINE"), Kubeconfig: filepath.Join(m.dir, run+".kubeconfig"),
		Cluster: m.cluster.Name(), Fault: def.Name, Node: on.Name(), Pod: env.Pod, Namespace: env.Namespace, Run: run,
		At: at.String(), Journal: filepath.Join(m.dir, run+".journal"), Life: longLife, Hold: time.Second,
		Dogs: m.dogs, Peer: env.Peer,
	}
	if env.PeerNode != nil {
		e.PeerNode = env.PeerNode.Name()
	}
	if at.Stage == history.StageIntent || at.Stage == history.StageArmed || at.Stage == history.StageInjected {
		e.Life = briefLife
	}
	f, err := def.New(e.spec(), 1, env)
	if err != nil {
		return cell{err: err}, true
	}
	if _, arms := f.(fault.Armer); !arms && at.Stage == history.StageArmed {
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
		due = max(due, armed.Add(e.Life))
		if armed == 0 {
			due = max(due, killed.Add(e.Life))
		}
	}
	c := m.wait(ctx, on, run, killed, due)
	c.err = errors.Join(err, c.err)
	if c.err == nil {
		c.err = m.well(ctx, f)
	}
	return c, true
}

// wait looks what is left until it is nothing.
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
			c.err = fmt.Errorf("left a minute after the deadline: %s, %w", strings.Join(left, "; "), err)
			return c
		}
		dirty = begin // Looks take their time: what is told is what was certainly so.
		c.last = fmt.Sprintf("%s, %v, %.1f s after the kill", strings.Join(left, "; "), err,
			begin.Sub(killed).Seconds())
		select {
		case <-tick.C:
		case <-ctx.Done():
			return cell{err: ctx.Err()}
		}
	}
}

// well shows from the victim's side that the effect is gone. No undo of ours was called, and none is now.
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

// report returns the table, prints it, and fails for what is wrong in it.
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
	fmt.Fprintf(&text, "\n%d kills in %d faults; left: nothing, unless it says FAIL; at most %.1f s after "+
		"max(deadline, %s)\n", kills, len(m.cells), worst.Seconds(), leastLife)
	t.Log("\n" + text.String())
	return text.String()
}
