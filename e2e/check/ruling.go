package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
)

// How many findings, reasons and notes a result carries; the rest is counted. The first are kept, since what broke
// first is nearest to the cause.
const (
	maxFindings = 10
	maxReasons  = 20
	maxNotes    = 60
	maxProof    = 8 // Events named by one finding.
)

// ruling is a result in the making. Its verdict follows from what was put into it: a finding makes it Fail, a reason
// Unknown, and neither Pass.
type ruling struct {
	unit     string
	evidence int
	findings []Finding
	unlisted int // Findings that were counted and not made.
	reasons  []string
	notes    []string
	said     map[string]bool
	subjects map[string]bool
}

func newRuling(unit string) *ruling {
	return &ruling{unit: unit, said: map[string]bool{}, subjects: map[string]bool{}}
}

// breach adds a proven violation.
func (r *ruling) breach(f Finding) {
	f.Events = proof(f.Events...)
	r.findings = append(r.findings, f)
}

// unknown adds a reason why the promise could not be shown to hold. Saying it twice changes nothing.
func (r *ruling) unknown(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if r.said[s] {
		return
	}
	r.said[s] = true
	r.reasons = append(r.reasons, s)
}

// looked says that there was evidence of a subject, and that it was judged.
func (r *ruling) looked(subject string) { r.subjects[subject] = true }

// note adds what is worth reading and changes nothing.
func (r *ruling) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

func (r *ruling) result() Result {
	res := Result{Verdict: Pass, Evidence: r.evidence, Unit: r.unit, Subjects: keys(r.subjects)}
	if len(r.reasons) > 0 {
		res.Verdict = Unknown
	}
	if len(r.findings) > 0 {
		res.Verdict = Fail
	}
	slices.SortStableFunc(r.findings, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Span.NotAfter, b.Span.NotAfter), slices.Compare(a.Events, b.Events),
			cmp.Compare(a.Subject, b.Subject))
	})
	res.Findings = r.findings
	if len(res.Findings) > maxFindings {
		r.unlisted += len(res.Findings) - maxFindings
		res.Findings = slices.Clone(res.Findings[:maxFindings])
	}
	if r.unlisted > 0 {
		r.note("%d more findings of this check are not listed: these %d came first", r.unlisted, len(res.Findings))
	}
	res.Reasons = bounded(r.reasons, maxReasons)
	res.Notes = bounded(r.notes, maxNotes)
	return res
}

// bounded keeps the first so many lines and counts the rest.
func bounded(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	kept := slices.Clone(lines[:most])
	return append(kept, fmt.Sprintf("and %d more like these", len(lines)-most))
}

// proof orders event ids, each once, and keeps the first few.
func proof(ids ...int64) []int64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) > maxProof {
		ids = ids[:maxProof]
	}
	return ids
}

// hull is the shortest span that holds both.
func hull(a, b history.Span) history.Span {
	return history.Span{NotBefore: min(a.NotBefore, b.NotBefore), NotAfter: max(a.NotAfter, b.NotAfter)}
}
