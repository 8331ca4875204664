package undo_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/fake"
)

const tables = `table ip filter
table inet kube-proxy
table inet seatrial_r1_3
table ip seatrial_r1_4
table inet seatrial_r2_1
table inet seatrial_mine
`

const timers = `seatrial-heal-r1-3.timer loaded active waiting /usr/local/bin/seatrial-agent heal --run r1 --step 3
seatrial-heal-r2-1.timer loaded inactive dead /usr/local/bin/seatrial-agent heal --run r2 --step 1
seatrial-heal-odd.timer loaded active waiting something of others
`

func cluster() *fake.Cluster {
	c := fake.NewCluster("c", 1)
	c.On([]string{"nft", "list", "tables"}, fake.Reply{Stdout: tables}, fake.Reply{Stdout: "table inet kube-proxy\n"})
	c.On([]string{"nft", "-f", "-"})
	c.On([]string{"systemctl", "list-units", "..."}, fake.Reply{Stdout: timers}, fake.Reply{})
	c.On([]string{"systemctl", "stop", "*"})
	c.On([]string{"find", "..."}) // A node without the shared disk's program.
	return c
}

func TestNodeUndoesWhatIsOursAndNothingElse(t *testing.T) {
	for _, tc := range []struct {
		name   string
		only   undo.Only
		tables []string
		timers []string
	}{
		{"all", nil, []string{"seatrial_r1_3", "seatrial_r2_1"}, []string{"seatrial-heal-r1-3.timer"}},
		{"a run", undo.Of("r2", 0), []string{"seatrial_r2_1"}, []string{}},
		{"a step", undo.Of("r1", 3), []string{"seatrial_r1_3"}, []string{"seatrial-heal-r1-3.timer"}},
		{"another step", undo.Of("r1", 30), []string{}, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := cluster()
			run := undo.On(c.Node("worker"))
			got, err := undo.Node(t.Context(), run, tc.only)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(undo.Report{Tables: tc.tables, Timers: tc.timers}, got); d != "" {
				t.Errorf("report (-want +got):\n%s", d)
			}
			for _, a := range c.Transcript.Acts() {
				if text := a.String(); strings.Contains(text, "kube-proxy") || strings.Contains(text, "odd") ||
					strings.Contains(text, "flush") {
					t.Errorf("touches what is not ours: %s", text)
				}
			}
			if again, err := undo.Node(t.Context(), run, tc.only); err != nil || !again.Nothing() {
				t.Errorf("a second heal: %+v, %v", again, err)
			}
		})
	}
}

func TestNodeGoesOnAfterAnError(t *testing.T) {
	c := cluster()
	c.On([]string{"nft", "list", "tables"}, fake.Reply{Stdout: tables})
	c.On([]string{"nft", "-f", "-"}, fake.Reply{ExitCode: 1, Stderr: "Error: busy"})
	got, err := undo.Node(t.Context(), undo.On(c.Node("worker")), nil)
	if err == nil || strings.Count(err.Error(), "busy") != 2 {
		t.Errorf("got %v, want an error for each table", err)
	}
	if d := cmp.Diff([]string{"seatrial-heal-r1-3.timer"}, got.Timers); d != "" {
		t.Errorf("timers (-want +got):\n%s", d)
	}
}

