package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/trial"
)

// batch is a plan and the cases that share its runs.
type batch struct {
	cases []plan.Case
	runs  []attempt
}

// batches groups cases by plan.
func batches(all []plan.Case) []*batch {
	var out []*batch
	for _, c := range all {
		i := slices.IndexFunc(out, func(v *batch) bool { return samePlan(v.cases[0], c) })
		if i < 0 {
			out = append(out, &batch{})
			i = len(out) - 1
		}
		out[i].cases = append(out[i].cases, c)
	}
	return out
}

// runsFor returns the most runs needed to give every case so many attempts. A run of a race is one attempt.
func (v *batch) runsFor(attempts int) int {
	runs := 1
	for _, c := range v.cases {
		if c.Race {
			runs = max(runs, attempts)
		}
		runs = max(runs, (attempts+volumes(c)-1)/volumes(c))
	}
	return runs
}

// enough reports whether every case had so many attempts, and every race was reproduced at least once.
func (v *batch) enough(attempts int) bool {
	return !slices.ContainsFunc(v.cases, func(c plan.Case) bool {
		return len(v.runs)*volumes(c) < attempts || c.Race && v.good(c) == 0
	})
}

// good counts the volumes of all runs with the outcome that the case predicts.
func (v *batch) good(c plan.Case) int {
	sum := 0
	for _, a := range v.runs {
		sum += a.good(c)
	}
	return sum
}

// samePlan compares two plans without their names.
func samePlan(a, b plan.Case) bool {
	pa, pb := plan.Make(a, 1), plan.Make(b, 1)
	pb.Scenario = pa.Scenario
	ta, errA := encode(pa)
	tb, errB := encode(pb)
	return errA == nil && errB == nil && ta == tb
}

// attempt is the outcome of one run.
type attempt struct {
	seed   uint64
	report check.Report
	dir    string
}

// volumes returns the number of volumes in a run of the case.
func volumes(c plan.Case) int { return max(1, c.Volumes) }

// good counts the volumes with the outcome that the case predicts. All checks of a control must pass; UNKNOWN shows
// nothing. With several volumes, only those that were checked one by one count.
func (a attempt) good(c plan.Case) int {
	switch {
	case !c.Control:
		return min(len(a.report.Shows(c.Finding)), volumes(c))
	case a.report.Holds(c) && volumes(c) > 1:
		return min(a.report.Looked(c), volumes(c))
	case a.report.Holds(c):
		return 1
	}
	return 0
}

func (a attempt) line(c plan.Case) string {
	shown := a.report.Shows(c.Finding)
	if broken := a.report.Broken(c); c.Control && len(shown) == 0 && len(broken) > 0 {
		return fmt.Sprintf("seed %d, verdict %s: the finding is absent, but these checks did not pass: %s (%s)", a.seed,
			a.report.Verdict, strings.Join(broken, ", "), a.dir)
	}
	if len(shown) == 0 {
		return fmt.Sprintf("seed %d, verdict %s: the finding is absent (%s)", a.seed, a.report.Verdict, a.dir)
	}
	more := ""
	if len(shown) > 1 {
		more = fmt.Sprintf(" And %d more.", len(shown)-1)
	}
	return fmt.Sprintf("seed %d, verdict %s: %s%s (%s)", a.seed, a.report.Verdict, shown[0].Sentence, more, a.dir)
}

// writeBatches reports the runs of every case; the last line of each is its rate.
func writeBatches(w io.Writer, all []*batch) {
	for _, v := range all {
		for _, c := range v.cases {
			say(w, "%s: %s\n%s", c.Name, c.Report, c.Summary)
			for i, a := range v.runs {
				say(w, "  run %d: %s", i+1, a.line(c))
			}
			what := "reproduced"
			if c.Control {
				what = "prevented"
			}
			say(w, "%s: %s %d of %d", c.Name, what, v.good(c), len(v.runs)*volumes(c))
		}
	}
}

// batchesExit is nil if every run had the predicted outcome, and every race was reproduced on at least one volume.
func batchesExit(all []*batch) error {
	verdicts := []check.Verdict{check.Pass}
	for _, v := range all {
		for _, c := range v.cases {
			for _, a := range v.runs {
				switch {
				case a.good(c) == volumes(c), c.Race && v.good(c) > 0:
				case a.report.Verdict == check.Unknown:
					verdicts = append(verdicts, check.Unknown)
				default:
					verdicts = append(verdicts, check.Fail)
				}
			}
		}
	}
	return verdictExit(check.Worst(verdicts...))
}

// casesNamed returns the cases of those names.
func casesNamed(names []string) ([]plan.Case, error) {
	parts := trial.AllParts()
	var out []plan.Case
	for _, name := range names {
		c, ok := parts.Case(name)
		if !ok {
			var known []string
			for _, k := range parts.Cases {
				known = append(known, k.Name)
			}
			return nil, badArguments("case %q is not known%s; see `seatrial list cases`", name, didYouMean(name, known))
		}
		out = append(out, c)
	}
	return out, nil
}
