package kind

import (
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/seatrial/seatrial/clusters"
)

func TestExec(t *testing.T) {
	defer goleak.VerifyNone(t)
	e := fakeEngine(t, made("n", "c", "worker", "", "running"), made("frozen", "c", "worker", "", "paused"))
	for _, tc := range []struct {
		name, node     string
		argv           []string
		stdin          string
		stdout, stderr string
		exit           int
		fails          string // Words of an error that is no ExitError.
	}{
		{name: "output", argv: []string{"echo", "a  b", "$HOME"}, stdout: "a  b $HOME\n"},
		{name: "stdin", argv: []string{"cat"}, stdin: "in", stdout: "in"},
		{name: "stdin not read", argv: []string{"true"}, stdin: strings.Repeat("x", 1<<20)},
		{name: "exit code", argv: []string{"sh", "-c", "echo no >&2; exit 3"}, stderr: "no\n", exit: 3},
		{name: "exit code 1 of its own", argv: []string{"sh", "-c", "echo Error: no such row >&2; exit 1"},
			stderr: "Error: no such row\n", exit: 1},
		{name: "exit code 127 of its own", argv: []string{"sh", "-c", "exit 127"}, exit: 127},
		{name: "killed", argv: []string{"sh", "-c", "kill -9 $$"}, exit: 137},
		{name: "no such program", argv: []string{"/no/such"}, fails: "no such file or directory",
			stdout: "OCI runtime exec failed: exec failed: fork/exec /no/such: no such file or directory: unknown\n"},
		{name: "no such node", node: "gone", argv: []string{"true"}, fails: "No such container: gone",
			stderr: "Error response from daemon: No such container: gone\n"},
		{name: "paused node", node: "frozen", argv: []string{"true"}, fails: "is paused",
			stderr: "Error response from daemon: Container frozen is paused\n"},
		{name: "empty argv", fails: "its argv is empty"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if tc.node == "" {
				tc.node = "n"
			}
			cmd := clusters.Command{Argv: tc.argv}
			if tc.stdin != "" {
				cmd.Stdin = strings.NewReader(tc.stdin)
			}
			res, err := aNode(e, tc.node).Exec(t.Context(), cmd)
			if string(res.Stdout) != tc.stdout || string(res.Stderr) != tc.stderr || res.ExitCode != tc.exit {
				t.Errorf("result = %q, %q, %d", res.Stdout, res.Stderr, res.ExitCode)
			}
			var exit *clusters.ExitError
			switch isExit := errors.As(err, &exit); {
			case tc.fails != "" && (isExit || err == nil || !strings.Contains(err.Error(), tc.fails)):
				t.Errorf("error = %v, want a plain one with %q", err, tc.fails)
			case tc.exit != 0 && (!isExit || exit.ExitCode != tc.exit || exit.Node != tc.node):
				t.Errorf("error = %v, want exit code %d", err, tc.exit)
			case tc.fails == "" && tc.exit == 0 && err != nil:
				t.Error(err)
			}
		})
	}
}

func TestExecArgvGolden(t *testing.T) {
	e := fakeEngine(t, made("n", "c", "worker", "", "running"))
	n := aNode(e, "n")
	_, err := clusters.Run(t.Context(), n, "echo", "one two", "*")
	must(t, err)
	_, err = n.Exec(t.Context(), clusters.Command{Argv: []string{"cat"}, Stdin: strings.NewReader("")})
	must(t, err)
	want := []string{"exec --env MARK n echo one two *", "exec --interactive --env MARK n cat"}
	if diff := cmp.Diff(want, calls(t, e)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func TestExecStdoutToWriter(t *testing.T) {
	e := fakeEngine(t, made("n", "c", "worker", "", "running"))
	var out strings.Builder
	res, err := aNode(e, "n").Exec(t.Context(), clusters.Command{Argv: []string{"echo", "x"}, Stdout: &out})
	if err != nil || out.String() != "x\n" || res.Stdout != nil {
		t.Errorf("stdout = %q, result %q, %v", out.String(), res.Stdout, err)
	}
	for text, want := range map[string]string{ // Who follows a file must not count what the engine says as part of it.
		"printf OCI; exit 1": "OCI", "printf 'OCI runtime'; sleep 0.1; echo x; exit 1": "OCI runtimex\n",
	} {
		out.Reset()
		_, err := aNode(e, "n").Exec(t.Context(), clusters.Command{Argv: []string{"sh", "-c", text}, Stdout: &out})
		if err == nil || out.String() != want {
			t.Errorf("%s: stdout = %q, %v", text, out.String(), err)
		}
	}
	out.Reset()
	_, err = aNode(e, "n").Exec(t.Context(), clusters.Command{Argv: []string{"/no/such"}, Stdout: &out})
	if err == nil || out.Len() > 0 {
		t.Errorf("a program that is not there: stdout = %q, %v", out.String(), err)
	}
}

func TestExecStdinBreaks(t *testing.T) {
	e := fakeEngine(t, made("n", "c", "worker", "", "running"))
	broken := iotest.ErrReader(io.ErrUnexpectedEOF)
	_, err := aNode(e, "n").Exec(t.Context(), clusters.Command{Argv: []string{"cat"}, Stdin: broken})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error = %v, want the reader's", err)
	}
}

func TestExecKeepsTheEndOfStderr(t *testing.T) {
	e := fakeEngine(t, made("n", "c", "worker", "", "running"))
	const longWinded = "head -c 200000 /dev/zero | tr '\\0' x >&2; echo end >&2"
	res, err := aNode(e, "n").Exec(t.Context(), clusters.Command{Argv: []string{"sh", "-c", longWinded}})
	if err != nil || len(res.Stderr) != stderrCap || !strings.HasSuffix(string(res.Stderr), "xend\n") {
		t.Errorf("%d bytes of stderr, %v", len(res.Stderr), err)
	}
}

// A command that is cancelled leaves nothing behind, although it and its child ignore the end of their client.
func TestExecCancelKillsOnTheNode(t *testing.T) {
	defer goleak.VerifyNone(t)
	e := fakeEngine(t, made("n", "c", "worker", "", "running"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &cancelOnWrite{cancel: cancel}
	argv := []string{"sh", "-c", "trap '' HUP TERM INT; sleep 3217 & echo begun; wait"}
	begun := time.Now()
	_, err := aNode(e, "n").Exec(ctx, clusters.Command{Argv: argv, Stdout: out})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v, want the context's", err)
	}
	if took := time.Since(begun); took > 4*time.Second {
		t.Errorf("cancelling took %s", took)
	}
	if left, _ := exec.Command("pgrep", "-f", "^sleep 3217$").Output(); len(left) > 0 {
		t.Errorf("left on the node: process %s", left)
	}
}

type cancelOnWrite struct{ cancel func() }

func (w *cancelOnWrite) Write(p []byte) (int, error) {
	w.cancel()
	return len(p), nil
}

func TestExecKilledWithTheNode(t *testing.T) {
	e := fakeEngine(t, made("n", "c", "worker", "", "running"))
	n := aNode(e, "n")
	ctx := t.Context()
	out := writerFunc(func(p []byte) (int, error) { return len(p), n.Kill(ctx) })
	_, err := n.Exec(ctx, clusters.Command{Argv: []string{"sh", "-c", "echo; sleep 0.3; kill -9 $$"}, Stdout: out})
	var exit *clusters.ExitError
	if err == nil || errors.As(err, &exit) || !strings.Contains(err.Error(), "killed together with the node") {
		t.Errorf("error = %v, want that the node was killed", err)
	}
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
