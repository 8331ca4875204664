package check

import (
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Shows returns the first finding that bears a sign, and whether there is one.
func (r Report) Shows(s plan.Sign) (Finding, bool) {
	for _, res := range r.Results {
		if res.Check != s.Check {
			continue
		}
		for _, f := range res.Findings {
			if strings.Contains(f.Sentence, s.Says) {
				return f, true
			}
		}
	}
	return Finding{}, false
}
