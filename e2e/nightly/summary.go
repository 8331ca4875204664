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
	Before  []Past        `json:"before,omitempty"` // On other commits, at most TrendLength, the oldest first.
	Slower  bool          `json:"slower,omitempty"` // It took longer than each of Before; see enough.
	Result
}

// Past is what the trials of a name came to on another commit, with any seed.
type Past struct {
	Commit  string        `json:"commit"`
	Verdict check.Verdict `json:"verdict"`
	Started time.Time     `json:"started"` // Of the last attempt.
	Seconds float64       `json:"seconds"` // Of the longest.
}

// TrendLength is how many past results a trial is compared with.
const TrendLength = 10

// enough is how many past results it takes to call a trial slower.
const enough = 5

// compare adds the past results of the same name, version of Kubernetes and images.
func (o *Outcome) compare(past []Result) {
	for _, r := range past {
		o.Before = append(o.Before, Past{
			Commit: r.Commit, Verdict: r.Verdict(), Started: r.Last(), Seconds: r.longest(),
		})
	}
	slices.SortFunc(o.Before, func(a, b Past) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Commit, b.Commit), cmp.Compare(a.Seconds, b.Seconds))
	})
	o.Before = o.Before[max(0, len(o.Before)-TrendLength):]
	o.Slower = len(o.Before) >= enough && !slices.ContainsFunc(o.Before, func(p Past) bool {
		return p.Seconds >= o.longest()
	})
}

// Merge summarizes the results of a list, in any order and from any number of shards. Results of other commits,
// versions and images do not count, but those of other commits as what was before; a unit of the list without a result
// is UNKNOWN.
func Merge(l List, results []Result) Summary {
	byID, past := map[string]Result{}, map[string]Result{}
	for _, u := range l.Units {
		byID[u.ID] = Result{Unit: u, Build: l.Build}
	}
	for _, r := range results {
		if r.Build != l.Build {
			if r.Kubernetes == l.Kubernetes && r.Images == l.Images && len(r.Attempts) > 0 {
				past[r.ID] = past[r.ID].Join(r) // Shards may have the same.
			}
			continue
		}
		have, ok := byID[r.ID]
		if !ok && (len(r.Attempts) == 0 || r.Once) {
			continue // Of a list that was longer.
		}
		byID[r.ID] = have.Join(r)
	}
	s := Summary{Build: l.Build, List: l.Digest(), Units: len(l.Units), Soak: len(byID) - len(l.Units),
		Counts: map[Kind]int{}}
	before := map[string][]Result{}
	for _, r := range past {
		before[r.Name] = append(before[r.Name], r)
	}
	var verdicts []check.Verdict
	for _, r := range byID {
		s.add(r, before[r.Name])
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

func (s *Summary) add(r Result, before []Result) {
	o := Outcome{Verdict: r.Verdict(), Kind: r.Kind(), Result: r}
	o.compare(before)
	s.Results = append(s.Results, o)
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

// Slower returns the names of what took longer than ever of late.
func (s Summary) Slower() []string {
	var names []string
	for _, o := range s.Results {
		if o.Slower {
			names = append(names, o.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Of returns the outcomes of a kind.
func (s Summary) Of(k Kind) []Outcome {
	return slices.DeleteFunc(slices.Clone(s.Results), func(o Outcome) bool { return o.Kind != k })
}
