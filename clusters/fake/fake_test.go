package fake

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters"
)

var (
	_ clusters.Cluster   = (*Cluster)(nil)
	_ clusters.PowerNode = (*Node)(nil)
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestMatch(t *testing.T) {
	for _, tc := range []struct {
		pattern, argv string
		want          bool
	}{
		{"nft -f -", "nft -f -", true},
		{"nft -f -", "nft -f", false},
		{"nft -f", "nft -f -", false},
		{"nft * -", "nft -f -", true},
		{"nft ...", "nft -f -", true},
		{"nft ...", "nft", true},
		{"nft ... -", "nft -f -", false},
		{"...", "", true},
		{"* -f -", "ip -f -", true},
		{"nft -f -", "ip -f -", false},
	} {
		if got := match(strings.Fields(tc.pattern), strings.Fields(tc.argv)); got != tc.want {
			t.Errorf("match(%q, %q) = %v, want %v", tc.pattern, tc.argv, got, tc.want)
		}
	}
}

func TestExecAnswers(t *testing.T) {
	ctx := t.Context()
	n := NewCluster("c", 1).Node("worker")
	n.On([]string{"cat", "..."}, Reply{Stdout: "one"}, Reply{Stdout: "two"})
	n.On([]string{"false"}, Reply{ExitCode: 1, Stderr: "no\n"})
	n.On([]string{"gone"}, Reply{Stdout: "half", Err: io.ErrUnexpectedEOF})
	n.On([]string{"tee"}, Reply{Do: func(_ context.Context, _ clusters.Command, stdin string) (clusters.Result, error) {
		return clusters.Result{Stdout: []byte(strings.ToUpper(stdin))}, nil
	}})
	for _, want := range []string{"one", "two", "two"} {
		if got, err := clusters.Run(ctx, n, "cat", "x"); err != nil || got != want {
			t.Errorf("cat = %q, %v, want %q", got, err, want)
		}
	}
	var exit *clusters.ExitError
	if _, err := clusters.Run(ctx, n, "false"); !errors.As(err, &exit) || exit.ExitCode != 1 {
		t.Errorf("false: %v, want exit code 1", err)
	}
	if got, err := clusters.Run(ctx, n, "gone"); got != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("gone = %q, %v", got, err)
	}
	if _, err := clusters.Run(ctx, n, "unheard", "of"); err == nil || errors.As(err, &exit) {
		t.Errorf("a command without a script: %v, want a plain error", err)
	}
	var out strings.Builder
	n.On([]string{"echo"}, Reply{Stdout: "out"})
	_, err := n.Exec(ctx, clusters.Command{Argv: []string{"echo"}, Stdout: &out})
	if err != nil || out.String() != "out" {
		t.Errorf("echo to a writer: %q, %v", out.String(), err)
	}
	res, err := n.Exec(ctx, clusters.Command{Argv: []string{"tee"}, Stdin: strings.NewReader("in")})
	if err != nil || string(res.Stdout) != "IN" {
		t.Errorf("tee = %q, %v", res.Stdout, err)
	}
}

func TestHangingAnswer(t *testing.T) {
	n := NewNode("n", clusters.RoleWorker, nil)
	n.On([]string{"never"}, Reply{Hang: true})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := clusters.Run(ctx, n, "never"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("never: %v, want the context's error", err)
	}
}

func TestTranscriptGolden(t *testing.T) {
	ctx := t.Context()
	c := NewCluster("sea", 2)
	c.On([]string{"..."})
	w := c.Node("worker2")
	must(t, second(w.Exec(ctx, clusters.Command{Argv: []string{"nft", "-f", "-"}, Stdin: strings.NewReader("a\nb\n")})))
	must(t, second(clusters.Run(ctx, c.Node("control-plane"), "sh", "a b", "", `"`)))
	must(t, w.Reboot(ctx, 2*time.Second))
	must(t, w.Pause(ctx))
	must(t, w.Unpause(ctx))
	if _, err := w.Dial(ctx, "[fc00::2]:6443"); !errors.Is(err, unix.ECONNREFUSED) {
		t.Errorf("dial: %v, want refused", err)
	}
	want, err := os.ReadFile("testdata/transcript.golden")
	must(t, err)
	if diff := cmp.Diff(string(want), c.Transcript.String()); diff != "" {
		t.Errorf("transcript (-want +got):\n%s", diff)
	}
}

func TestPower(t *testing.T) {
	ctx := t.Context()
	n := NewCluster("c", 1).Node("worker")
	n.On([]string{"true"})
	state := func(want string) {
		t.Helper()
		if got, err := n.State(ctx); err != nil || got != want {
			t.Errorf("state = %q, %v, want %q", got, err, want)
		}
		_, err := clusters.Run(ctx, n, "true")
		if (err == nil) != (want == clusters.StateRunning) {
			t.Errorf("exec in state %s: %v", want, err)
		}
	}
	state(clusters.StateRunning)
	must(t, n.Pause(ctx))
	must(t, n.Pause(ctx))
	state(clusters.StatePaused)
	must(t, n.Unpause(ctx))
	must(t, n.Kill(ctx))
	state(clusters.StateExited)
	if _, err := n.Addresses(ctx); err == nil {
		t.Error("a stopped node has addresses")
	}
	must(t, n.Start(ctx))
	must(t, n.Start(ctx))
	if n.Boots() != 2 {
		t.Errorf("boots = %d, want 2", n.Boots())
	}
	must(t, n.Kill(ctx))
	n.BringBack()
	n.BringBack()
	if state(clusters.StateRunning); n.Boots() != 3 {
		t.Errorf("boots = %d, want 3", n.Boots())
	}
	n.OnPower("stop", Reply{Err: io.EOF})
	if err := n.Stop(ctx, 0); !errors.Is(err, io.EOF) {
		t.Errorf("stop: %v, want refused", err)
	}
	state(clusters.StateRunning)
	if _, ok := n.WithoutPower().(clusters.PowerNode); ok {
		t.Error("a node without power is a PowerNode")
	}
}

func TestCrash(t *testing.T) {
	ctx := t.Context()
	for mode, wantBoots := range map[CrashMode]int{CrashError: 1, CrashHalf: 2, CrashPanics: 1} {
		c := NewCluster("c", 1)
		n := c.Node("worker")
		c.On([]string{"true"})
		c.Transcript.CrashAt(2, mode)
		must(t, second(clusters.Run(ctx, n, "true")))
		for range 2 { // Dead means dead: the second act fails too, and nothing more happens.
			err := caught(func() error { return n.Reboot(ctx, 0) })
			var crash *CrashedError
			if !errors.As(err, &crash) {
				t.Errorf("mode %d: reboot: %v, want a crash", mode, err)
			}
		}
		if n.Boots() != wantBoots {
			t.Errorf("mode %d: boots = %d, want %d", mode, n.Boots(), wantBoots)
		}
		c.Transcript.CrashAt(0, CrashNever)
		must(t, n.Reboot(ctx, 0))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func second[T any](_ T, err error) error { return err }

func caught(do func() error) (err error) {
	defer func() {
		if r, ok := recover().(error); ok {
			err = r
		}
	}()
	return do()
}
