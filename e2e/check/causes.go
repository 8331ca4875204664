package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// Cause groups findings that are reported as one: each shares an active fault with another of the group or, if no fault
// was active, its check.
type Cause struct {
	Faults []string // Faults active during any of the findings, in the order of their steps.
	Found  []Found  // In the order of the report: the findings of one check are neighbours.
	keys   []string
}

// Found is a finding and the check that made it.
type Found struct {
	Check, Source string
	Finding
	n int // Its position in the report.
}

// First is when the first finding was proven.
func (c Cause) First() history.Time {
	return slices.MinFunc(c.Found, func(a, b Found) int { return cmp.Compare(a.Span.NotAfter, b.Span.NotAfter) }).
		Span.NotAfter
}

// Causes groups the findings of a report by their cause; the cause with the earliest finding comes first.
func (r Report) Causes() []Cause {
	var causes []Cause
	n := 0
	for _, res := range r.Results {
		for _, f := range res.Findings {
			n++
			one := Cause{Faults: slices.Clone(f.Faults), keys: f.Faults, Found: []Found{{res.Check, res.Source, f, n}}}
			if len(f.Faults) == 0 {
				one.keys = []string{"check " + res.Check}
			}
			causes = join(causes, one)
		}
	}
	for i := range causes {
		slices.SortFunc(causes[i].Found, func(a, b Found) int { return cmp.Compare(a.n, b.n) })
		slices.SortFunc(causes[i].Faults, func(a, b string) int {
			return cmp.Or(cmp.Compare(stepOf(a), stepOf(b)), cmp.Compare(a, b))
		})
		causes[i].Faults = slices.Compact(causes[i].Faults)
	}
	slices.SortStableFunc(causes, func(a, b Cause) int { return cmp.Compare(a.First(), b.First()) })
	return causes
}

// join adds a cause and merges it with every cause that shares a key with it.
func join(causes []Cause, one Cause) []Cause {
	apart := causes[:0:0]
	for _, c := range causes {
		if !slices.ContainsFunc(c.keys, func(k string) bool { return slices.Contains(one.keys, k) }) {
			apart = append(apart, c)
			continue
		}
		one = Cause{
			Faults: slices.Concat(c.Faults, one.Faults),
			Found:  slices.Concat(c.Found, one.Found),
			keys:   slices.Concat(c.keys, one.keys),
		}
	}
	return append(apart, one)
}

// stepOf parses the step number out of a fault's name in Finding.Faults, 0 if there is none.
func stepOf(fault string) int {
	step := 0
	if _, err := fmt.Sscanf(fault, "step %d ", &step); err != nil {
		return 0
	}
	return step
}
