package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

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
