package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output is what a command wrote, safe to be read while it runs.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// await fails the test when the output does not become want within ten seconds.
func (o *output) await(t *testing.T, want string) {
	t.Helper()
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(10 * time.Second)
	for o.String() != want {
		select {
		case <-ticker.C:
		case <-deadline:
			t.Fatalf("waited 10 s for output %q, last was %q", want, o.String())
		}
	}
}

func runAgent(t *testing.T, in io.Reader, args ...string) (int, string, string) {
	t.Helper()
	var out, messages bytes.Buffer
	std := stdio{in: in, out: &out, err: &messages, log: slog.New(slog.DiscardHandler)}
	code := run(t.Context(), std, args)
	return code, out.String(), messages.String()
}

func TestCommandsAreInOrder(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
		if c.summary == "" || strings.HasSuffix(c.summary, ".") || c.run == nil {
			t.Errorf("command %q: summary %q, run set: %t", c.name, c.summary, c.run != nil)
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(names)) != len(commands()) {
		t.Errorf("commands are not in the order of the alphabet, once each: %v", names)
	}
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{}, {"nothing"}, {"leaks", "x"}, {"damage"}, {"volumes", "grow"}, {"tail"}, {"tail", "a", "b"},
		{"tail", "--from", "x", "a"}, {"tail", "--from", "-1", "a"}, {"tail", "--what", "a"}, {"tail", "-h"},
		{"ledger"}, {"ledger", "--file", ""}, {"ledger", "--file", "a", "b"},
		{"ledger", "--file", "a", "--method", "x"}, {"wait", "long"},
	} {
		code, out, messages := runAgent(t, strings.NewReader(""), args...)
		if code != exitBadArguments || out != "" || messages == "" {
			t.Errorf("%q: exit code %d, output %q, messages %q; want %d and a message",
				args, code, out, messages, exitBadArguments)
		}
	}
}

// TestWait: a pod's container whose program ends is started over and over.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan int, 1)
		go func() { ended <- run(ctx, stdio{}, []string{"wait"}) }()
		synctest.Wait()
		if len(ended) != 0 {
			t.Fatal("it did not wait")
		}
		stop()
		if code := <-ended; code != exitOK {
			t.Errorf("exit code %d", code)
		}
	})
}

func TestTailPrintsFromOffset(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte("one\ntwo\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for from, want := range map[string]string{"0": "one\ntwo\n", "4": "two\n", "8": ""} {
		if code, out, messages := runAgent(t, nil, "tail", "--from", from, path); code != exitOK || out != want {
			t.Errorf("from %s: exit code %d, output %q, messages %q; want %q", from, code, out, messages, want)
		}
	}
	code, _, messages := runAgent(t, nil, "tail", "--from", "9", path)
	if code != exitFailed || !strings.Contains(messages, "shorter") {
		t.Errorf("from behind the end: exit code %d, messages %q", code, messages)
	}
	if code, _, _ := runAgent(t, nil, "tail", path+"x"); code != exitFailed {
		t.Errorf("no such file: exit code %d", code)
	}
}

func TestTailFollowsUntilStandardInputEnds(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "f")
	in, closeIn := io.Pipe()
	var out output
	done := make(chan int, 1)
	go func() {
		std := stdio{in: in, out: &out, err: io.Discard, log: slog.New(slog.DiscardHandler)}
		done <- run(t.Context(), std, []string{"tail", "--follow", "--from", "2", path})
	}()
	// The file appears with its first lines in it: one that is shorter than the offset was replaced, and ends the tail.
	want := "a\nb\n"
	if err := os.WriteFile(path+".new", []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	out.await(t, want[2:])
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for _, part := range []string{"c", "d\n"} {
		if _, err := file.WriteString(part); err != nil {
			t.Fatal(err)
		}
		want += part
		out.await(t, want[2:])
	}
	if err := closeIn.Close(); err != nil {
		t.Fatal(err)
	}
	if code := <-done; code != exitOK {
		t.Errorf("exit code %d, want 0", code)
	}
}
