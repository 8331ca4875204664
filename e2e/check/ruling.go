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

// ruling is a result in the making. A finding makes it Fail, a reason Unknown, neither makes it Pass.
type ruling struct {
	Check // A check that can look at less than it promises says so here.
	world *world.World
	trial *world.Trial

	evidence int
	findings []Finding
	unlisted int // Findings that were counted and not made.
	reasons  []string
	notes    []string
	seen     map[string]bool // See first.
	subjects map[string]bool
}

// rule judges a world with one check.
func rule(w *world.World, c Check) Result {
	r := &ruling{Check: c, world: w, seen: map[string]bool{}, subjects: map[string]bool{}}
	var err error
	if r.trial, err = w.Trial(); err != nil {
		r.unknown("%v", err)
	} else {
		c.judge(r)
	}
	return r.result()
}

// violation adds a proven violation and its sentence. Its faults are those active in its span, unless it names others.
func (r *ruling) violation(f Finding, format string, args ...any) {
	f.Promise, f.Sentence, f.Events = r.Promise, fmt.Sprintf(format, args...), proof(f.Events...)
	if f.Faults == nil {
		f.Faults = r.trial.FaultsIn(f.Span)
	}
	r.findings = append(r.findings, f)
}

// unknown adds a reason why the promise could not be shown to hold, once.
func (r *ruling) unknown(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); r.first("reason", s) {
		r.reasons = append(r.reasons, s)
	}
}

// first reports that it is called with these words for the first time: a check reports a repeated violation once.
func (r *ruling) first(words ...string) bool {
	name := strings.Join(words, "\x00")
	defer func() { r.seen[name] = true }()
	return !r.seen[name]
}

// looked records that a subject was judged on evidence of its own.
func (r *ruling) looked(subject string) { r.subjects[subject] = true }

// note adds what is worth reading and does not change the verdict.
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

// leading appends to first as many of rest as proof keeps.
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
