package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Holds reports that a control has held: the check which makes its finding, and each that it names beside it, has shown
// that there is nothing to find. One that judged nothing has not.
func (r Report) Holds(c plan.Case) bool {
	return len(r.Broken(c)) == 0
}

// Looked returns how many subjects the check that makes a case's finding has looked at, one by one: in a control, that
// a volume was not lost is shown of those alone.
func (r Report) Looked(c plan.Case) int {
	for _, res := range r.Results {
		if res.Check == c.Finding.Check {
			return len(res.Subjects)
		}
	}
	return 0
}

// Broken says which of the checks that a control stands on have not passed, and what each came to.
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
