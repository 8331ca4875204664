package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

func TestUndoWithNothingArmed(t *testing.T) {
	for args, want := range map[string]string{
		"undo --run r-of-this-test --step 3": `{"undone":[]}`, "armed --run r-of-this-test": "[]",
	} {
		code, out, messages := runAgent(t, nil, strings.Fields(args)...)
		if code != exitOK || strings.TrimSpace(out) != want {
			t.Errorf("%s: exit code %d, %q, %s", args, code, out, messages)
		}
	}
}

// TestThawLeavesALaterProcessAlone thaws a process that was stopped, by its start time.
func TestThawLeavesALaterProcessAlone(t *testing.T) {
	sleeper := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	pid := sleeper.Process.Pid
	now, there, err := probe.Read(pid)
	if err != nil || !there {
		t.Fatal(there, err)
	}
	var signalled []int
	kill := func(pid int, _ unix.Signal) error { signalled = append(signalled, pid); return unix.ESRCH }
	identity := func(later int64) string { return fmt.Sprintf("%d:%d", pid, now.Ticks()+later) }
	for _, args := range [][]string{{identity(1)}, {"4194305:7"}} { // A later process, and one that has ended.
		if err := thaw(args, kill); err != nil || len(signalled) > 0 {
			t.Errorf("%q: %v, signalled %v", args, err, signalled)
		}
	}
	if err := thaw([]string{identity(0)}, kill); err != nil || !slices.Equal(signalled, []int{pid}) {
		t.Errorf("%v, signalled %v", err, signalled)
	}
	denied := func(int, unix.Signal) error { return unix.EPERM }
	if err := thaw([]string{identity(0)}, denied); !errors.Is(err, unix.EPERM) {
		t.Errorf("got %v", err)
	}
	if err := sleeper.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = sleeper.Wait() // It was killed.
}

func TestProbeAndUndoRefuseBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"undo", "x"}, {"undo", "--step", "3"}, {"undo", "--run", "a b"}, {"undo", "--run", "a", "--step", "-1"},
		{"arm", "--run", "a", "--life", "0s"}, {"arm", "--run", "a b", "--life", "1s"}, {"disarm"}, {"thaw"},
		{"arm", "--run", "a", "--life", "1s"}, // Without actions.
		{"marks", "--run", "a"}, {"marks", "nodes"}, {"restore-node"},
		{"damage", "inflict", "--run", "a", "--kind", "odd", "v"},
		{"damage", "inflict", "--run", "a", "--kind", "flip", "v"}, {"damage", "look", "--run", "a"},
		{"damage", "file", "a", "b"}, {"thaw", "1:7"}, {"thaw", "70"}, {"restore"}, {"restore", "a"},
		{"qdisc", "--run", "a"}, {"probe"}, {"probe", "icmp"}, {"probe", "tcp"},
		{"probe", "tcp", "--timeout", "0s", "a:1"}, {"probe", "flow"},
		{"probe", "process", "--pid", "x"}, {"probe", "process", "--pod", ""},
		{"probe", "process", "--program", ""}, {"probe", "process", "y"},
	} {
		code, stdout, stderr := runAgent(t, strings.NewReader(""), args...)
		if code != exitBadArguments || stdout != "" || stderr == "" {
			t.Errorf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

func TestProbePrintsJSON(t *testing.T) {
	code, stdout, stderr := runAgent(t, nil, "probe", "process", "--pid", "1")
	var found probe.Processes
	if err := json.Unmarshal([]byte(stdout), &found); code != exitOK || err != nil || len(found.Processes) != 1 {
		t.Errorf("exit code %d, %v, %q, %s", code, err, stdout, stderr)
	}
	code, stdout, stderr = runAgent(t, nil, "probe", "tcp", "127.0.0.1:1", "[::1]:1")
	var connects []probe.Connect
	if err := json.Unmarshal([]byte(stdout), &connects); code != exitOK || err != nil || len(connects) != 2 {
		t.Errorf("exit code %d, %v, %q, %s", code, err, stdout, stderr)
	}
	code, _, stderr = runAgent(t, nil, "probe", "flow", "127.0.0.1:1")
	if code != exitFailed || !strings.Contains(stderr, "open flow") {
		t.Errorf("exit code %d, %s", code, stderr)
	}
}

func TestACommandThatHangsEndsWithItsBound(t *testing.T) {
	const bound = 50 * time.Millisecond
	_, err := here(bound)(t.Context(), []string{"sh", "-c", "sleep 60; true"}, "") // Its child holds the output open.
	if err == nil || !strings.Contains(err.Error(), `run ["sh" "-c" "sleep 60; true"]: it has not ended within 50ms`) {
		t.Errorf("got %v", err)
	}
	out, err := here(time.Minute)(t.Context(), []string{"cat"}, "all is well")
	if err != nil || out != "all is well" {
		t.Errorf("got %q, %v", out, err)
	}
}
