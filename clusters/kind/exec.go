package kind

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
)

const (
	// stderrCap is how much of a command's standard error is kept: its last 64 KiB.
	stderrCap = 64 << 10
	// execMark is the environment variable that marks a command's processes on the node. An engine's exec leaves them
	// running when its client ends; the mark finds them.
	execMark = "SEATRIAL_EXEC"
	// sweepBound is how long the killing of a stopped command's processes may take.
	sweepBound = 5 * time.Second
	// killedBound is how long after a command the death of its node may show.
	killedBound = time.Second
)

// Exec runs a command through the engine's exec. When ctx ends, it kills the command's processes on the node, found by
// a mark in their environment; what the command handed to another process, such as systemd, goes on.
func (n *node) Exec(ctx context.Context, cmd clusters.Command) (clusters.Result, error) {
	what := fmt.Sprintf("run %q on node %q", strings.Join(cmd.Argv, " "), n.name)
	if len(cmd.Argv) == 0 {
		return clusters.Result{}, fmt.Errorf("run command on node %q: its argv is empty", n.name)
	}
	if err := ctx.Err(); err != nil {
		return clusters.Result{}, fmt.Errorf("%s: %w", what, err)
	}
	mark := execMark + "=" + rand.Text()
	args := []string{"exec"}
	if cmd.Stdin != nil {
		args = append(args, "--interactive")
	}
	args = append(append(args, "--env", mark, n.name), cmd.Argv...)
	c := n.engine.command(ctx, args...)

	var stdout bytes.Buffer
	stderr, head := &clusters.Tail{Max: stderrCap}, &headWriter{to: cmd.Stdout}
	if head.to == nil {
		head.to = &stdout
	}
	c.Stdout, c.Stderr = head, stderr
	begun := time.Now()
	stdinErr, err := runWithStdin(c, cmd.Stdin)
	if cmd.Stdout == nil || err == nil {
		err = errors.Join(err, head.flush())
	}
	res := clusters.Result{Stdout: stdout.Bytes(), Stderr: stderr.Data}
	if err == nil && stdinErr != nil {
		err = fmt.Errorf("read standard input: %w", stdinErr)
	}
	if err == nil {
		return res, nil
	}
	if ctx.Err() != nil {
		sweepErr := n.sweep(ctx, mark)
		return res, errors.Join(fmt.Errorf("%s: %w", what, ctx.Err()), sweepErr)
	}
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Exited() {
		return res, fmt.Errorf("%s: %w", what, err)
	}
	res.ExitCode = exit.ExitCode()
	if why := n.notRun(ctx, res, string(head.seen), begun); why != "" {
		return clusters.Result{Stdout: res.Stdout, Stderr: res.Stderr}, fmt.Errorf("%s: %s", what, why)
	}
	if err := head.flush(); err != nil {
		return res, fmt.Errorf("%s: %w", what, err)
	}
	return res, &clusters.ExitError{Node: n.name, Argv: cmd.Argv, ExitCode: res.ExitCode, Stderr: string(stderr.Data)}
}

// runWithStdin runs a command to its end. It does not wait for the reader, which may block without the command reading.
func runWithStdin(c *exec.Cmd, stdin io.Reader) (stdinErr, err error) {
	if file, ok := stdin.(*os.File); ok || stdin == nil {
		if ok {
			c.Stdin = file
		}
		return nil, c.Run()
	}
	pipe, err := c.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := c.Start(); err != nil {
		return nil, err
	}
	fed := make(chan error, 1)
	go func() {
		source := &errReader{from: stdin}
		// A command may end without reading all; only the source's error counts.
		_, _ = io.Copy(pipe, source)
		_ = pipe.Close() // As above.
		fed <- source.err
	}()
	err = c.Wait()
	select {
	case stdinErr = <-fed:
	default:
	}
	return stdinErr, err
}

// notRun returns why a command with a non-zero exit code did not run to its own end, "" if the code is its own. Engines
// use the same codes for their own errors, so the output decides.
func (n *node) notRun(ctx context.Context, res clusters.Result, stdout string, begun time.Time) string {
	switch res.ExitCode {
	case 1, 125, 126, 127, 255:
		for _, text := range []string{string(res.Stderr), stdout} {
			if engineSpeaks(text) {
				return n.engine.name + " says: " + lastLine(text)
			}
		}
	case 137:
		return n.killedWith(ctx, begun)
	}
	return ""
}

