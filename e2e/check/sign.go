package check

import (
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Holds reports whether a control held: the check of its finding, coverage, and each check in its Holds passed. A check
// that did not judge has not passed.
func (r Report) Holds(c plan.Case) bool {
	return len(r.Broken(c)) == 0
}

// Looked returns how many subjects the check of a case's finding judged: a control shows only for these that nothing
// was lost.
func (r Report) Looked(c plan.Case) int {
	return len(r.Of(c.Finding.Check).Subjects)
}

// Broken names the checks of a control that did not pass, each with its verdict. Where nothing happened, nothing was
// prevented: coverage is one of them.
func (r Report) Broken(c plan.Case) []string {
	must := append([]string{c.Finding.Check, Coverage().Name}, c.Holds...)
	slices.Sort(must)
	var all []string
	for _, name := range slices.Compact(must) {
		switch v := r.Of(name).Verdict; v {
		case Pass:
		case "":
			all = append(all, name+" did not judge")
		default:
			all = append(all, name+" is "+string(v))
		}
	}
	return all
}

// Shows returns the findings that match a sign, the first for each subject.
func (r Report) Shows(s plan.Sign) []Finding {
	var out []Finding
	for _, f := range r.Of(s.Check).Findings {
		known := slices.ContainsFunc(out, func(o Finding) bool { return o.Subject == f.Subject })
		if !known && strings.Contains(f.Sentence, s.Says) {
			out = append(out, f)
		}
	}
	return out
}

// Doubts reports whether the check of a sign is Unknown, for a reason that the sign matches.
func (r Report) Doubts(s plan.Sign) bool {
	res := r.Of(s.Check)
	return res.Verdict == Unknown && slices.ContainsFunc(res.Reasons, func(why string) bool {
		return strings.Contains(why, s.Says)
	})
}
