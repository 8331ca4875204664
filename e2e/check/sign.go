package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Holds reports whether a control held: the check of its finding, and each check in its Holds, passed. A check that did
// not judge has not passed.
func (r Report) Holds(c plan.Case) bool {
	return len(r.Broken(c)) == 0
}

// Looked returns how many subjects the check of a case's finding judged: a control shows only for these that nothing
// was lost.
func (r Report) Looked(c plan.Case) int {
	for _, res := range r.Results {
		if res.Check == c.Finding.Check {
			return len(res.Subjects)
		}
	}
	return 0
}

// Broken names the checks of a control that did not pass, each with its verdict.
func (r Report) Broken(c plan.Case) []string {
	var all []string
	for _, name := range append([]string{c.Finding.Check}, c.Holds...) {
		i := slices.IndexFunc(r.Results, func(res Result) bool { return res.Check == name })
		switch {
		case i < 0:
			all = append(all, name+" did not judge")
		case r.Results[i].Verdict != Pass:
			all = append(all, name+" is "+string(r.Results[i].Verdict))
		}
	}
	return all
}

// Shows returns the findings that match a sign, the first for each subject.
func (r Report) Shows(s plan.Sign) []Finding {
	var out []Finding
	for _, res := range r.Results {
		if res.Check != s.Check {
			continue
		}
		for _, f := range res.Findings {
			known := slices.ContainsFunc(out, func(o Finding) bool { return o.Subject == f.Subject })
			if !known && strings.Contains(f.Sentence, s.Says) {
				out = append(out, f)
			}
		}
	}
	return out
}
