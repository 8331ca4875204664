package undo_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters/fake"
)

var owner = undo.Owner{Run: "r1", Step: 3}

func TestArmAndDisarm(t *testing.T) {
	c := fake.NewCluster("c", 1)
	n := c.Node("worker")
	n.On([]string{undo.AgentPath, "..."})
	task := undo.Task{Node: n, Actions: []undo.Action{undo.Command("a", "b")}, UntilBoot: true, Longer: 5 * time.Second}
	if err := undo.Arm(t.Context(), task, owner, 90*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := undo.Disarm(t.Context(), n, owner); err != nil {
		t.Fatal(err)
	}
	want := "c-worker: /usr/local/bin/seatrial-agent arm --run r1 --step 3 --life 1m35s --until-boot\n" +
		`    | [{"argv":["a","b"]}]` + "\n" +
		"c-worker: /usr/local/bin/seatrial-agent disarm --run r1 --step 3\n"
	if d := cmp.Diff(want, c.Transcript.String()); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
	if err := undo.Arm(t.Context(), task, undo.Owner{Run: "a b"}, time.Second); err == nil {
		t.Error("a run id that needs quoting passes")
	}
}

// systemd answers for one, and notes what it was asked.
type systemd struct {
	asked []string
	armed bool
	state error // Of is-active.
	stop  error
}

func (s *systemd) run(_ context.Context, argv []string, _ string) (string, error) {
	line := strings.Join(argv, " ")
	s.asked = append(s.asked, line)
	switch {
	case strings.HasPrefix(line, "systemctl is-active"):
		return "", s.state
	case strings.HasPrefix(line, "systemctl stop"):
		return "", s.stop
	case strings.HasPrefix(line, "systemctl list-units") && s.armed:
		return owner.Timer() + " loaded active waiting x\n", nil
	}
	return "", nil
}

func TestArmKeepsTheRecordBeforeTheTimer(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, undo.RecordDir, "seatrial-r1-3.json")
	s := &systemd{armed: true}
	there := false
	run := func(ctx context.Context, argv []string, stdin string) (string, error) {
		if argv[0] == "systemd-run" {
			_, err := os.Stat(path)
			there = err == nil
		}
		return s.run(ctx, argv, stdin)
	}
	actions := []undo.Action{{Argv: []string{"a"}, Stdin: "b"}}
	if err := undo.ArmHere(t.Context(), run, root, owner, 95*time.Second, false, actions); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"systemctl stop seatrial-heal-r1-3.timer",
		"systemd-run --quiet --collect --unit=seatrial-heal-r1-3 --on-active=95s --timer-property=AccuracySec=1ms " +
			"/usr/local/bin/seatrial-agent undo --run r1 --step 3",
		"systemctl is-active seatrial-heal-r1-3.timer",
	}
	if d := cmp.Diff(want, s.asked[1:]); d != "" || !there {
		t.Errorf("the record is there: %t; commands (-want +got):\n%s", there, d)
	}
	data, err := os.ReadFile(path)
	var got undo.Record
	if err != nil || json.Unmarshal(data, &got) != nil || got.Owner() != owner || got.Deadline <= 0 {
		t.Errorf("%v, %s", err, data)
	}
	if d := cmp.Diff(actions, got.Actions); d != "" {
		t.Errorf("actions (-want +got):\n%s", d)
	}
	for range 2 {
		if err := undo.DisarmHere(t.Context(), run, root, owner); err != nil {
			t.Fatal(err)
		}
		s.armed = false
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the record is there: %v", err)
	}
}

func TestArmFailsWhenTheTimerDoesNotRun(t *testing.T) {
	bad := errors.New("inactive")
	s := &systemd{state: bad}
	if err := undo.ArmHere(t.Context(), s.run, t.TempDir(), owner, time.Second, true, nil); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	s = &systemd{armed: true, stop: bad}
	if err := undo.DisarmHere(t.Context(), s.run, t.TempDir(), owner); !errors.Is(err, bad) {
		t.Errorf("a timer that cannot be stopped: got %v", err)
	}
}

func TestWriteFileReplacesAtOnce(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "manifests", "a.yaml")
	if err := os.Mkdir(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"one", "two"} {
		if err := undo.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := undo.WriteFile(path, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
			t.Errorf("a file that has the content already was replaced: %v", err)
		}
		if got, err := os.ReadFile(path); string(got) != content || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); len(entries) != 1 || err != nil {
		t.Errorf("left beside it: %v, %v", entries, err)
	}
}

func TestControlPlaneIsFound(t *testing.T) {
	tasks, err := undo.OnControlPlane(t.Context(), fake.NewCluster("c", 1))
	if err != nil || len(tasks) != 1 || tasks[0].Node.Name() != "c-control-plane" {
		t.Errorf("got %+v, %v", tasks, err)
	}
}
