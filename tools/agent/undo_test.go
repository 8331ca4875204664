package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/nodeagent/procs"
	"github.com/seatrial/seatrial/chaos/undo"
)

// stub puts a program into a directory that is made the only PATH: it notes its arguments and standard input.
func stub(t *testing.T, name, answer string) (notes string) {
	t.Helper()
	dir := t.TempDir()
	notes = filepath.Join(dir, "notes")
	for _, program := range []string{"find", "nft", "systemctl"} {
		says := ""
		if program == name {
			says = answer
		}
		script := strings.NewReplacer("PROGRAM", program, "NOTES", notes, "SAYS", says).Replace(`#!/bin/sh
{
	echo PROGRAM "$@"
	if [ "$1" = -f ]; then while read -r l; do echo "$l"; done; fi
} >>NOTES
case "$*" in *list*) printf 'SAYS' ;; esac
`)
		if err := os.WriteFile(filepath.Join(dir, program), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	return notes
}

func agent(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	std := stdio{in: strings.NewReader(""), out: &out, err: &errs, log: slog.New(slog.DiscardHandler)}
	code = run(t.Context(), std, args)
	return code, out.String(), errs.String()
}

func TestUndoUndoesOneStep(t *testing.T) {
	notes := stub(t, "systemctl", "")
	code, stdout, stderr := agent(t, "undo", "--run", "r1", "--step", "3")
	var got undo.Report
	if err := json.Unmarshal([]byte(stdout), &got); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	if d := cmp.Diff(undo.Report{Undone: []string{}, Timers: []string{}}, got); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	did, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	want := "find /var/lib /run -ignore_readdir_race -mindepth 1 -maxdepth 3 ! -path /var/lib/seatrial " +
		"! -path /var/lib/seatrial/undo ! -path /var/lib/seatrial/undo/* ! -path /run/seatrial " +
		"! -path /run/seatrial/undo ! -path /run/seatrial/undo/* -prune -o -path */seatrial/undo/*.json -print\n" +
		"find /var/lib -ignore_readdir_race -mindepth 1 -maxdepth 4 ! -path /var/lib/seatrial " +
		"! -path /var/lib/seatrial/held ! -path /var/lib/seatrial/held/* -prune " +
		"-o -path /var/lib/seatrial/held/* -print\n" +
		"find /etc -maxdepth 2 -path /etc/kubernetes/admin.conf\n" +
		"systemctl list-units --type=timer --all --full --plain --no-legend seatrial-heal-*.timer\n"
	if d := cmp.Diff(want, string(did)); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
}

func TestUndoFailsLoudly(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, stdout, stderr := agent(t, "undo")
	if code != exitFailed || !strings.Contains(stderr, "look for what is armed") ||
		!strings.Contains(stdout, `"undone":[]`) {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}

// TestThawLeavesALaterProcessAlone thaws a process that was stopped, by its start time.
func TestThawLeavesALaterProcessAlone(t *testing.T) {
	sleeper := exec.CommandContext(t.Context(), "sleep", "60")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	pid := sleeper.Process.Pid
	now, there, err := procs.Read(pid)
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
		{"thaw", "1:7"}, {"thaw", "70"}, {"restore"}, {"restore", "a"}, {"qdisc", "--run", "a"},
		{"probe"}, {"probe", "icmp"}, {"probe", "tcp"}, {"probe", "tcp", "--timeout", "0s", "a:1"}, {"probe", "flow"},
		{"probe", "process", "--pid", "x"}, {"probe", "process", "--pod", ""},
		{"probe", "process", "--program", ""}, {"probe", "process", "y"},
	} {
		if code, stdout, stderr := agent(t, args...); code != exitBadArguments || stdout != "" || stderr == "" {
			t.Errorf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}

func TestProbePrintsJSON(t *testing.T) {
	code, stdout, stderr := agent(t, "probe", "process", "--pid", "1")
	var found probe.Processes
	if err := json.Unmarshal([]byte(stdout), &found); code != exitOK || err != nil || len(found.Processes) != 1 {
		t.Errorf("exit code %d, %v, %q, %s", code, err, stdout, stderr)
	}
	code, stdout, stderr = agent(t, "probe", "tcp", "127.0.0.1:1", "[::1]:1")
	var connects []probe.Connect
	if err := json.Unmarshal([]byte(stdout), &connects); code != exitOK || err != nil || len(connects) != 2 {
		t.Errorf("exit code %d, %v, %q, %s", code, err, stdout, stderr)
	}
	code, _, stderr = agent(t, "probe", "flow", "127.0.0.1:1")
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
