package undo_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/undo"
)

func TestNamesLeadBackToTheirOwner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := undo.Owner{
			Run:  rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9.-]{0,40}`).Draw(t, "run"),
			Step: rapid.IntRange(0, 2000).Draw(t, "step"),
		}
		if err := o.Check(); err != nil {
			t.Fatal(err)
		}
		if got, ok := undo.FromTable(o.Table()); !ok || got != o {
			t.Fatalf("table %q: got %v, %v", o.Table(), got, ok)
		}
		if got, ok := undo.FromTimer(o.Timer()); !ok || got != o {
			t.Fatalf("timer %q: got %v, %v", o.Timer(), got, ok)
		}
		if got, ok := undo.FromName(o.Name()); !ok || got != o {
			t.Fatalf("name %q: got %v, %v", o.Name(), got, ok)
		}
	})
}

func TestNamesOfOthersAreNotOurs(t *testing.T) {
	for _, name := range []string{
		"", "filter", "kube-proxy", "seatrial", "seatrial_", "seatrial_run", "seatrial_run_x", "seatrial_run_007",
		"seatrial_run_-1", "seatrial__1", "seatrial_a b_1", "seatrial_a;drop_1", "xseatrial_run_1",
		"seatrial_" + strings.Repeat("a", 101) + "_1",
	} {
		if o, ok := undo.FromTable(name); ok {
			t.Errorf("table %q passes for one of %v", name, o)
		}
	}
	for _, name := range []string{"", "cron.timer", "seatrial-heal-run-1.service", "seatrial-heal-run.timer",
		"seatrial-heal--1.timer", "seatrial-agent.timer", "seatrial-heal-run-01.timer"} {
		if o, ok := undo.FromTimer(name); ok {
			t.Errorf("timer %q passes for one of %v", name, o)
		}
	}
	for _, name := range []string{
		"", "r-1", "seatrial-", "seatrial-run", "seatrial-run-01", "seatrial--1", "seatrial_r_1",
	} {
		if o, ok := undo.FromName(name); ok {
			t.Errorf("name %q passes for one of %v", name, o)
		}
	}
}

func TestCheckRefusesWhatNeedsQuoting(t *testing.T) {
	for _, run := range []string{"", "-a", "a_b", "a b", "a;b", "a/b", "ä", "a\n", strings.Repeat("a", 101)} {
		if err := (undo.Owner{Run: run}).Check(); err == nil {
			t.Errorf("run id %q passes", run)
		}
	}
	if err := (undo.Owner{Run: "a", Step: -1}).Check(); err == nil {
		t.Error("step -1 passes")
	}
}
