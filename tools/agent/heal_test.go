package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
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

func TestHealUndoesOneStep(t *testing.T) {
	notes := stub(t, "nft", `table inet seatrial_r1_3\ntable inet seatrial_r1_4\ntable inet kube-proxy\n`)
	code, stdout, stderr := agent(t, "heal", "--run", "r1", "--step", "3")
	var got undo.Report
	if err := json.Unmarshal([]byte(stdout), &got); code != exitOK || err != nil {
		t.Fatalf("exit code %d, %v, %s", code, err, stderr)
	}
	if d := cmp.Diff(undo.Report{Tables: []string{"seatrial_r1_3"}, Timers: []string{}}, got); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	did, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	want := "nft list tables\nnft -f -\ndelete table inet seatrial_r1_3\n" +
		"find /usr/local/bin -maxdepth 1 -name seatrial-disk\n" +
		"find /var/lib -ignore_readdir_race -mindepth 1 -maxdepth 4 ! -path /var/lib/seatrial " +
		"! -path /var/lib/seatrial/held ! -path /var/lib/seatrial/held/* -prune " +
		"-o -path /var/lib/seatrial/held/* -print\n" +
		"find /run -ignore_readdir_race -mindepth 1 -maxdepth 3 ! -path /run/seatrial " +
		"! -path /run/seatrial/held ! -path /run/seatrial/held/* -prune -o -path /run/seatrial/held/* -print\n" +
		"find /etc -maxdepth 2 -path /etc/kubernetes/admin.conf\n" +
		"systemctl list-units --type=timer --all --full --plain --no-legend seatrial-heal-*.timer\n"
	if d := cmp.Diff(want, string(did)); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
}

func TestHealFailsLoudly(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	code, stdout, stderr := agent(t, "heal")
	if code != exitFailed || !strings.Contains(stderr, "list nftables") || !strings.Contains(stdout, `"tables":[]`) {
		t.Errorf("exit code %d, %q, %q", code, stdout, stderr)
	}
}

func TestProbeAndHealRefuseBadArguments(t *testing.T) {
	for _, args := range [][]string{
		{"heal", "x"}, {"heal", "--step", "3"}, {"heal", "--run", "a b"}, {"heal", "--run", "a", "--step", "-1"},
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
