package nightly

import (
	"cmp"
	"slices"
	"time"

	"github.com/seatrial/seatrial/e2e/check"
)

// Summary is the result of a night.
type Summary struct {
	Verdict check.Verdict `json:"verdict"`
	Build
	List    string       `json:"list"` // Digest of the list.
	Units   int          `json:"units"`
	Soak    int          `json:"soak"`   // Units with new seeds, beyond the list.
	Trials  int          `json:"trials"` // Attempts in all.
	Counts  map[Kind]int `json:"counts"`
	Started time.Time    `json:"started"` // Of the first trial.
	Ended   time.Time    `json:"ended"`   // Of the last.
	Seconds float64      `json:"seconds"` // All trials together.
	Results []Outcome    `json:"results"` // The most urgent first, by check.
}

// Outcome is a result with its verdict and kind.
type Outcome struct {
	Verdict check.Verdict `json:"verdict"`
	Kind    Kind          `json:"kind"`
	Result
}

// Merge summarizes the results of a list, in any order and from any number of shards. Results of other commits and
// versions do not count; a unit of the list without a result is UNKNOWN.
func Merge(l List, results []Result) Summary {
	byID := map[string]Result{}
	for _, u := range l.Units {
		byID[u.ID] = Result{Unit: u, Build: l.Build}
	}
	for _, r := range results {
		if r.Build != l.Build {
			continue
		}
		have, ok := byID[r.ID]
		if !ok {
			if len(r.Attempts) == 0 {
				continue // Of a list that was longer.
			}
			have = Result{Unit: r.Unit, Build: r.Build}
		}
		byID[r.ID] = have.join(r)
	}
	s := Summary{Build: l.Build, List: l.Digest(), Units: len(l.Units), Soak: len(byID) - len(l.Units),
		Counts: map[Kind]int{}}
	var verdicts []check.Verdict
	for _, r := range byID {
		s.add(r)
		verdicts = append(verdicts, r.Verdict())
	}
	s.Verdict = check.Worst(verdicts...)
	slices.SortFunc(s.Results, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(slices.Index(Kinds(), a.Kind), slices.Index(Kinds(), b.Kind)),
			cmp.Compare(a.Worst().Check, b.Worst().Check), cmp.Compare(a.Name, b.Name),
			cmp.Compare(a.Seed, b.Seed), cmp.Compare(a.ID, b.ID))
	})
	for _, o := range s.Results { // In one order: sums of floating-point numbers depend on it.
		for _, a := range o.Attempts {
			s.Seconds += a.Seconds
		}
	}
	return s
}

func (s *Summary) add(r Result) {
	s.Results = append(s.Results, Outcome{Verdict: r.Verdict(), Kind: r.Kind(), Result: r})
	s.Counts[r.Kind()]++
	s.Trials += len(r.Attempts)
	for _, a := range r.Attempts {
		end := a.Started.Add(time.Duration(a.Seconds * float64(time.Second))).Truncate(time.Second)
		if s.Started.IsZero() || a.Started.Before(s.Started) {
			s.Started = a.Started
		}
		if end.After(s.Ended) {
			s.Ended = end
		}
	}
}

// Of returns the outcomes of a kind.
func (s Summary) Of(k Kind) []Outcome {
	return slices.DeleteFunc(slices.Clone(s.Results), func(o Outcome) bool { return o.Kind != k })
}
