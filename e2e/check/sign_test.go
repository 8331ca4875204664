package check_test

import (
	"slices"
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
)

func TestShowsCountsSubjectsOfTheSign(t *testing.T) {
	r := check.Report{Results: []check.Result{
		{Check: "mounts", Findings: []check.Finding{
			{Subject: "volume a", Sentence: "Volume a was mounted on n1 and on n2 at once."},
			{Subject: "volume a", Sentence: "Volume a was mounted on n1 and on n3 at once."},
			{Subject: "volume b", Sentence: "Volume b was mounted on n1 and on n2 at once."},
			{Subject: "volume c", Sentence: "Volume c is another matter."},
		}},
		{Check: "rows", Findings: []check.Finding{{Subject: "row", Sentence: "lost at once"}}},
	}}
	got := r.Shows(plan.Sign{Check: "mounts", Says: "at once"})
	if len(got) != 2 || got[0].Subject != "volume a" || got[1].Subject != "volume b" {
		t.Errorf("got %+v, want the first of volume a and of volume b", got)
	}
	if got := r.Shows(plan.Sign{Check: "order", Says: "at once"}); got != nil {
		t.Errorf("got %+v of a check that has no result", got)
	}
}

// TestHoldsNeedsEveryCheckOfTheControl holds that a control holds only if each check that it names passes, and
// coverage: where nothing happened, nothing was prevented.
func TestHoldsNeedsEveryCheckOfTheControl(t *testing.T) {
	for _, c := range []struct {
		coverage check.Verdict
		checks   []string
		want     []string
	}{
		{check.Pass, []string{"mounts"}, nil},
		{check.Pass, []string{"mounts", "rows"}, nil},
		{check.Pass, []string{"order"}, []string{"order is FAIL"}},
		{check.Pass, []string{"rows", "witness"}, []string{"witness did not judge"}},
		{check.Unknown, []string{"mounts"}, []string{"coverage is UNKNOWN"}},
		{check.Unknown, []string{"mounts", "coverage", "rows", "order"},
			[]string{"coverage is UNKNOWN", "order is FAIL"}},
		{"", []string{"mounts"}, []string{"coverage did not judge"}},
	} {
		r := check.Report{Verdict: check.Fail, Results: []check.Result{
			{Check: "coverage", Verdict: c.coverage}, {Check: "mounts", Verdict: check.Pass},
			{Check: "order", Verdict: check.Fail}, {Check: "rows", Verdict: check.Pass},
		}}
		control := plan.Case{
			Finding: plan.Sign{Check: c.checks[0]}, Control: true, Holds: c.checks[1:],
		}
		if got := r.Broken(control); !slices.Equal(got, c.want) || r.Holds(control) != (len(c.want) == 0) {
			t.Errorf("%q: broken %q, holds %t, want %q", c.checks, got, r.Holds(control), c.want)
		}
	}
}
