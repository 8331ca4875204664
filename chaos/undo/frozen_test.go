package undo_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/fake"
)

var frozenOwner = undo.Owner{Run: "r1", Step: 2}

const (
	frozenMark = "/var/lib/seatrial/held/seatrial-r1-2/frozen-etcd"
	frozenGone = "rm -rf /var/lib/seatrial/held/seatrial-r1-2"
	statTail   = " (etcd) T 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 3000 5 6\n"
)

// freezer is a cluster on which pids 70, 71 and 72 are to be thawed: 71 has ended, 72 is another process by now.
func freezer() *fake.Cluster {
	c := cluster()
	c.On([]string{"find", "/var/lib", "..."}, fake.Reply{
		Stdout: "/var/lib/seatrial/held/seatrial-r1-2\n" + frozenMark + "\n" + frozenMark + ".new\n"})
	c.On([]string{"cat", frozenMark}, fake.Reply{Stdout: "70 3000\n71 3000\n72 2999\n"})
	for pid, there := range map[string]string{"70": "/proc/70\n", "71": "", "72": "/proc/72\n"} {
		c.On([]string{"find", "/proc", "-ignore_readdir_race", "-maxdepth", "1", "-name", pid},
			fake.Reply{Stdout: there})
	}
	c.On([]string{"cat", "/proc/70/stat"}, fake.Reply{Stdout: "70" + statTail})
	c.On([]string{"cat", "/proc/72/stat"}, fake.Reply{Stdout: "72" + statTail})
	c.On([]string{"kill", "..."})
	c.On([]string{"rm", "..."})
	return c
}

func killsAndRemovals(c *fake.Cluster) []string {
	var out []string
	for _, a := range c.Transcript.Acts() {
		if a.Argv[0] == "kill" || a.Argv[0] == "rm" {
			out = append(out, strings.Join(a.Argv, " "))
		}
	}
	return out
}

func TestTheFrozenGoOnWhenTheyAreStillThemselves(t *testing.T) {
	c := freezer()
	got, err := undo.Node(t.Context(), undo.On(c.Node("worker")), undo.Of("r1", 2))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"seatrial-r1-2 frozen-etcd frozen-etcd.new"}, got.Held); d != "" {
		t.Errorf("held (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{"kill -s CONT 70", frozenGone}, killsAndRemovals(c)); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
}

func TestAFrozenProcessThatEndsMeanwhileIsNoError(t *testing.T) {
	c := freezer()
	c.On([]string{"find", "/proc", "-ignore_readdir_race", "-maxdepth", "1", "-name", "70"},
		fake.Reply{Stdout: "/proc/70\n"}, fake.Reply{})
	c.On([]string{"kill", "..."}, fake.Reply{ExitCode: 1, Stderr: "No such process"})
	if err := undo.Release(t.Context(), undo.On(c.Node("worker")), frozenOwner); err != nil {
		t.Error(err)
	}
}

func TestAFrozenProcessThatCannotGoOnKeepsItsMark(t *testing.T) {
	for name, hurt := range map[string]func(*fake.Cluster){
		"the mark is broken": func(c *fake.Cluster) {
			c.On([]string{"cat", frozenMark}, fake.Reply{Stdout: "70\n"})
		},
		"the mark names the first process": func(c *fake.Cluster) {
			c.On([]string{"cat", frozenMark}, fake.Reply{Stdout: "1 3000\n"})
		},
		"it cannot be signalled": func(c *fake.Cluster) {
			c.On([]string{"kill", "..."}, fake.Reply{ExitCode: 1, Stderr: "not permitted"})
		},
		"its state cannot be read": func(c *fake.Cluster) {
			c.On([]string{"cat", "/proc/70/stat"}, fake.Reply{Stdout: "70 (etcd"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := freezer()
			hurt(c)
			err := undo.Release(t.Context(), undo.On(c.Node("worker")), frozenOwner)
			if err == nil || !strings.Contains(err.Error(), frozenOwner.Name()) {
				t.Errorf("got %v", err)
			}
			for _, line := range killsAndRemovals(c) {
				if strings.HasPrefix(line, "rm") {
					t.Errorf("the mark is gone: %s", line)
				}
			}
		})
	}
}

func TestFreezeLeavesItsMarkFirst(t *testing.T) {
	c := cluster()
	c.On([]string{"sha256sum", "..."}, fake.Reply{ExitCode: 1}, fake.Reply{Stdout: strings.Repeat("4d", 32) + "  x\n"})
	for _, program := range []string{"mkdir", "dd", "chmod", "mv", "kill"} {
		c.On([]string{program, "..."})
	}
	p := probe.Process{PID: 70, Start: 30e9, Name: "etcd"}
	err := undo.Freeze(t.Context(), c.Node("worker"), frozenOwner, "etcd", p)
	if err == nil || !strings.Contains(err.Error(), "sha256") || len(killsAndRemovals(c)) != 0 {
		t.Errorf("a mark that was not written: got %v, %q", err, killsAndRemovals(c))
	}
	for _, name := range []string{"a.b", "a/b"} {
		if err := undo.Freeze(t.Context(), c.Node("worker"), frozenOwner, name, p); err == nil {
			t.Errorf("%q passes", name)
		}
	}
	if err := undo.Freeze(t.Context(), c.Node("worker"), frozenOwner, "etcd"); err == nil {
		t.Error("no process passes")
	}
}
