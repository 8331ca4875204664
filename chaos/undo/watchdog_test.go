package undo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
)

// The roles in which this program can be started again, by its first argument.
const (
	roleWatchdog = "watchdog" // It watches, over a node of files.
	roleHarness  = "harness"  // It arms, says so, and waits for its death.
)

func TestMain(m *testing.M) {
	if len(os.Args) > 2 {
		switch os.Args[1] {
		case roleWatchdog:
			os.Exit(exitCode(watchFile(os.Args[2])))
		case roleHarness:
			os.Exit(exitCode(harness(os.Args[2])))
		}
	}
	goleak.VerifyTestMain(m)
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// watchFile watches a node whose state is in a file beside the orders.
func watchFile(order string) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	open := func(_ context.Context, o Order) (clusters.Node, error) {
		if o.Cluster == "gone" {
			return nil, clusters.ErrNotFound
		}
		return fileNode{filepath.Join(filepath.Dir(order), o.Node+".state"), o.Node}, nil
	}
	objects := func() (API, error) {
		path, err := io.ReadAll(os.Stdin)
		return fileAPI(path), err
	}
	return Watch(context.Background(), order, Reach{Node: open, API: objects}, os.Stdout, log)
}

func harness(dir string) error {
	if err := watchdogOf(dir).Arm(context.Background(), "worker", owner, 2*time.Second); err != nil {
		return err
	}
	fmt.Println("armed")
	_, err := io.ReadAll(os.Stdin) // Nothing is said: it waits to be killed.
	return err
}

// fileAPI is the path of a file with one Node, and stands for an API server; the path stands for a kubeconfig.
type fileAPI string

func (f fileAPI) List(context.Context, string) ([]byte, error) { return os.ReadFile(string(f)) }

func (f fileAPI) Delete(context.Context, string, string, string) error { return errors.ErrUnsupported }

func (f fileAPI) PatchNode(_ context.Context, name string, patch []byte) error {
	return os.WriteFile(string(f), fmt.Appendf(nil, `{"patched":%q,"with":%s}`, name, patch), 0o600)
}

func TestMarksAreRemovedWhenTheTimeIsOver(t *testing.T) {
	dir := t.TempDir()
	nodes := filepath.Join(dir, "nodes.json")
	const marked = `{"items":[{"kind":"Node","metadata":{"name":"a","resourceVersion":"7","annotations":` +
		`{"seatrial/cordon":"seatrial-r1-3"}},"spec":{"unschedulable":true}}]}`
	must(t, os.WriteFile(nodes, []byte(marked), 0o600))
	d := watchdogOf(dir)
	d.Engine, d.Kubeconfig = "", []byte(nodes)
	must(t, d.ArmMarks(t.Context(), "nodes", owner, time.Minute))
	must(t, d.Disarm(t.Context(), "nodes", owner))
	empties(t, dir)
	begin := time.Now()
	must(t, d.ArmMarks(t.Context(), "nodes", owner, 1500*time.Millisecond))
	empties(t, dir)
	if took := time.Since(begin); took < 1500*time.Millisecond {
		t.Errorf("they were removed after %s", took)
	}
	const want = `{"patched":"a","with":{"metadata":{"annotations":{"seatrial/cordon":null},"resourceVersion":"7"},` +
		`"spec":{"unschedulable":null}}}`
	if now, err := os.ReadFile(nodes); string(now) != want || err != nil {
		t.Errorf("%s, %v", now, err)
	}
	d.Kubeconfig = []byte(filepath.Join(dir, "missing"))
	err := d.ArmMarks(t.Context(), "nodes", owner, time.Minute)
	if err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("armed without an API server: %v", err)
	}
	empties(t, dir)
}

// fileNode is a node whose state is the content of a file. It has nothing on it, not even the agent.
type fileNode struct{ path, name string }

func (n fileNode) Name() string        { return n.name }
func (n fileNode) Role() clusters.Role { return clusters.RoleWorker }

func (n fileNode) Addresses(context.Context) ([]netip.Addr, error) { return nil, nil }

func (n fileNode) Exec(_ context.Context, cmd clusters.Command) (clusters.Result, error) {
	if state, err := n.State(context.Background()); err != nil || state != "running" {
		return clusters.Result{}, errors.Join(err, fmt.Errorf("it is %s", state))
	}
	return clusters.Result{}, &clusters.ExitError{Node: n.name, Argv: cmd.Argv, ExitCode: 1}
}

func (n fileNode) Dial(context.Context, string) (net.Conn, error) { return nil, io.EOF }

func (n fileNode) set(state string) error { return os.WriteFile(n.path, []byte(state), 0o600) }

func (n fileNode) Reboot(context.Context, time.Duration) error { return n.set("running") }
func (n fileNode) Stop(context.Context, time.Duration) error   { return n.set("exited") }
func (n fileNode) Start(context.Context) error                 { return n.set("running") }
func (n fileNode) Kill(context.Context) error                  { return n.set("exited") }
func (n fileNode) Pause(context.Context) error                 { return n.set("paused") }
func (n fileNode) Unpause(context.Context) error               { return n.set("running") }

