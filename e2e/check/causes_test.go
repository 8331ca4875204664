package check_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
)

func found(subject string, at int, faults ...string) check.Finding {
	return check.Finding{Subject: subject, Span: history.At(history.Time(at)), Faults: faults}
}

// TestCauses groups findings by the faults that they share, also through a third one.
func TestCauses(t *testing.T) {
	r := check.Report{Results: []check.Result{
		{Check: "rows", Findings: []check.Finding{
			found("a", 9, "step 10 node-reboot"), found("b", 4), found("c", 5, "step 3 kubelet-kill")}},
		{Check: "mounts", Findings: []check.Finding{
			found("d", 7, "step 3 kubelet-kill", "step 10 node-reboot"), found("e", 3), found("f", 6)}},
	}}
	var got []string
	for _, c := range r.Causes() {
		text := fmt.Sprint(c.Faults, ":")
		for _, f := range c.Found {
			text += " " + f.Check + " " + f.Subject
		}
		got = append(got, text)
	}
	want := []string{"[]: mounts e mounts f", "[]: rows b",
		"[step 3 kubelet-kill step 10 node-reboot]: rows a rows c mounts d"}
	if !slices.Equal(got, want) {
		t.Errorf("causes %q, want %q", got, want)
	}
}

// TestCausesKeepEveryFinding holds that each finding has one cause, whose faults are those of its findings.
func TestCausesKeepEveryFinding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		faults := rapid.SampledFrom([]string{"step 1 a", "step 2 b", "step 3 c", "step 12 d", "odd"})
		var r check.Report
		n := 0
		for i := range rapid.IntRange(0, 4).Draw(t, "checks") {
			res := check.Result{Check: fmt.Sprint("check", i)}
			for range rapid.IntRange(0, 4).Draw(t, "findings") {
				res.Findings = append(res.Findings, found(fmt.Sprint(n), rapid.IntRange(0, 9).Draw(t, "at"),
					rapid.SliceOfN(faults, 0, 3).Draw(t, "faults")...))
				n++
			}
			r.Results = append(r.Results, res)
		}
		seen, by := map[string]bool{}, map[string]int{}
		for i, c := range r.Causes() {
			for _, f := range c.Found {
				if seen[f.Subject] {
					t.Fatalf("finding %s has two causes", f.Subject)
				}
				seen[f.Subject] = true
				for _, name := range f.Faults {
					if other, ok := by[name]; ok && other != i || !slices.Contains(c.Faults, name) {
						t.Fatalf("fault %s is of cause %d and %d", name, other, i)
					}
					by[name] = i
				}
			}
		}
		if len(seen) != n {
			t.Fatalf("%d of %d findings are left", len(seen), n)
		}
	})
}
