package undo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// A node keeps the undo of each fault that may have something to undo there as one file, named after the owner: in
// RecordDir, or in BootDir for what the next boot undoes by itself.
const (
	RecordDir = "/var/lib/seatrial/undo/"
	BootDir   = "/run/seatrial/undo/"
)

// recordSchema is the version of a record's format, recordExt the end of the name of its file.
const (
	recordSchema = 1
	recordExt    = ".json"
)

// Action is one command of an undo. It may run at any time, more than once, and while another heal runs it.
type Action struct {
	Argv  []string `json:"argv"`
	Stdin string   `json:"stdin,omitempty"`
}

// Command returns the action of a command without standard input.
func Command(argv ...string) Action { return Action{Argv: argv} }

// Record is an armed undo as it lies on its node.
type Record struct {
	Schema   int          `json:"schema"`
	Run      string       `json:"run"`
	Step     int          `json:"step"`
	Deadline history.Time `json:"deadline"` // When the timer carries it out, on the node's boot clock.
	// Actions are carried out in order. What bears an owner mark (API objects) is undone after them.
	Actions []Action `json:"actions"`
}

// Owner returns whose undo it is.
func (r Record) Owner() Owner { return Owner{Run: r.Run, Step: r.Step} }

// Task is the undo of a fault on one node.
type Task struct {
	Node    clusters.Node
	Actions []Action
	// UntilBoot says that a boot of the node undoes it as well.
	UntilBoot bool
	// Power says that the node itself is brought back: no timer on the node could do that, so the watchdog does.
	Power bool
	// Longer is added to the life of the fault.
	Longer time.Duration
}

// OnControlPlane returns a task for each node of the control plane, where an undo reaches API objects.
func OnControlPlane(ctx context.Context, c clusters.Cluster, actions ...Action) ([]Task, error) {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	var tasks []Task
	for _, n := range nodes {
		if n.Role() == clusters.RoleControlPlane {
			tasks = append(tasks, Task{Node: n, Actions: actions})
		}
	}
	if len(tasks) == 0 {
		return nil, errors.New("list nodes: none is of the control plane")
	}
	return tasks, nil
}

// Arm keeps the undo on the node and starts the timer that carries it out after life, to a tenth of a second. An undo
// of the same owner that is armed already is replaced.
func Arm(ctx context.Context, task Task, owner Owner, life time.Duration) error {
	fail := func(err error) error { return fmt.Errorf("arm undo on node %q: %w", task.Node.Name(), err) }
	if err := owner.Check(); err != nil {
		return fail(err)
	}
	actions, err := json.Marshal(task.Actions)
	if err != nil {
		return fail(err)
	}
	argv := append([]string{AgentPath, "arm"}, owner.flags()...)
	argv = append(argv, "--life", (life + task.Longer).String())
	if task.UntilBoot {
		argv = append(argv, "--until-boot")
	}
	if _, err := task.Node.Exec(ctx, clusters.Command{Argv: argv, Stdin: bytes.NewReader(actions)}); err != nil {
		return fail(err)
	}
	return nil
}

// Disarm stops the owner's timer and removes its undo. What is not there is no error.
func Disarm(ctx context.Context, node clusters.Node, owner Owner) error {
	if _, err := clusters.Run(ctx, node, append([]string{AgentPath, "disarm"}, owner.flags()...)...); err != nil {
		return fmt.Errorf("disarm undo on node %q: %w", node.Name(), err)
	}
	return nil
}

func (o Owner) flags() []string { return []string{"--run", o.Run, "--step", strconv.Itoa(o.Step)} }

// record is the path of the owner's undo in a directory.
func (o Owner) record(dir string) string { return filepath.Join(dir, o.Name()+recordExt) }

// ArmHere does on the node what Arm asks for; root is "/". The record is on disk before the timer runs.
func ArmHere(ctx context.Context, run Runner, root string, owner Owner, life time.Duration, untilBoot bool,
	actions []Action,
) error {
	dir := RecordDir
	if untilBoot {
		dir = BootDir
	}
	r := Record{
		Schema: recordSchema, Run: owner.Run, Step: owner.Step, Deadline: bootclock.Now().Add(life), Actions: actions,
	}
	if r.Actions == nil {
		r.Actions = []Action{}
	}
	if err := r.write(filepath.Join(root, owner.record(dir))); err != nil {
		return fmt.Errorf("keep the undo: %w", err)
	}
	if err := stopTimer(ctx, run, owner); err != nil {
		return err
	}
	_, err := run(ctx, []string{
		"systemd-run", "--quiet",
		"--collect", // An undo that failed must not keep the name of the unit.
		"--unit=" + owner.Unit(),
		"--on-active=" + strconv.FormatFloat(life.Seconds(), 'f', -1, 64) + "s",
		"--timer-property=AccuracySec=1ms", // The default is a minute.
		AgentPath, "undo", "--run", owner.Run, "--step", strconv.Itoa(owner.Step),
	}, "")
	if err != nil {
		return fmt.Errorf("start the timer: %w", err)
	}
	if _, err := run(ctx, []string{"systemctl", "is-active", owner.Timer()}, ""); err != nil {
		return fmt.Errorf("ask for the timer: %w", err)
	}
	return nil
}