// killedWith returns how a command was killed together with its node, "" if it was not. The engine reports the node's
// end a little after the command's.
func (n *node) killedWith(ctx context.Context, begun time.Time) (why string) {
	look := func(ctx context.Context) (bool, string, error) {
		c, err := n.inspect(ctx)
		switch {
		case err != nil:
			return false, "", err
		case c.state() == clusters.StateExited:
			why = "killed together with the node"
		case c.State.StartedAt.After(begun):
			why = "killed when the node was restarted"
		}
		return why != "", c.state(), nil
	}
	if err := await.Until(ctx, "the node to end", askEvery/4, killedBound, look); err != nil {
		return "" // The node lives: somebody in it killed the command.
	}
	return why
}

// engineSpeaks reports whether an output is the engine's own and not the command's.
func engineSpeaks(text string) bool {
	text = strings.TrimSpace(text)
	for _, prefix := range []string{
		"Error response from daemon:", "Error: No such container", "Error: No such exec", runtimeSays,
		"Cannot connect to the Docker daemon", "error during connect", // Docker.
		"Error: can only create exec sessions", "Error: no container with", "Error: crun:", "Error: runc:",
		"Error: OCI runtime", "Cannot connect to Podman", // Podman.
	} {
		if strings.HasPrefix(text, prefix) {
			return true
		}
	}
	return strings.HasPrefix(text, "time=") && strings.Contains(text, "level=fatal") // Nerdctl.
}

// sweep kills the marked processes on the node until none is left: some may fork meanwhile. The caller's context has
// ended, so it has its own bound.
func (n *node) sweep(ctx context.Context, mark string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sweepBound)
	defer cancel()
	for {
		pids, err := n.pidsWith(ctx, mark)
		if err != nil || len(pids) == 0 {
			return err
		}
		args := append([]string{"exec", n.name, "kill", "-KILL"}, pids...)
		_, err = n.engine.output(ctx, args...)
		if err != nil && !strings.Contains(err.Error(), "No such process") {
			return fmt.Errorf("kill left-over processes %v on node %q: %w", pids, n.name, err)
		}
	}
}

// pidsWith returns the pids, in the node's namespace, of processes with a variable in their environment, which children
// inherit.
func (n *node) pidsWith(ctx context.Context, variable string) ([]string, error) {
	out, err := n.engine.output(ctx, "exec", n.name, "find", "/proc", "-maxdepth", "2", "-name", "environ",
		"-exec", "grep", "-lzsxF", variable, "{}", "+")
	var pids []string
	for line := range strings.Lines(string(out)) {
		if pid, ok := strings.CutSuffix(strings.TrimPrefix(strings.TrimSpace(line), "/proc/"), "/environ"); ok &&
			pid != "" && strings.Trim(pid, "0123456789") == "" {
			pids = append(pids, pid)
		}
	}
	// The search ends with code 1 whenever a process ended under it or nothing was found.
	var exit *exec.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.ExitCode() == 1 && !engineSpeaks(errStderr(err))) {
		return pids, fmt.Errorf("find processes with %q on node %q: %w", variable, n.name, err)
	}
	return pids, nil
}

func errStderr(err error) string {
	var e *engineError
	if errors.As(err, &e) {
		return e.stderr
	}
	return ""
}

// runtimeSays begins what docker prints, on standard output, in place of a command that did not start.
const runtimeSays = "OCI runtime exec failed"

// headWriter passes everything on and remembers how it began. What may be the engine's own words, and no part of a file
// that the command prints, it keeps until flush.
type headWriter struct {
	to         io.Writer
	seen, kept []byte
	passes     bool
}

func (w *headWriter) Write(p []byte) (int, error) {
	const enough = 512
	if room := enough - len(w.seen); room > 0 {
		w.seen = append(w.seen, p[:min(room, len(p))]...)
	}
	if w.passes {
		return w.to.Write(p)
	}
	w.kept = append(w.kept, p...)
	if n := min(len(w.kept), len(runtimeSays)); string(w.kept[:n]) == runtimeSays[:n] {
		return len(p), nil
	}
	return len(p), w.flush()
}

// flush passes on what was kept: it is the command's.
func (w *headWriter) flush() error {
	_, err := w.to.Write(w.kept)
	w.kept, w.passes = nil, true
	return err
}

// errReader remembers the error with which its source ended, but for its regular end.
type errReader struct {
	from io.Reader
	err  error
}

func (r *errReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