func (n fileNode) State(context.Context) (string, error) {
	data, err := os.ReadFile(n.path)
	return string(data), err
}

var owner = Owner{Run: "r1", Step: 3}

func watchdogOf(dir string) HostWatchdog {
	return HostWatchdog{Argv: []string{os.Args[0], roleWatchdog}, Dir: dir, Engine: "none", Cluster: "c"}
}

// ordersBeside returns a directory with a node in a state.
func ordersBeside(t *testing.T, state string) (string, fileNode) {
	t.Helper()
	dir := t.TempDir()
	n := fileNode{filepath.Join(dir, "worker.state"), "worker"}
	must(t, n.set(state))
	return dir, n
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// becomes waits until a node is in a state.
func becomes(t *testing.T, n fileNode, want string, bound time.Duration) {
	t.Helper()
	must(t, await.Until(t.Context(), "node to be "+want, 10*time.Millisecond, bound,
		func(ctx context.Context) (bool, string, error) {
			state, err := n.State(ctx)
			return state == want, state, err
		}))
}

// empties waits until no order is left.
func empties(t *testing.T, dir string) {
	t.Helper()
	must(t, await.Until(t.Context(), "no order to be left", 10*time.Millisecond, 5*time.Second,
		func(context.Context) (bool, string, error) {
			orders, err := filepath.Glob(filepath.Join(dir, "seatrial-*"))
			return len(orders) == 0, strings.Join(orders, ", "), err
		}))
}

func TestANodeIsBroughtBackWhenTheTimeIsOver(t *testing.T) {
	for _, state := range []string{"paused", "exited"} {
		dir, n := ordersBeside(t, "running")
		begin := time.Now()
		must(t, watchdogOf(dir).Arm(t.Context(), "worker", owner, 1500*time.Millisecond))
		must(t, n.set(state))
		becomes(t, n, "running", 10*time.Second)
		if took := time.Since(begin); took < 1500*time.Millisecond {
			t.Errorf("%s: it was brought back after %s", state, took)
		}
		empties(t, dir)
	}
}

func TestDisarmedIsDisarmed(t *testing.T) {
	dir, n := ordersBeside(t, "running")
	const life = 1500 * time.Millisecond
	d := watchdogOf(dir)
	must(t, d.Arm(t.Context(), "worker", owner, life))
	must(t, d.Arm(t.Context(), "worker", owner, life)) // The first is replaced.
	orders, err := listOrders(dir, nil)
	if err != nil || len(orders) != 1 {
		t.Errorf("orders %q, %v", orders, err)
	}
	must(t, n.set("paused"))
	must(t, d.Disarm(t.Context(), "worker", owner))
	must(t, d.Disarm(t.Context(), "worker", owner))
	empties(t, dir)
	must(t, await.For(t.Context(), life+lookEvery))
	if state, err := n.State(t.Context()); err != nil || state != "paused" {
		t.Errorf("after its time, the node is %q, %v", state, err)
	}
}

// TestTheHarnessIsKilled kills it with everything in its process group, as a terminal or a pipeline does.
func TestTheHarnessIsKilled(t *testing.T) {
	dir, n := ordersBeside(t, "running")
	cmd := exec.Command(os.Args[0], roleHarness, dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	cmd.Stderr = os.Stderr
	must(t, cmd.Start())
	line := make([]byte, len("armed\n"))
	_, err = io.ReadFull(out, line)
	must(t, err)
	must(t, n.set("paused"))
	begin := time.Now()
	must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL))
	if err := cmd.Wait(); err == nil {
		t.Error("the harness ended by itself")
	}
	_ = in.Close() // Its other end is gone.
	becomes(t, n, "running", 10*time.Second)
	t.Logf("the node is back %s after the harness was killed, of a life of 2s", time.Since(begin))
	empties(t, dir)
}

