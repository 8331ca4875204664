package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
)

// shown is a run in which a finding appeared for so many volumes.
func shown(volumes int) attempt {
	r := check.Result{Check: "mounts", Verdict: check.Pass}
	for i := range volumes {
		r.Verdict = check.Fail
		r.Findings = append(r.Findings, check.Finding{Subject: fmt.Sprint("volume ", i), Sentence: "mounted twice"})
	}
	return attempt{Report: check.Report{Verdict: r.Verdict, Results: []check.Result{r}}}
}

// TestARaceIsRunUntilItIsWon holds how many runs a case gets, what is said of them, and how the command ends.
func TestARaceIsRunUntilItIsWon(t *testing.T) {
	t.Parallel()
	sign := plan.Sign{Check: "mounts", Says: "twice"}
	sure := plan.Case{Name: "it", Finding: sign, Volumes: 5}
	race := sure
	race.Race = true
	single := race
	single.Volumes = 0
	for name, tc := range map[string]struct {
		of     plan.Case
		runs   []attempt
		most   int
		enough bool
		good   bool
		says   string
	}{
		"nothing run":                {race, nil, 5, false, true, "0 of 0"},
		"all volumes at once":        {sure, []attempt{shown(5)}, 1, true, true, "5 of 5"},
		"not all volumes":            {sure, []attempt{shown(3)}, 1, true, false, "3 of 5"},
		"a race won in one volume":   {race, []attempt{shown(1)}, 5, true, true, "1 of 5"},
		"a race lost, and run again": {race, []attempt{shown(0)}, 5, false, false, "0 of 5"},
		"a race won the second time": {race, []attempt{shown(0), shown(2)}, 5, true, true, "2 of 10"},
		"won, and too few volumes":   {single, []attempt{shown(1)}, 5, false, true, "1 of 1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			v := &batch{cases: []plan.Case{tc.of}, runs: tc.runs}
			if got := v.runsFor(5); got != tc.most {
				t.Errorf("%d runs at most, want %d", got, tc.most)
			}
			if got := v.enough(5); got != tc.enough {
				t.Errorf("enough is %t", got)
			}
			var failed *exitError
			if err := batchesExit([]*batch{v}); (err == nil) != tc.good || err != nil && !errors.As(err, &failed) {
				t.Errorf("exit: %v", err)
			}
			var out strings.Builder
			if err := writeBatches(&out, []*batch{v}, "text"); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(out.String(), "reproduced "+tc.says) {
				t.Errorf("does not say %q:\n%s", tc.says, out.String())
			}
		})
	}
}
