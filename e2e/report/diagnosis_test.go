package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/world"
)

// TestStuckInTheEnd: the report of a trial that did not pass says what was stuck in the end, and no other does.
func TestStuckInTheEnd(t *testing.T) {
	const heading = "WHAT IS STUCK"
	stuck := historytest.Web(historytest.SetSpec{Replicas: 3}).Up(0, 1, 2).Unready(0).
		Change(func(s *historytest.SetSpec) { s.Replicas = 1 }).Told(20)
	moved := historytest.Web(historytest.SetSpec{Replicas: 3}).Up(0, 1, 2).Told(20)
	write := func(verdict check.Verdict, of string) string {
		h := stuck
		if of == "moved" {
			h = moved
		}
		var b bytes.Buffer
		if err := report.WriteText(&b, report.Judged{Run: someRun(), World: world.New(h),
			Report: check.Report{Verdict: verdict}}, report.Options{}); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	got := write(check.Fail, "stuck")
	for _, want := range []string{heading, "to delete web-2: 1 replica is wanted", "pod web-0, not Ready"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	const still = "WHAT STOOD STILL"
	passed := write(check.Pass, "stuck")
	if strings.Contains(passed, heading) {
		t.Error("a report of a PASS says what is stuck")
	}
	for _, want := range []string{still, "wants to delete web-2; pod web-0, not Ready, blocks it", "by the end"} {
		if !strings.Contains(passed, want) {
			t.Errorf("no %q in:\n%s", want, passed)
		}
	}
	if moved := write(check.Fail, "moved"); strings.Contains(moved, heading) || strings.Contains(moved, still) {
		t.Error("what was not stuck is said to be")
	}
}
