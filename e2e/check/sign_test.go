package check_test

import (
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
	r.Results = append(r.Results, check.Result{Check: "order", Verdict: check.Pass})
	if r.Holds(plan.Sign{Check: "mounts"}) || !r.Holds(plan.Sign{Check: "order"}) || r.Holds(plan.Sign{Check: "no"}) {
		t.Error("a sign holds where its check is a Pass, and nowhere else")
	}
	if got := r.Shows(plan.Sign{Check: "order", Says: "at once"}); got != nil {
		t.Errorf("got %+v of a check that has no result", got)
	}
}