func TestReleaseEndsTheDogsOfOthers(t *testing.T) {
	dir, n := ordersBeside(t, "paused")
	d, other := watchdogOf(dir), Owner{Run: "r2", Step: 1}
	must(t, d.Arm(t.Context(), "worker", owner, time.Minute))
	must(t, d.Arm(t.Context(), "worker", other, time.Minute))
	dead := Order{Schema: orderSchema, Owner: Owner{Run: "r1", Step: 9}, Engine: "none", Cluster: "c", Node: "worker2",
		Deadline: 1}
	_, err := dead.write(dir)
	must(t, err)
	elsewhere := Order{Schema: orderSchema, Owner: Owner{Run: "r1", Step: 7}, Cluster: "e", Marks: "nodes", Deadline: 1}
	kept, err := elsewhere.write(dir)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "by-hand@worker"+orderExt), nil, 0o600))
	names, err := HostWatchdog{Dir: dir, Cluster: "c"}.Release(t.Context(), Of("r1", 0))
	if got := strings.Join(names, " "); err != nil || got != "seatrial-r1-3@worker seatrial-r1-9@worker2" {
		t.Errorf("released %q, %v", got, err)
	}
	names, err = HostWatchdog{Dir: dir, Cluster: "c"}.Release(t.Context(), nil)
	if got := strings.Join(names, " "); err != nil || got != "seatrial-r2-1@worker" {
		t.Errorf("released %q, %v", got, err)
	}
	names, err = HostWatchdog{Dir: filepath.Join(dir, "none")}.Release(t.Context(), nil)
	if err != nil || len(names) > 0 {
		t.Errorf("of no directory: %q, %v", names, err)
	}
	if state, _ := n.State(t.Context()); state != "paused" {
		t.Errorf("the node is %s", state)
	}
	for _, path := range []string{kept, filepath.Join(dir, "by-hand@worker"+orderExt)} {
		if _, err := os.Stat(path); err != nil {
			t.Errorf("of another cluster, or not ours: %v", err)
		}
	}
}

func TestWhatIsNotAliveIsNotArmed(t *testing.T) {
	dir, n := ordersBeside(t, "running")
	gone := watchdogOf(dir)
	gone.Cluster = "gone"
	nobody := watchdogOf(dir)
	nobody.Argv = nil
	silent := watchdogOf(dir)
	silent.Argv = []string{"/bin/true"}
	missing := watchdogOf(dir)
	missing.Argv = []string{filepath.Join(dir, "missing")}
	for name, tc := range map[string]struct {
		watchdog HostWatchdog
		node     string
		want     string
	}{
		"no cluster":      {gone, "worker", "cluster not found"},
		"no node":         {watchdogOf(dir), "other", "other.state: no such file"},
		"no program":      {nobody, "worker", "no program"},
		"another program": {silent, "worker", "ended before it was armed"},
		"no such program": {missing, "worker", "no such file"},
		"a path":          {watchdogOf(dir), "../worker", "use its name"},
	} {
		err := tc.watchdog.Arm(t.Context(), tc.node, owner, time.Minute)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %q", name, err, tc.want)
		}
	}
	empties(t, dir)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("given up"))
	if err := watchdogOf(dir).Arm(ctx, "worker", owner, time.Minute); err == nil {
		t.Error("armed although it was given up")
	}
	empties(t, dir)
	if err := watchdogOf(dir).Arm(t.Context(), "worker", Owner{Run: "a b"}, time.Minute); err == nil {
		t.Error("a run id that needs quoting passes")
	}
	must(t, n.set("running"))
}

// TestOneDogForAnOrder starts a second one beside the first.
func TestOneDogForAnOrder(t *testing.T) {
	dir, _ := ordersBeside(t, "running")
	must(t, watchdogOf(dir).Arm(t.Context(), "worker", owner, time.Minute))
	orders, err := listOrders(dir, nil)
	must(t, err)
	var said bytes.Buffer
	err = Watch(t.Context(), orders[0], Reach{}, &said, slog.New(slog.DiscardHandler))
	if err == nil || !strings.Contains(err.Error(), "another process does already") || said.Len() > 0 {
		t.Errorf("got %v, it said %q", err, said.String())
	}
	must(t, watchdogOf(dir).Disarm(t.Context(), "worker", owner))
}

// TestTheClusterIsDeletedMeanwhile has nobody to bring back when the time is over.
func TestTheClusterIsDeletedMeanwhile(t *testing.T) {
	dir, n := ordersBeside(t, "paused")
	o := Order{Schema: orderSchema, Owner: Owner{Run: "r1", Step: 3}, Engine: "none", Cluster: "c", Node: "worker",
		Deadline: 1}
	path, err := o.write(dir)
	must(t, err)
	opened := 0
	open := func(context.Context, Order) (clusters.Node, error) {
		if opened++; opened > 1 {
			return nil, fmt.Errorf("open cluster: %w", clusters.ErrNotFound)
		}
		return n, nil
	}
	must(t, Watch(t.Context(), path, Reach{Node: open}, io.Discard, slog.New(slog.DiscardHandler)))
	empties(t, dir)
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"schema":1,"run":"r1","step":3,"engine":"docker","cluster":"c","node":"worker","deadline":1}`))
	f.Add([]byte(`{"schema":1,"run":"../r","node":"a/b"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		o, err := decodeOrder(data)
		if err != nil {
			return
		}
		file := orderPath("", o.Owner, o.Node)
		if filepath.Base(file) != file {
			t.Fatalf("%q is somewhere else: %s", data, file)
		}
		name, _, _ := strings.Cut(file, "@")
		if owner, ok := FromName(name); !ok || owner != o.Owner {
			t.Fatalf("%q: the owner of %s is %v", data, file, owner)
		}
	})
}
