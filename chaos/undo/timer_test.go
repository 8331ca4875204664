package undo_test

import (
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
	n.On([]string{"systemctl", "stop", "*"}, fake.Reply{ExitCode: 5, Stderr: "Unit not loaded."}, fake.Reply{})
	n.On([]string{"systemctl", "is-active", "*"}, fake.Reply{Stdout: "active\n"})
	n.On([]string{"systemd-run", "..."})
	if err := undo.Arm(t.Context(), n, owner, 95*time.Second); err != nil {
		t.Fatal(err)
	}
	if err := undo.Disarm(t.Context(), n, owner); err != nil {
		t.Fatal(err)
	}
	want := "c-worker: systemctl stop seatrial-heal-r1-3.timer\n" +
		"c-worker: systemd-run --quiet --collect --unit=seatrial-heal-r1-3 --on-active=95s" +
		" --timer-property=AccuracySec=1ms /usr/local/bin/seatrial-agent heal --run r1 --step 3\n" +
		"c-worker: systemctl is-active seatrial-heal-r1-3.timer\n" +
		"c-worker: systemctl stop seatrial-heal-r1-3.timer\n"
	if d := cmp.Diff(want, c.Transcript.String()); d != "" {
		t.Errorf("commands (-want +got):\n%s", d)
	}
}

func TestArmFailsWhenTheTimerDoesNotRun(t *testing.T) {
	n := fake.NewCluster("c", 1).Node("worker")
	n.On([]string{"systemctl", "stop", "*"})
	n.On([]string{"systemctl", "is-active", "*"}, fake.Reply{Stdout: "inactive\n", ExitCode: 3})
	n.On([]string{"systemd-run", "..."})
	err := undo.Arm(t.Context(), n, owner, time.Second)
	if err == nil || !strings.Contains(err.Error(), `state "inactive"`) {
		t.Errorf("got %v", err)
	}
	n.On([]string{"systemctl", "stop", "*"}, fake.Reply{ExitCode: 1, Stderr: "no bus"})
	if err := undo.Disarm(t.Context(), n, owner); err == nil {
		t.Error("a timer that cannot be stopped is no error")
	}
	if err := undo.Arm(t.Context(), n, undo.Owner{Run: "a b"}, time.Second); err == nil {
		t.Error("a run id that needs quoting passes")
	}
}

func TestControlPlaneArmsOnItsNodesAlone(t *testing.T) {
	c := fake.NewCluster("c", 1)
	c.On([]string{"systemctl", "..."})
	c.On([]string{"systemd-run", "..."})
	if err := undo.ArmControlPlane(t.Context(), c, owner, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := undo.DisarmControlPlane(t.Context(), c, owner); err != nil {
		t.Fatal(err)
	}
	text := c.Transcript.String()
	if strings.Contains(text, "c-worker:") || strings.Count(text, "c-control-plane: systemctl stop") != 2 {
		t.Errorf("commands:\n%s", text)
	}
	c.Node("control-plane").On([]string{"systemd-run", "..."}, fake.Reply{ExitCode: 1, Stderr: "no bus"})
	if err := undo.ArmControlPlane(t.Context(), c, owner, time.Minute); err == nil {
		t.Error("a timer that could not be armed is no error")
	}
}
