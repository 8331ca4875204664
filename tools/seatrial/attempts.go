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

// voyage is a plan that one or more cases are looked for in: cases that differ in what they look for share their runs.
type voyage struct {
	cases []plan.Case
	runs  []attempt
}

// voyages puts cases with the same plan together.
func voyages(all []plan.Case) []*voyage {
	var out []*voyage
	for _, c := range all {
		i := slices.IndexFunc(out, func(v *voyage) bool { return samePlan(v.cases[0], c) })
		if i < 0 {
			out = append(out, &voyage{})
			i = len(out) - 1
		}
		out[i].cases = append(out[i].cases, c)
	}
	return out
}

// runsFor is how many runs give every case of the voyage so many attempts, at most: of a race each run is one.
func (v *voyage) runsFor(attempts int) int {
	runs := 1
	for _, c := range v.cases {
		if c.Race {
			runs = max(runs, attempts)
		}
		runs = max(runs, (attempts+volumes(c)-1)/volumes(c))
	}
	return runs
}

// enough reports that every case has had so many attempts, and that those which depend on a race were won once.
func (v *voyage) enough(attempts int) bool {
	return !slices.ContainsFunc(v.cases, func(c plan.Case) bool {
		return len(v.runs)*volumes(c) < attempts || c.Race && v.good(c) == 0
	})
}

// good is how many volumes of all runs came out as the case says.
func (v *voyage) good(c plan.Case) int {
	sum := 0
	for _, a := range v.runs {
		sum += a.good(c)
	}
	return sum
}

// samePlan compares what two cases do, not what they are called.
func samePlan(a, b plan.Case) bool {
	pa, pb := plan.Make(a.Scenario, 1), plan.Make(b.Scenario, 1)
	pb.Scenario = pa.Scenario
	ta, errA := encode(pa)
	tb, errB := encode(pb)
	return errA == nil && errB == nil && ta == tb
}

// attempt is what one run of a plan came to.
type attempt struct {
	seed   uint64
	report check.Report
	dir    string
}

// volumes is how many volumes a run of the case brings into it.
func volumes(c plan.Case) int { return max(1, c.Volumes) }

// good is how many volumes came out as the case says. In a control each check that it stands on must be a Pass: one
// that could not be judged has shown nothing. Of several volumes those count that were looked at one by one.
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
		return fmt.Sprintf("seed %d, verdict %s: the finding is not there, and yet it did not hold: %s (%s)", a.seed,
			a.report.Verdict, strings.Join(broken, ", "), a.dir)
	}
	if len(shown) == 0 {
		return fmt.Sprintf("seed %d, verdict %s: the finding is not there (%s)", a.seed, a.report.Verdict, a.dir)
	}
	more := ""
	if len(shown) > 1 {
		more = fmt.Sprintf(" And %d more.", len(shown)-1)
	}
	return fmt.Sprintf("seed %d, verdict %s: %s%s (%s)", a.seed, a.report.Verdict, shown[0].Sentence, more, a.dir)
}

// writeVoyages tells what became of every case; its rate is the last line of each.
func writeVoyages(w io.Writer, all []*voyage) {
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

// voyagesExit is nil when every run of every case came out as said, and one volume of those that depend on a race.
func voyagesExit(all []*voyage) error {
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
