// Command seatrial puts a Kubernetes cluster, and the stateful workload on it, through a sea trial.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	_ "k8s.io/client-go/plugin/pkg/client/auth" // Kubeconfigs with OIDC, as kubectl takes them.
	"k8s.io/klog/v2"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/trial"
)

// The exit codes, those of Jepsen's command line.
const (
	exitPass      = 0
	exitViolated  = 1
	exitUnknown   = 2
	exitArguments = 254
	exitHarness   = 255
)

// exitError is an error, or a verdict, with its exit code.
type exitError struct {
	code int
	err  error // Nil if everything was already printed.
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// badArguments marks an error that the user can correct.
func badArguments(format string, args ...any) error {
	return &exitError{code: exitArguments, err: fmt.Errorf(format, args...)}
}

func main() {
	klog.SetLogger(logr.Discard()) // Logs of libraries are not messages for the user.
	stderr := newNarrator(os.Stderr)
	if !slices.Contains(os.Args[:min(2, len(os.Args))], trial.OutsideCommand) { // It logs, and nobody waits for it.
		asked := make(chan os.Signal, 1)
		signal.Notify(asked, syscall.SIGUSR1)
		go stderr.narrate(context.Background(), asked)
	}
	ctx, stop := interruptible(context.Background(), stderr)
	code := run(ctx, os.Args, os.Stdout, stderr)
	stop()
	os.Exit(code)
}

// interruptible ends the context at the first signal and the process at the second.
func interruptible(ctx context.Context, stderr io.Writer) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 2)
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // Started with nohup: it must go on.
			signal.Notify(signals, s)
		}
	}
	done := make(chan struct{})
	go func() {
		select {
		case s := <-signals:
			fmt.Fprintf(stderr, "\n%s: ending; active faults are healed first, a second signal exits at once\n", s)
			cancel(fmt.Errorf("stopped by signal: %s", s))
		case <-done:
			return
		}
		select {
		case s := <-signals:
			fmt.Fprintf(stderr, "\n%s: exiting at once; `seatrial heal` and `seatrial clean` undo what is left\n", s)
			os.Exit(exitHarness)
		case <-done:
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		cancel(nil)
	}
}

// run executes the command line and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newRoot(args[0])
	cmd.SetArgs(args[1:])
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.ExecuteContext(ctx)
	if err == nil {
		return exitPass
	}
	exit, ok := errors.AsType[*exitError](err)
	if !ok {
		exit = &exitError{code: exitHarness, err: err}
		if errors.As(err, new(offline.NotLinuxError)) || errors.As(err, new(*offline.ChangesError)) {
			exit.code = exitArguments
		}
	}
	if exit.err != nil {
		fmt.Fprintf(stderr, "error: %s\n", visible(exit.err.Error()))
	}
	if errors.Is(exit.err, syscall.EIO) { // A disk is at fault, not what it was to give.
		return exitHarness
	}
	return exit.code
}

// plainly escapes terminal control characters. A rune must not be split between two writes.
type plainly struct{ w io.Writer }

func (p plainly) Write(data []byte) (int, error) {
	if _, err := io.WriteString(p.w, visible(string(data))); err != nil {
		return 0, err
	}
	return len(data), nil
}

// visible escapes terminal control characters: an error may quote text from elsewhere.
func visible(s string) string {
	return plan.Escaped(s, "\n\t")
}
