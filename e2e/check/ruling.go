package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// How many findings, reasons and notes a result carries; the rest is counted. The first are kept, since what broke
// first is nearest to the cause.
const (
	maxFindings = 10
	maxReasons  = 20
	maxNotes    = 60
	maxProof    = 8 // Events named by one finding.
)

// ruling is a result in the making, and what it is judged from. Its verdict follows from what was put into it: a
// finding makes it Fail, a reason Unknown, and neither Pass.
type ruling struct {
	Check // A check that can look at less than it promises says so here.
	world *world.World
	trial *world.Trial

	evidence int
	findings []Finding
	unlisted int // Findings that were counted and not made.
	reasons  []string
	notes    []string
	said     map[string]bool
	told     map[string]bool // See first.
	subjects map[string]bool
}

// rule judges a world with one check. Without a plan it is not known what was to be shown.
func rule(w *world.World, c Check) Result {
	r := &ruling{Check: c, world: w, said: map[string]bool{}, told: map[string]bool{}, subjects: map[string]bool{}}
	trial, err := w.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	r.trial = trial
	c.judge(r)
	return r.result()
}

// violation adds a proven violation. The faults are those that were active in its span, unless it names others.
func (r *ruling) violation(f Finding) {
	f.Promise, f.Events = r.Promise, proof(f.Events...)
	if f.Faults == nil {
		f.Faults = r.trial.FaultsIn(f.Span)
	}
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

// first reports that something, named by a few words, is told for the first time: of what is broken again and again, a
// check tells once.
func (r *ruling) first(words ...string) bool {
	name := strings.Join(words, "\x00")
	defer func() { r.told[name] = true }()
	return !r.told[name]
}

// looked says that there was evidence of a subject, and that it was judged.
func (r *ruling) looked(subject string) { r.subjects[subject] = true }

// note adds what is worth reading and changes nothing.
func (r *ruling) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// clock renders an instant relative to the begin of the trial.
func (r *ruling) clock(t history.Time) string { return r.trial.Clock(t) }

func (r *ruling) result() Result {
	res := Result{Check: r.Name, Promise: r.Promise, Source: r.Source, Verdict: Pass, Evidence: r.evidence,
		Unit: r.Unit, Subjects: keys(r.subjects)}
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

// leading returns events of which the first few are kept as proof, those that must not be missing among them.
func leading(first, rest []int64) []int64 {
	out := slices.Clone(first)
	for _, id := range rest {
		if len(out) < maxProof && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// hull is the shortest span that holds both.
func hull(a, b history.Span) history.Span {
	return history.Span{NotBefore: min(a.NotBefore, b.NotBefore), NotAfter: max(a.NotAfter, b.NotAfter)}
}

// keys returns the keys of a map in order.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
