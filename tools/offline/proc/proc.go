// Package proc runs programs: by argument list, in a process group of their own that ends with the context.
package proc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/seatrial/seatrial/clusters"
)

// grace is how long a program has to clean up after SIGINT before it is killed.
const grace = 15 * time.Second

// tailBytes is how much of a program's error output an error repeats.
const tailBytes = 800

// Command is one program to run.
type Command struct {
	// Args is the program and its arguments.
	Args []string
	// Dir is the working directory; empty means the caller's.
	Dir string
	// Env is added to the caller's environment, NAME=value.
	Env []string
	// Stdin, Stdout and Stderr may be nil. The end of Stderr is repeated in the error either way.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Runner runs commands; Exec does.
type Runner interface {
	Run(ctx context.Context, c Command) error
}

// Exec runs commands on this host.
type Exec struct{}

// Run runs the command and waits for it. When ctx ends, its process group gets SIGINT and, 15 s later, SIGKILL.
func (Exec) Run(ctx context.Context, c Command) error {
	if len(c.Args) == 0 {
		return errors.New("run command: no program given")
	}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Dir = c.Dir
	cmd.Env = append(os.Environ(), c.Env...)
	cmd.Stdin, cmd.Stdout = c.Stdin, c.Stdout
	tail := &clusters.Tail{Max: tailBytes}
	cmd.Stderr = tail
	if c.Stderr != nil {
		cmd.Stderr = io.MultiWriter(c.Stderr, tail)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // Children may have ignored SIGINT.
		}
		return fmt.Errorf("run %s: %w", c.Args[0], context.Cause(ctx))
	}
	if text := strings.TrimSpace(string(tail.Data)); text != "" {
		return fmt.Errorf("run %s: %w: %s", c.Args[0], err, text)
	}
	return fmt.Errorf("run %s: %w", c.Args[0], err)
}

// Output runs the command with r and returns what it printed, without the last line break.
func Output(ctx context.Context, r Runner, c Command) (string, error) {
	var out bytes.Buffer
	c.Stdout = &out
	if err := r.Run(ctx, c); err != nil {
		return "", err
	}
	return strings.TrimRight(out.String(), "\n"), nil
}