// TestATableThatAnotherHealHasDeleted is no error, and nothing that this one has undone.
func TestATableThatAnotherHealHasDeleted(t *testing.T) {
	c := cluster()
	c.On([]string{"nft", "-f", "-"}, fake.Reply{ExitCode: 1, Stderr: "Error: No such file or directory"})
	got, err := undo.Node(t.Context(), undo.On(c.Node("worker")), undo.Of("r2", 0))
	if err != nil || !got.Nothing() {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestClusterBringsNodesBackFirst(t *testing.T) {
	c := cluster()
	if err := c.Node("worker").Kill(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Node("control-plane").Pause(t.Context()); err != nil {
		t.Fatal(err)
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got, err := undo.Cluster(t.Context(), nodes, undo.Of("r2", 1))
	if err != nil {
		t.Fatal(err)
	}
	want := []undo.Report{
		{Node: "c-control-plane", Tables: []string{"seatrial_r2_1"}, Timers: []string{}, Power: "thawed"},
		{Node: "c-worker", Tables: []string{"seatrial_r2_1"}, Timers: []string{}, Power: "started"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("reports (-want +got):\n%s", d)
	}
}

func TestClusterHealsTheOthersWhenOneNodeIsLost(t *testing.T) {
	c := cluster()
	lost := errors.New("no such container")
	c.Node("control-plane").OnPower("state", fake.Reply{Err: lost})
	c.Node("control-plane").On([]string{"nft", "list", "tables"}, fake.Reply{Err: lost})
	nodes := []clusters.Node{c.Node("control-plane"), c.Node("worker")}
	got, err := undo.Cluster(t.Context(), nodes, nil)
	if !errors.Is(err, lost) || len(got) != 2 || len(got[1].Tables) != 2 {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNodeWaitsForSystemdAfterABoot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := cluster()
		down := fake.Reply{ExitCode: 1, Stderr: "Failed to connect to bus: Host is down"}
		c.On([]string{"systemctl", "list-units", "..."}, down, down, fake.Reply{Stdout: timers})
		begin := time.Now()
		got, err := undo.Node(t.Context(), undo.On(c.Node("worker")), undo.Of("r1", 3))
		if err != nil || len(got.Timers) != 1 || time.Since(begin) != time.Second {
			t.Errorf("got %+v, %v after %s", got, err, time.Since(begin))
		}
		c.On([]string{"systemctl", "list-units", "..."}, down)
		if _, err = undo.Node(t.Context(), undo.On(c.Node("worker")), nil); !errors.Is(err, await.ErrTimeout) {
			t.Errorf("got %v", err)
		}
	})
}

const points = `{"points":[{"id":"seatrial-r1-3","rpc":"NodeStageVolume"},{"id":"seatrial-r2-1"},{"id":"by-hand-1"}]}`

func TestNodeClearsOurFaultPoints(t *testing.T) {
	disk := func(args ...string) []string { return append([]string{undo.DiskPath, "points"}, args...) }
	c := cluster()
	c.On([]string{"find", "/usr/local/bin", "-maxdepth", "1", "-name", "seatrial-disk"},
		fake.Reply{Stdout: undo.DiskPath + "\n"})
	c.On([]string{"find", "/var/lib", "..."},
		fake.Reply{Stdout: "/var/lib/seatrial/disk/node\n/var/lib/seatrial/disk/controller\n"})
	c.On(disk("list", "--state", "/var/lib/seatrial/disk/node"), fake.Reply{Stdout: points})
	c.On(disk("list", "--state", "/var/lib/seatrial/disk/controller"), fake.Reply{ExitCode: 1, Stderr: "torn"},
		fake.Reply{Stdout: points}, fake.Reply{Stdout: "no JSON"})
	c.On(disk("clear", "..."))
	run := undo.On(c.Node("worker"))
	got, err := undo.Node(t.Context(), run, undo.Of("r1", 0))
	if err == nil || !strings.Contains(err.Error(), "controller service") || !strings.Contains(err.Error(), "torn") {
		t.Errorf("got %v, want the error of the controller's list", err)
	}
	if d := cmp.Diff([]string{"seatrial-r1-3"}, got.Points); d != "" || got.Nothing() {
		t.Errorf("points (-want +got):\n%s", d)
	}
	if got, err = undo.Node(t.Context(), run, nil); err != nil || len(got.Points) != 4 {
		t.Errorf("of all runs: %s, %v", got, err)
	}
	for _, a := range c.Transcript.Acts() {
		if text := a.String(); strings.Contains(text, "clear") && strings.Contains(text, "by-hand") {
			t.Errorf("touches what is not ours: %s", text)
		}
	}
	if _, err = undo.Node(t.Context(), run, nil); err == nil || !strings.Contains(err.Error(), "decode answer") {
		t.Errorf("got %v, want an error for an answer that is no list", err)
	}
	c.On(disk("clear", "..."), fake.Reply{ExitCode: 1, Stderr: "busy"})
	c.On(disk("list", "..."), fake.Reply{Stdout: points})
	got, err = undo.Node(t.Context(), run, nil)
	if err == nil || strings.Count(err.Error(), "busy") != 4 || len(got.Points) > 0 {
		t.Errorf("got %s, %v, want an error for each point", got, err)
	}
}

func TestTransactionIsTheSameWhetherTheTableIsThere(t *testing.T) {
	want := "add table inet seatrial_r1_3\ndelete table inet seatrial_r1_3\n"
	if got := undo.TableGone(undo.Owner{Run: "r1", Step: 3}); got != want {
		t.Errorf("got %q", got)
	}
}
