package nightly_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
)

var build = nightly.Build{Commit: "c0ffee", Kubernetes: "v1.37.0"}

func listOf(r *rand.Rand, n int) nightly.List {
	l := nightly.List{Build: build}
	for i := range n {
		l.Units = append(l.Units, nightly.Unit{
			ID: fmt.Sprintf("%016x", i), Name: fmt.Sprintf("unit-%d", i), Workers: 2,
			Estimate: plan.Duration(time.Duration(20+r.IntN(500)) * time.Second),
		})
	}
	return l
}

func sum(l nightly.List) (d time.Duration) {
	for _, u := range l.Units {
		d += u.Estimate.D()
	}
	return d
}

// TestShardsPartitionTheList: every unit is in exactly one part, whatever the order of the list's making, and the
// parts take about equally long.
func TestShardsPartitionTheList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := listOf(rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)), 2000)
		n := rapid.SampledFrom([]int{1, 3, 7, 64}).Draw(t, "n")
		longest := slices.MaxFunc(l.Units, func(a, b nightly.Unit) int { return int(a.Estimate - b.Estimate) })
		seen := map[string]int{}
		for i, part := range l.Shards(n) {
			for _, u := range part.Units {
				seen[u.ID]++
			}
			if fair := sum(l) / time.Duration(n); sum(part) > fair+longest.Estimate.D() {
				t.Fatalf("part %d of %d takes %s of %s", i+1, n, sum(part), sum(l))
			}
		}
		if len(seen) != len(l.Units) {
			t.Fatalf("%d of %d units are in a part", len(seen), len(l.Units))
		}
		for id, times := range seen {
			if times != 1 {
				t.Fatalf("unit %s is in %d parts", id, times)
			}
		}
	})
}

func TestAUnitIsPlanAndBuild(t *testing.T) {
	c := scenarios.All()[0]
	ids := map[string]bool{}
	for _, b := range []nightly.Build{
		build, {"other", "v1.37.0", ""}, {"c0ffee", "v1.36.3", ""}, {"c0ffee", "v1.37.0", "--database-image mysql:8.4"},
	} {
		for seed := range uint64(3) {
			u, err := nightly.NewUnit(c, b, seed)
			if err != nil {
				t.Fatal(err)
			}
			again, err := nightly.NewUnit(c, b, seed)
			if err != nil || again.ID != u.ID {
				t.Fatalf("the same unit is %s and %s, %v", u.ID, again.ID, err)
			}
			ids[u.ID] = true
		}
	}
	if len(ids) != 12 {
		t.Errorf("12 units have %d IDs", len(ids))
	}
	if a, b := nightly.SoakSeed(build, "smoke", 1, 1), nightly.SoakSeed(build, "smoke", 1, 2); a == b {
		t.Errorf("two rounds have one seed, %d", a)
	}
}

// TestJudge: what is as expected depends on what is expected, and only UNKNOWN is neither.
func TestJudge(t *testing.T) {
	rows := check.Result{Check: "rows", Verdict: check.Fail, Findings: []check.Finding{{Sentence: "it lost a row"}}}
	of := func(res ...check.Result) check.Report {
		r := check.Report{Results: res}
		var vs []check.Verdict
		for _, one := range res {
			vs = append(vs, one.Verdict)
		}
		r.Verdict = check.Worst(vs...)
		return r
	}
	kept := check.Result{Check: "rows", Verdict: check.Pass}
	passed := of(kept, check.Result{Check: "coverage", Verdict: check.Pass})
	idle := of(kept, check.Result{Check: "coverage", Verdict: check.Unknown})
	lost, other := of(rows), of(check.Result{Check: "order", Verdict: check.Fail})
	blind := of(check.Result{Check: "rows", Verdict: check.Unknown, Reasons: []string{"whether it lost a row"}})
	halted := of(check.Result{Check: "rows", Verdict: check.Unknown, Reasons: []string{"the trial broke off"}})
	finding := plan.Sign{Check: "rows", Says: "lost"}
	expecting := func(v string) plan.Case { return plan.Case{Expect: v, Finding: finding} }
	bug, control := expecting("FAIL"), expecting("PASS")
	bug.Report, control.Report, control.Control = "issue 1", "issue 1", true
	broken, failing := of(passed.Results[0], passed.Results[1], other.Results[0]), control
	failing.Expect = "FAIL"
	for _, tt := range []struct {
		what string
		c    plan.Case
		r    check.Report
		want check.Verdict
	}{
		{"passes", expecting("PASS"), passed, check.Pass},
		{"fails", expecting("PASS"), lost, check.Fail},
		{"is not shown", expecting("PASS"), blind, check.Unknown},
		{"self-test finds it", expecting("FAIL"), lost, check.Pass},
		{"self-test finds something else", expecting("FAIL"), other, check.Fail},
		{"self-test misses it", expecting("FAIL"), passed, check.Fail},
		{"self-test is blind", expecting("UNKNOWN"), blind, check.Pass},
		{"self-test is blind for another reason", expecting("UNKNOWN"), halted, check.Unknown},
		{"self-test is green", expecting("UNKNOWN"), passed, check.Fail},
		{"bug comes about", bug, lost, check.Pass},
		{"bug does not", bug, other, check.Fail},
		{"control holds", control, passed, check.Pass},
		{"control does not", control, lost, check.Fail},
		{"control is not shown", control, blind, check.Unknown},
		{"control in which nothing happened", control, idle, check.Unknown},
		{"control in which something else fails", control, broken, check.Fail},
		{"control that says so", failing, broken, check.Pass},
	} {
		if got := nightly.Judge(tt.c, tt.r); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.what, got, tt.want)
		}
	}
}