// DisarmHere does on the node what Disarm asks for.
func DisarmHere(ctx context.Context, run Runner, root string, owner Owner) error {
	errs := []error{stopTimer(ctx, run, owner)}
	for _, dir := range []string{RecordDir, BootDir} {
		if err := os.Remove(filepath.Join(root, owner.record(dir))); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// stopTimer stops the owner's timer, if it is there.
func stopTimer(ctx context.Context, run Runner, owner Owner) error {
	armed, err := armedTimers(ctx, run, func(o Owner) bool { return o == owner })
	if err != nil || len(armed) == 0 {
		return err
	}
	if _, err := run(ctx, []string{"systemctl", "stop", owner.Timer()}, ""); err != nil {
		return fmt.Errorf("stop the timer: %w", err)
	}
	return nil
}

// write puts the record at path, durably and at once.
func (r Record) write(path string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return durable(path, append(data, '\n'), 0o600)
}

// WriteFile puts content at path, durably and at once, unless it is there already.
func WriteFile(path string, content []byte) error {
	if now, err := os.ReadFile(path); err == nil && bytes.Equal(now, content) {
		return nil
	}
	return durable(path, content, 0o600)
}

// durable replaces a file at once. The new one is made beside its directory's parent, where no kubelet looks for static
// pods, and removed when it cannot take the place of the old one.
func durable(path string, content []byte, mode fs.FileMode) (err error) {
	beside := filepath.Dir(filepath.Dir(path))
	file, err := os.CreateTemp(beside, ".seatrial-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(file.Name()))
		}
	}()
	_, err = file.Write(content)
	if err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close()); err != nil {
		return err
	}
	if err = os.Rename(file.Name(), path); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// CarryOut carries out what the owner has armed on a node, and removes its record then. Nothing armed is no error.
func CarryOut(ctx context.Context, run Runner, owner Owner) error {
	return records(ctx, run, func(o Owner) bool { return o == owner }, &Report{})
}

// records carries out the records on a node. One that fails stays, for a later heal.
func records(ctx context.Context, run Runner, only Only, report *Report) error {
	paths, err := listRecords(ctx, run, only)
	if err != nil {
		return err
	}
	var errs []error
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), recordExt)
		text, err := run(ctx, []string{"cat", path}, "")
		if err != nil {
			still, again := listRecords(ctx, run, only)
			if again == nil && !slices.Contains(still, path) {
				continue // Another heal was quicker.
			}
			errs = append(errs, fmt.Errorf("read undo %s: %w", name, errors.Join(err, again)))
			continue
		}
		if err := perform(ctx, run, []byte(text)); err != nil {
			errs = append(errs, fmt.Errorf("carry out undo %s: %w", name, err))
			continue
		}
		if _, err := run(ctx, []string{"rm", "-f", path}, ""); err != nil {
			errs = append(errs, fmt.Errorf("remove undo %s: %w", name, err))
			continue
		}
		report.Undone = append(report.Undone, name)
	}
	return errors.Join(errs...)
}

// perform runs all actions of a record; one that fails does not keep the others from being run.
func perform(ctx context.Context, run Runner, text []byte) error {
	var r Record
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("decode it: %w", err)
	}
	if r.Schema != recordSchema {
		return fmt.Errorf("schema is %d; this program reads %d", r.Schema, recordSchema)
	}
	var errs []error
	for _, a := range r.Actions {
		if len(a.Argv) == 0 {
			errs = append(errs, errors.New("an action has no command"))
			continue
		}
		// systemctl may have to wait for systemd on a node that is just coming up.
		err := afterBoot(ctx, "carry out the undo", func(ctx context.Context) error {
			_, err := run(ctx, a.Argv, a.Stdin)
			return err
		})
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// listRecords returns the paths of the records on a node, in order. A node on which nothing was ever armed has no
// directory for them.
func listRecords(ctx context.Context, run Runner, only Only) ([]string, error) {
	argv := []string{"find", "/var/lib", "/run", "-ignore_readdir_race", "-mindepth", "1", "-maxdepth", "3"}
	for _, dir := range []string{RecordDir, BootDir} {
		dir = filepath.Clean(dir)
		argv = append(argv, "!", "-path", filepath.Dir(dir), "!", "-path", dir, "!", "-path", dir+"/*")
	}
	argv = append(argv, "-prune", "-o", "-path", "*/seatrial/undo/*"+recordExt, "-print")
	out, err := run(ctx, argv, "")
	if err != nil {
		return nil, fmt.Errorf("look for what is armed: %w", err)
	}
	paths := slices.DeleteFunc(strings.Fields(out), func(path string) bool {
		owner, ours := FromName(strings.TrimSuffix(filepath.Base(path), recordExt))
		return !ours || !only(owner)
	})
	slices.Sort(paths)
	return paths, nil
}
