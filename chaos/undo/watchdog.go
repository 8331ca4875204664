package undo

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// HostWatchdog starts and ends the processes that watch over the nodes of one cluster. It is safe for concurrent use.
type HostWatchdog struct {
	// Argv is the program that calls Watch, and what is said to it before the path of the order.
	Argv    []string
	Dir     string // Where orders are; see WatchdogDir.
	Engine  string // Name or path of the container engine's client.
	Cluster string
}

var _ Watchdog = HostWatchdog{}

// WatchdogDir is where the orders of all harnesses of a user are: seatrial/outside below $XDG_STATE_HOME, by default
// ~/.local/state.
func WatchdogDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a place for what is armed beside the clusters: %w", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "seatrial", "outside"), nil
}

// The bounds of what is waited for.
const (
	armBound = 15 * time.Second // To start a program, and to ask the engine twice.
	// endBound is how long a process may take to see that it was disarmed. One that is bringing its node back goes on
	// until that is done.
	endBound = 25 * time.Second
)

// Arm writes an order and starts its process, and returns when that has said that it is armed.
func (d HostWatchdog) Arm(ctx context.Context, node string, owner Owner, life time.Duration) error {
	fail := func(err error) error { return fmt.Errorf("arm dead-man beside node %q: %w", node, err) }
	if err := d.Disarm(ctx, node, owner); err != nil {
		return err
	}
	o := Order{
		Schema: orderSchema, Run: owner.Run, Step: owner.Step, Engine: d.Engine, Cluster: d.Cluster, Node: node,
		Deadline: bootclock.Now().Add(life),
	}
	path, err := o.write(d.Dir)
	if err != nil {
		return fail(fmt.Errorf("write its order: %w", err))
	}
	if err := d.start(ctx, path); err != nil {
		return errors.Join(fail(err), discard(path))
	}
	return nil
}

// start starts the process of an order in a session of its own, so that no signal for the harness's group or terminal
// is for it, and waits until it is armed.
func (d HostWatchdog) start(ctx context.Context, path string) (err error) {
	said, err := os.Create(logOf(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, said.Close()) }()
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer func() { _ = read.Close() }() // Whatever it says later is for its log.
	if len(d.Argv) == 0 {
		return errors.New("no program is set")
	}
	//nolint:noctx // It is to outlive this process, and so every context of it.
	cmd := exec.Command(d.Argv[0], append(d.Argv[1:len(d.Argv):len(d.Argv)], path)...)
	cmd.Dir = "/" // It must not keep a file system busy.
	cmd.Stdout, cmd.Stderr = write, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	if err = errors.Join(err, write.Close()); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := listen(ctx, read); err != nil {
		killed := cmd.Process.Kill()
		if errors.Is(killed, os.ErrProcessDone) {
			killed = nil
		}
		<-ended //nolint:errcheck // It was killed, which is what it ends with.
		text, unread := os.ReadFile(logOf(path))
		return errors.Join(fmt.Errorf("%w; it said: %q", err, bytes.TrimSpace(text)), killed, unread)
	}
	return nil
}

// listen waits for a process to say that it is armed.
func listen(ctx context.Context, from *os.File) error {
	ctx, cancel := context.WithTimeoutCause(ctx, armBound, fmt.Errorf("not armed within %s", armBound))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		_ = from.SetReadDeadline(time.Unix(1, 0)) // A pipe takes one; if not, its other end ends the wait.
	})
	defer stop()
	line, err := bufio.NewReader(from).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("wait for %q to be said: %w", strings.TrimSpace(armedLine), context.Cause(ctx))
	case err != nil:
		return fmt.Errorf("it ended before it was armed: %w", err)
	case line != armedLine:
		return fmt.Errorf("it said %q in place of %q", line, armedLine)
	}
	return nil
}

// Disarm removes the order and waits until its process has let it go.
func (d HostWatchdog) Disarm(ctx context.Context, node string, owner Owner) error {
	if err := end(ctx, filepath.Join(d.Dir, name(owner, node)+orderExt)); err != nil {
		return fmt.Errorf("disarm dead-man beside node %q: %w", node, err)
	}
	return nil
}

// Release disarms all in the directory that are ours and that only says yes to, and returns their names.
func (d HostWatchdog) Release(ctx context.Context, only func(Owner) bool) ([]string, error) {
	paths, err := list(d.Dir)
	if err != nil {
		return nil, err
	}
	var names []string
	var errs []error
	for _, path := range paths {
		owner, ours := ownerOf(path)
		if !ours || only != nil && !only(owner) {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), orderExt)
		if err := end(ctx, path); err != nil {
			errs = append(errs, fmt.Errorf("disarm dead-man %q: %w", name, err))
			continue
		}
		names = append(names, name)
	}
	return names, errors.Join(errs...)
}

// end removes an order and waits until its process has let go of it, if there is one.
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

// discard removes an order, and what its process said. One that is gone is no error.
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
