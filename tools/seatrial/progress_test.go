package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// TestSilenceIsBroken holds that a wait is told every 30 seconds, and that lines are not broken.
func TestSilenceIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := newNarrator(&out)
		read := func() string {
			n.mu.Lock()
			defer n.mu.Unlock()
			defer out.Reset()
			return out.String()
		}
		go n.narrate(t.Context(), nil)
		at := func(d time.Duration, want string) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := read(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
		say(n, "making images (20 min)\n  etcd: building")
		at(29*time.Second, "making images (20 min)\n  etcd: building\n")
		at(2*time.Second, "  ... for 30s: etcd: building\n")
		at(60*time.Second, "  ... for 1m0s: etcd: building\n  ... for 1m30s: etcd: building\n")
		say(n, "done\n")
		at(29*time.Second, "done\n\n")
		if _, err := n.Write([]byte("half a line")); err != nil {
			t.Fatal(err)
		}
		at(100*time.Second, "half a line")
		n.stands()
		at(0, "no trial is running\nthe last message is 2m9s old: done\n")
	})
}

func TestEachMessageOfALaneNamesItsCluster(t *testing.T) {
	var out bytes.Buffer
	say(laneWriter{&out, "c-2"}, "making cluster\n  step 1")
	if got, want := out.String(), "c-2  making cluster\nc-2    step 1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestTerminalIsRedrawn holds that a wait is one line at a terminal, which gives way to messages.
func TestTerminalIsRedrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := newNarrator(&out)
		n.redraw = true
		say(n, "node image 2/11: compile kubernetes v1.37.0 (about 11m on two idle cores)")
		time.Sleep(61 * time.Second)
		out.Reset()
		n.tick()
		n.tick()
		say(n, "done")
		const line = "  ... 1m1s, about 9m59s left: node image 2/11: compile kubernetes v1.37.0 (abou"
		n.expect(90 * time.Second)
		time.Sleep(10 * time.Second)
		n.tick()
		want := line + "\r\x1b[K" + line + "\r\x1b[Kdone\n  ... 10s, about 1m20s of the trial left: done"
		if got := out.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// TestSIGUSR1IsAnswered starts this test as seatrial, which waits for its input, and asks it where it stands.
func TestSIGUSR1IsAnswered(t *testing.T) {
	if os.Getenv("SEATRIAL_TEST_MAIN") != "" {
		os.Args = []string{"seatrial", "plan", "import", "-"}
		main()
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSIGUSR1IsAnswered$")
	cmd.Env = append(os.Environ(), "SEATRIAL_TEST_MAIN=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	answer := make(chan string, 1)
	go func() {
		buf := make([]byte, 4096)
		size, _ := stderr.Read(buf) // Without an answer it is empty, which fails.
		answer <- string(buf[:size])
	}()
	got, tick := "", time.NewTicker(100*time.Millisecond)
	for got == "" && ctx.Err() == nil {
		select {
		case got = <-answer:
		case <-tick.C:
			// The signal ends a process that does not handle it yet, so ask only one that does.
			if handles(t, cmd.Process.Pid, syscall.SIGUSR1) {
				if err := cmd.Process.Signal(syscall.SIGUSR1); err != nil {
					t.Fatal(err)
				}
			}
		case <-ctx.Done():
		}
	}
	if !strings.Contains(got, "no trial is running") {
		t.Errorf("answer %q", got)
	}
	in.Close()
	if err := cmd.Wait(); err == nil || cmd.ProcessState.ExitCode() != exitArguments {
		t.Errorf("an empty manifest ends with %v", err)
	}
}

// handles reports whether a process has a handler of a signal.
func handles(t *testing.T, pid int, s syscall.Signal) bool {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if mask, ok := strings.CutPrefix(line, "SigCgt:"); ok {
			caught, err := strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			if err != nil {
				t.Fatal(err)
			}
			return caught&(1<<(s-1)) != 0
		}
	}
	return false
}
