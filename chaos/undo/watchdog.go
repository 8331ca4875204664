package undo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
	strictjson "sigs.k8s.io/json"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/durable"
)

// Watchdog undoes what no timer on a node can: a process on the harness's host starts a node that a fault stopped, or
// removes marks from API objects of a cluster none of whose nodes can.
type Watchdog interface {
	// Arm starts a process that brings the node back after life, and returns when that is ready. It replaces one that
	// is armed already.
	Arm(ctx context.Context, node string, owner Owner, life time.Duration) error
	// ArmMarks starts one that removes the owner's marks from the objects of a resource, likewise.
	ArmMarks(ctx context.Context, resource string, owner Owner, life time.Duration) error
	// Disarm ends the process of a node or resource, and waits for its end. It is no error if there is none.
	Disarm(ctx context.Context, name string, owner Owner) error
	// Release disarms all selected ones of the cluster, whichever harness armed them, and returns their names.
	Release(ctx context.Context, only Only) ([]string, error)
}

// HostWatchdog starts and ends a process for each armed node of a cluster. Each process holds a lock on its order, a
// file. It is safe for concurrent use.
type HostWatchdog struct {
	// Argv is the command that calls Watch; the path of the order is appended to it.
	Argv    []string
	Dir     string // Of the orders; see WatchdogDir.
	Engine  string // Name or path of the container engine's client.
	Hook    string // In place of an engine, the program that has power over the nodes.
	Cluster string
	// Kubeconfig reaches the API server, for marks. It is written to the process's standard input, and to no disk.
	Kubeconfig []byte
}

var _ Watchdog = HostWatchdog{}

// WatchdogDir is the directory of the orders of all harnesses of a user.
func WatchdogDir() (string, error) {
	dir, err := clusters.StateDir()
	return filepath.Join(dir, "outside"), err
}

const (
	armBound  = 15 * time.Second // To start a process and ask the engine twice.
	listBound = 10 * time.Second // Of that, to reach the API server.
	endBound  = 25 * time.Second // To notice a disarm; bringing a node back is not interrupted.
	lookEvery = 100 * time.Millisecond
	actBound  = 30 * time.Minute // From the deadline until the process gives up, as the timers on nodes do.

	armedLine = "armed\n" // Printed by a process once it has reached its node.

	orderSchema = 1
	orderExt    = ".order" // Of an order's file; logExt is that of its process's standard error.
	logExt      = ".log"
)

// Order is the undo that its process carries out: of one node, or of the owner's marks on the objects of a resource.
type Order struct {
	Schema int `json:"schema"`
	Owner
	Engine   string       `json:"engine"` // Name or path of the container engine's client.
	Hook     string       `json:"hook,omitempty"`
	Cluster  string       `json:"cluster"`
	Node     string       `json:"node,omitempty"`
	Marks    string       `json:"marks,omitempty"` // The resource.
	Deadline history.Time `json:"deadline"`        // On the boot clock of this machine.
}

// check returns an error for an order that cannot be carried out, or whose file would be outside the directory.
func (o Order) check() error {
	switch {
	case o.Schema != orderSchema:
		return fmt.Errorf("schema is %d; this program reads %d", o.Schema, orderSchema)
	case o.Marks == "" && (o.Node == "" || strings.ContainsAny(o.Node, "/@\x00")):
		return fmt.Errorf("node is %q; use its name", o.Node)
	case o.Marks != "" && (o.Node != "" || strings.ContainsAny(o.Marks, "/@\x00")):
		return fmt.Errorf("marks is %q beside node %q; use a resource alone", o.Marks, o.Node)
	case o.Cluster == "" || o.Marks == "" && o.Engine == "" && o.Hook == "":
		return fmt.Errorf("cluster is %q, engine %q, hook %q; set the first and one of the others", o.Cluster, o.Engine,
			o.Hook)
	case o.Deadline <= 0:
		return fmt.Errorf("deadline is %s; use more than 0s", o.Deadline)
	}
	return o.Owner.Check()
}

// orderPath is the path of an order in dir, named after owner and node or resource.
func orderPath(dir string, owner Owner, name string) string {
	return filepath.Join(dir, owner.Name()+"@"+name+orderExt)
}

// write stores the order in dir and returns its path. It replaces an order of the same name.
func (o Order) write(dir string) (string, error) {
	if err := o.check(); err != nil {
		return "", err
	}
	path := orderPath(dir, o.Owner, o.Node+o.Marks)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	return path, durable.WriteJSON(path, o)
}

func decodeOrder(data []byte) (o Order, err error) {
	strict, err := strictjson.UnmarshalStrict(data, &o)
	if err = errors.Join(append(strict, err)...); err != nil {
		return o, fmt.Errorf("decode it: %w", err)
	}
	return o, o.check()
}

