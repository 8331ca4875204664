package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Holds reports that the check which makes the findings of a sign has shown that there are none: it is a Pass.
func (r Report) Holds(s plan.Sign) bool {
	return slices.ContainsFunc(r.Results, func(res Result) bool { return res.Check == s.Check && res.Verdict == Pass })
}

// Shows returns the findings that bear a sign, the first of each subject.
func (r Report) Shows(s plan.Sign) []Finding {
	var out []Finding
	for _, res := range r.Results {
		if res.Check != s.Check {
			continue
		}
		for _, f := range res.Findings {
			told := slices.ContainsFunc(out, func(o Finding) bool { return o.Subject == f.Subject })
			if !told && strings.Contains(f.Sentence, s.Says) {
				out = append(out, f)
			}
		}
	}
	return out
}
