package nightly

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
)

// Retries is how often a seed is tried again whose outcome was not as expected. An attempt that is as expected ends the
// retries: the unit is a flake.
const Retries = 5

// Attempt is one trial of a unit.
type Attempt struct {
	Verdict check.Verdict `json:"verdict"`         // PASS: the outcome was as expected.
	Trial   check.Verdict `json:"trial"`           // Of the trial's checks.
	Check   string        `json:"check,omitempty"` // The first that did not pass.
	Why     string        `json:"why"`             // One sentence.
	Run     string        `json:"run,omitempty"`   // The run directory, from the runs directory on.
	Started time.Time     `json:"started"`         // UTC.
	Seconds float64       `json:"seconds"`         // Without the making of a cluster.

	// Goroutines of the harness after the trial, 0 if it did not end. They show what a soak leaves behind.
	Goroutines int `json:"goroutines,omitempty"`
}

// Result is what is known of a unit.
type Result struct {
	Unit
	Build
	Attempts []Attempt `json:"attempts,omitempty"`
	NotRun   string    `json:"notRun,omitempty"` // Why there is no attempt, or no further one.
}

// Kind sums up the attempts of a unit.
type Kind string

// The kinds, the most urgent first.
const (
	Finding  Kind = "finding"  // Never as expected, and at least once certainly not.
	Flake    Kind = "flake"    // Sometimes as expected.
	Unshown  Kind = "unshown"  // Neither could ever be shown.
	Missing  Kind = "missing"  // No attempt.
	Expected Kind = "expected" // As expected at once, or in a race once.
)

// Kinds returns all kinds, the most urgent first.
func Kinds() []Kind { return []Kind{Finding, Flake, Unshown, Missing, Expected} }

// Good counts the attempts that were as expected.
func (r Result) Good() int {
	n := 0
	for _, a := range r.Attempts {
		if a.Verdict == check.Pass {
			n++
		}
	}
	return n
}

// Done reports whether no further attempt is needed.
func (r Result) Done() bool {
	return r.Good() > 0 || len(r.Attempts) > Retries || r.Once && len(r.Attempts) > 0
}

// Verdict is the worst of the attempts, of a race the best, and UNKNOWN without any.
func (r Result) Verdict() check.Verdict {
	if r.Race && r.Good() > 0 {
		return check.Pass
	}
	var all []check.Verdict
	for _, a := range r.Attempts {
		all = append(all, a.Verdict)
	}
	return check.Worst(all...)
}

// Kind sums up the attempts.
func (r Result) Kind() Kind {
	switch v := r.Verdict(); {
	case len(r.Attempts) == 0:
		return Missing
	case v == check.Pass:
		return Expected
	case r.Good() > 0:
		return Flake
	case v == check.Fail:
		return Finding
	}
	return Unshown
}

// Worst returns the first attempt with the verdict of the unit, or one that says why there is none.
func (r Result) Worst() Attempt {
	i := slices.IndexFunc(r.Attempts, func(a Attempt) bool { return a.Verdict == r.Verdict() })
	if i < 0 {
		return Attempt{Verdict: check.Unknown, Why: "not run: " + cmp.Or(r.NotRun, "nothing says why")}
	}
	return r.Attempts[i]
}

// Tally counts the attempts in a few words.
func (r Result) Tally() string {
	if len(r.Attempts) == 0 {
		return "no attempt"
	}
	return fmt.Sprintf("%d of %d attempts as expected", r.Good(), len(r.Attempts)) +
		plan.Given("; no further one: %s", r.NotRun)
}

// Last returns when the last attempt began, the zero time without one.
func (r Result) Last() time.Time {
	var last time.Time
	for _, a := range r.Attempts {
		if a.Started.After(last) {
			last = a.Started
		}
	}
	return last
}

// Took is the longest attempt, to the second.
func (r Result) Took() time.Duration {
	return time.Duration(r.longest() * float64(time.Second)).Round(time.Second)
}

func (r Result) longest() float64 {
	longest := 0.0
	for _, a := range r.Attempts {
		longest = max(longest, a.Seconds)
	}
	return longest
}

// Urgent reports whether there are attempts that somebody should look at.
func (r Result) Urgent() bool { return r.Kind() != Expected && r.Kind() != Missing }

// Join merges two results of one unit, as overlapping shards have them. The zero value takes all from the other.
func (r Result) Join(other Result) Result {
	if r.ID == "" {
		r.Unit, r.Build = other.Unit, other.Build
	}
	for _, a := range other.Attempts {
		if !slices.Contains(r.Attempts, a) {
			r.Attempts = append(slices.Clip(r.Attempts), a)
		}
	}
	slices.SortFunc(r.Attempts, func(a, b Attempt) int {
		return cmp.Or(a.Started.Compare(b.Started), cmp.Compare(a.Run, b.Run), cmp.Compare(a.Why, b.Why))
	})
	r.NotRun = max(r.NotRun, other.NotRun)
	if r.Done() {
		r.NotRun = ""
	}
	return r
}
