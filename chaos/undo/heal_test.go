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

// records are what is armed on a node, and files of others.
const records = `/var/lib/seatrial/undo/seatrial-r1-3.json
/var/lib/seatrial/undo/by-hand.json
/run/seatrial/undo/seatrial-r2-1.json
`

// record is an undo of two actions.
const record = `{"schema":1,"run":"r1","step":3,"deadline":5,"actions":[{"argv":["one"]},{"argv":["two"],"stdin":"x"}]}`

const timers = `seatrial-heal-r1-3.timer loaded active waiting /usr/local/bin/seatrial-agent undo --run r1 --step 3
seatrial-heal-r2-1.timer loaded inactive dead /usr/local/bin/seatrial-agent undo --run r2 --step 1
seatrial-heal-odd.timer loaded active waiting something of others
`

func cluster() *fake.Cluster {
	c := fake.NewCluster("c", 1)
	for _, program := range []string{"one", "two", "rm"} {
		c.On([]string{program, "..."})
	}
	c.On([]string{"cat", "..."}, fake.Reply{Stdout: record})
	c.On([]string{"systemctl", "list-units", "..."}, fake.Reply{Stdout: timers}, fake.Reply{})
	c.On([]string{"systemctl", "stop", "*"})
	c.On([]string{"find", "..."})
	c.On([]string{"find", "/var/lib", "/run", "..."}, fake.Reply{Stdout: records}, fake.Reply{})
	return c
}

func TestNodeUndoesWhatIsOursAndNothingElse(t *testing.T) {
	for _, tc := range []struct {
		name   string
		only   undo.Only
		undone []string
		timers []string
	}{
		{"all", nil, []string{"seatrial-r2-1", "seatrial-r1-3"}, []string{"seatrial-heal-r1-3.timer"}},
		{"a run", undo.Of("r2", 0), []string{"seatrial-r2-1"}, []string{}},
		{"a step", undo.Of("r1", 3), []string{"seatrial-r1-3"}, []string{"seatrial-heal-r1-3.timer"}},
		{"another step", undo.Of("r1", 30), []string{}, []string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := cluster()
			run := undo.On(c.Node("worker"))
			got, err := undo.Node(t.Context(), run, tc.only)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(undo.Report{Undone: tc.undone, Timers: tc.timers}, got); d != "" {
				t.Errorf("report (-want +got):\n%s", d)
			}
			for _, a := range c.Transcript.Acts() {
				if text := a.String(); strings.Contains(text, "by-hand") || strings.Contains(text, "odd") {
					t.Errorf("touches what others made: %s", text)
				}
			}
			if again, err := undo.Node(t.Context(), run, tc.only); err != nil || !again.Nothing() {
				t.Errorf("a second heal: %+v, %v", again, err)
			}
		})
	}
}

// acts returns the commands that carry out and remove records.
func acts(c *fake.Cluster) []string {
	var out []string
	for _, a := range c.Transcript.Acts() {
		if a.Argv[0] == "one" || a.Argv[0] == "two" || a.Argv[0] == "rm" {
			out = append(out, strings.Join(a.Argv, " "))
		}
	}
	return out
}

// TestARecordStaysUntilItIsCarriedOut breaks an action: the others are carried out, and a later heal tries again.
func TestARecordStaysUntilItIsCarriedOut(t *testing.T) {
	owner := undo.Owner{Run: "r1", Step: 3}
	const gone = "rm -f /var/lib/seatrial/undo/seatrial-r1-3.json"
	c := cluster()
	c.On([]string{"find", "/var/lib", "/run", "..."}, fake.Reply{Stdout: records})
	if err := undo.CarryOut(t.Context(), undo.On(c.Node("worker")), owner); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"one", "two", gone}, acts(c)); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	for name, hurt := range map[string]func(*fake.Cluster){
		"an action fails": func(c *fake.Cluster) {
			c.On([]string{"one", "..."}, fake.Reply{ExitCode: 1, Stderr: "busy"})
		},
		"it cannot be read": func(c *fake.Cluster) { c.On([]string{"cat", "..."}, fake.Reply{ExitCode: 1}) },
		"it is torn":        func(c *fake.Cluster) { c.On([]string{"cat", "..."}, fake.Reply{Stdout: record[:40]}) },
		"a later schema": func(c *fake.Cluster) {
			c.On([]string{"cat", "..."}, fake.Reply{Stdout: `{"schema":2}`})
		},
	} {
		c := cluster()
		c.On([]string{"find", "/var/lib", "/run", "..."}, fake.Reply{Stdout: records})
		hurt(c)
		err := undo.CarryOut(t.Context(), undo.On(c.Node("worker")), owner)
		if err == nil || !strings.Contains(err.Error(), "seatrial-r1-3") {
			t.Errorf("%s: got %v", name, err)
		}
		for _, line := range acts(c) {
			if strings.HasPrefix(line, "rm") {
				t.Errorf("%s: the record is gone: %s", name, line)
			}
		}
		if name == "an action fails" && !strings.Contains(strings.Join(acts(c), " "), "two") {
			t.Errorf("the next action was not carried out: %q", acts(c))
		}
	}
}

// TestARecordThatAnotherHealHasCarriedOut is no error, and nothing that this one has undone.
func TestARecordThatAnotherHealHasCarriedOut(t *testing.T) {
	c := cluster()
	c.On([]string{"cat", "..."}, fake.Reply{ExitCode: 1, Stderr: "No such file or directory"})
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
		{Node: "c-control-plane", Undone: []string{"seatrial-r2-1"}, Timers: []string{}, Power: "thawed"},
		{Node: "c-worker", Undone: []string{"seatrial-r2-1"}, Timers: []string{}, Power: "started"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("reports (-want +got):\n%s", d)
	}
}

func TestClusterHealsTheOthersWhenOneNodeIsLost(t *testing.T) {
	c := cluster()
	lost := errors.New("no such container")
	c.Node("control-plane").OnPower("state", fake.Reply{Err: lost})
	c.Node("control-plane").On([]string{"find", "/var/lib", "/run", "..."}, fake.Reply{Err: lost})
	nodes := []clusters.Node{c.Node("control-plane"), c.Node("worker")}
	got, err := undo.Cluster(t.Context(), nodes, nil)
	if !errors.Is(err, lost) || len(got) != 2 || len(got[1].Undone) != 2 {
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

func TestTransactionIsTheSameWhetherTheTableIsThere(t *testing.T) {
	want := "add table inet seatrial_r1_3\ndelete table inet seatrial_r1_3\n"
	if got := undo.DeleteTable(undo.Owner{Run: "r1", Step: 3}).Stdin; got != want {
		t.Errorf("got %q", got)
	}
}