// listOrders returns the paths of the selected orders in dir, sorted; none if there is no such directory.
func listOrders(dir string, only Only) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("list what is armed beside the clusters: %w", err)
	}
	var out []string
	for _, e := range entries {
		name, _, isOrder := strings.Cut(e.Name(), "@")
		owner, ours := FromName(name)
		if isOrder && ours && strings.HasSuffix(e.Name(), orderExt) && owner.In(only) {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	return out, nil
}

// lock locks an open order until it is closed. It returns false while another process holds the lock.
func lock(file *os.File) (bool, error) {
	err := durable.Flock(file, unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// there reports whether an open order was neither removed nor replaced.
func there(file *os.File) (bool, error) {
	open, err := file.Stat()
	if err != nil {
		return false, err
	}
	now, err := os.Stat(file.Name())
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil && os.SameFile(open, now), err
}

// discard removes an order and its log, if they exist.
func discard(path string) error {
	var errs []error
	for _, p := range []string{path, logOf(path)} {
		if err := os.Remove(p); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func logOf(path string) string { return strings.TrimSuffix(path, orderExt) + logExt }

// Arm writes an order, starts its process, and returns when that is armed.
func (d HostWatchdog) Arm(ctx context.Context, node string, owner Owner, life time.Duration) error {
	return d.arm(ctx, Order{Owner: owner, Node: node}, life)
}

// ArmMarks does so with an order about marks.
func (d HostWatchdog) ArmMarks(ctx context.Context, resource string, owner Owner, life time.Duration) error {
	return d.arm(ctx, Order{Owner: owner, Marks: resource}, life)
}

func (d HostWatchdog) arm(ctx context.Context, o Order, life time.Duration) error {
	fail := func(err error) error { return fmt.Errorf("arm the watchdog of %s: %w", o.of(), err) }
	o.Deadline = bootclock.Now().Add(life)
	if err := d.Disarm(ctx, o.Node+o.Marks, o.Owner); err != nil {
		return err
	}
	o.Schema, o.Engine, o.Hook, o.Cluster = orderSchema, d.Engine, d.Hook, d.Cluster
	path, err := o.write(d.Dir)
	if err != nil {
		return fail(fmt.Errorf("write its order: %w", err))
	}
	if err := d.start(ctx, path, o.Marks != ""); err != nil {
		return errors.Join(fail(err), discard(path))
	}
	return nil
}

// of names what the order undoes.
func (o Order) of() string {
	if o.Marks != "" {
		return "marks on " + o.Marks
	}
	return fmt.Sprintf("node %q", o.Node)
}

// start starts the process of an order, in a session of its own so that it gets no signal for the harness's group or
// terminal, and waits until it is armed.
func (d HostWatchdog) start(ctx context.Context, path string, marks bool) (err error) {
	if len(d.Argv) == 0 {
		return errors.New("no program is set")
	}
	log, err := os.Create(logOf(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	//nolint:noctx // It outlives this process, and so every context of it.
	cmd := exec.Command(d.Argv[0], append(d.Argv[1:len(d.Argv):len(d.Argv)], path)...)
	cmd.Dir = "/" // It must not keep a file system busy.
	cmd.Stderr = log
	if marks {
		cmd.Stdin = bytes.NewReader(d.Kubeconfig)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return err
	}
	printed, ended := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(ended)
		line, _ := bufio.NewReader(stdout).ReadString('\n') // Anything but armedLine is a failure.
		printed <- line
		_ = cmd.Wait() // Its log has the cause.
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, armBound, fmt.Errorf("not armed within %s", armBound))
	defer cancel()
	select {
	case line := <-printed:
		if line == armedLine {
			return nil
		}
		err = fmt.Errorf("it ended before it was armed, after printing %q", line)
	case <-ctx.Done():
		err = fmt.Errorf("wait for %q: %w", strings.TrimSpace(armedLine), context.Cause(ctx))
	}
	_ = cmd.Process.Kill() // It may have ended by itself.
	<-ended
	text, unread := os.ReadFile(log.Name())
	return errors.Join(fmt.Errorf("%w; its log: %q", err, bytes.TrimSpace(text)), unread)
}

// Disarm removes the order and waits until its process has released it.
func (d HostWatchdog) Disarm(ctx context.Context, name string, owner Owner) error {
	if err := end(ctx, orderPath(d.Dir, owner, name)); err != nil {
		return fmt.Errorf("disarm the watchdog of %q: %w", name, err)
	}
	return nil
}

// Release disarms the selected orders of the cluster in the directory and returns their names.
func (d HostWatchdog) Release(ctx context.Context, only Only) ([]string, error) {
	paths, err := listOrders(d.Dir, only)
	if err != nil {
		return nil, err
	}
	var names []string
	var errs []error
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), orderExt)
		data, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if o, unread := decodeOrder(data); err == nil && unread == nil && o.Cluster != d.Cluster {
			continue // One that cannot be read goes, too: no process can carry it out.
		}
		if err := end(ctx, path); err != nil {
			errs = append(errs, fmt.Errorf("disarm watchdog %q: %w", name, err))
			continue
		}
		names = append(names, name)
	}
	return names, errors.Join(errs...)
}

// end removes an order, if it exists, and waits until its process has released it.
func end(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // Nothing was written to it.
	if err := discard(path); err != nil {
		return err
	}
	return await.Until(ctx, "its process to end", lookEvery/4, endBound,
		func(context.Context) (bool, string, error) {
			free, err := lock(file)
			return free, "it still has its order", err
		})
}

// Reach is how a process reaches what its order is about.
type Reach struct {
	// Node opens the node. The error for a cluster that does not exist wraps clusters.ErrNotFound.
	Node func(ctx context.Context, o Order) (clusters.Node, error)
	// API reaches the API server by the kubeconfig on standard input.
	API func() (API, error)
}

// Watch carries an order out: it prints armedLine, waits for the deadline, and undoes. For a node it carries out what
// the owner has armed on it, too. It returns early if the order is removed or replaced. It removes the order once it is
// carried out or the cluster is gone; after an error the order stays, for heal to see.
func Watch(ctx context.Context, path string, reach Reach, armed io.Writer, log *slog.Logger) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open order: %w", err)
	}
	defer func() { _ = file.Close() }() // Nothing was written to it; closing releases the lock.
	if free, err := lock(file); err != nil || !free {
		return errors.Join(err, fmt.Errorf("watch %s: another process does already", path))
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return fmt.Errorf("read order: %w", err)
	}
	o, err := decodeOrder(data)
	if err != nil {
		return fmt.Errorf("read order %s: %w", path, err)
	}
	act, err := prepare(ctx, o, reach, log)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(armed, armedLine); err != nil {
		return fmt.Errorf("say that it is armed: %w", err)
	}
	if over, err := wait(ctx, file, o); err != nil || !over {
		return err
	}
	log.Info("deadline reached", "of", o.of(), "owner", o.Owner.Name())
	// It is tried again: an engine or API server that was restarted answers after a while.
	what := fmt.Sprintf("the undo of %s to be carried out", o.of())
	err = await.Until(ctx, what, time.Second, actBound, func(ctx context.Context) (bool, string, error) {
		still, err := there(file)
		if err == nil && still {
			err = act(ctx)
		}
		return err == nil, "", err
	})
	if err != nil {
		return err
	}
	if still, err := there(file); err != nil || !still {
		return err
	}
	return discard(path)
}

// prepare returns what carries the order out, once it has reached what the order is about.
func prepare(ctx context.Context, o Order, reach Reach, log *slog.Logger) (act func(context.Context) error, err error) {
	if o.Marks != "" {
		api, err := reach.API() // What it knows of the cluster is kept: the files may be gone at the deadline.
		if err == nil {
			err = await.Until(ctx, "the API server to list "+o.Marks, time.Second, listBound,
				func(ctx context.Context) (bool, string, error) {
					_, err := api.List(ctx, o.Marks)
					return err == nil, "", err
				})
		}
		return func(ctx context.Context) error {
			did, err := Unmark(ctx, api, &o.Owner, o.Marks)
			log.Info("removed marks", "did", did, "error", err)
			return err
		}, err
	}
	node, err := reach.Node(ctx, o)
	if err != nil {
		return nil, fmt.Errorf("find node %q: %w", o.Node, err)
	}
	power, ok := node.(clusters.PowerNode)
	if !ok {
		return nil, fmt.Errorf("node %q cannot be brought back: its provider has no power over it", o.Node)
	}
	if _, err := power.State(ctx); err != nil {
		return nil, fmt.Errorf("get state: %w", err)
	}
	return func(ctx context.Context) error { return bringBack(ctx, o, reach, log) }, nil
}

// wait waits for the deadline. It returns false if the order is removed before.
func wait(ctx context.Context, file *os.File, o Order) (over bool, err error) {
	for {
		still, err := there(file)
		if err != nil || !still {
			return false, err
		}
		left := o.Deadline.Sub(bootclock.Now())
		if left <= 0 {
			return true, nil
		}
		if err := await.For(ctx, min(left, lookEvery)); err != nil {
			return false, err
		}
	}
}

// bringBack brings the node back, and carries out what the owner has armed on it.
func bringBack(ctx context.Context, o Order, reach Reach, log *slog.Logger) error {
	node, err := reach.Node(ctx, o)
	if errors.Is(err, clusters.ErrNotFound) {
		log.Info("the cluster is gone", "cluster", o.Cluster)
		return nil
	}
	if err != nil {
		return err
	}
	if o.Hook != "" { // It reaches nothing on the node, where timers undo the rest.
		did, err := BringBack(ctx, node)
		log.Info("brought back", "node", o.Node, "did", did, "error", err)
		return err
	}
	reports, err := Cluster(ctx, []clusters.Node{node}, Of(o.Run, o.Step))
	for _, r := range reports {
		log.Info("healed", "node", r.Node, "undone", r.String(), "error", err)
	}
	return err
}
