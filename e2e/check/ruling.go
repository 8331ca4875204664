package check

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Limits on the findings, reasons and notes of a result. The first ones are kept, since what broke first is nearest to
// the cause; the others are only counted.
const (
	maxFindings = 10
	maxReasons  = 20
	maxNotes    = 60
	maxProof    = 8 // Events of one finding.
)

// ruling collects the result of one check. A finding makes it Fail, else a reason makes it Unknown, else it is Pass.
type ruling struct {
	Check // The judge may narrow the promise here if the history supports less.
	world *world.World
	trial *world.Trial

	evidence int
	findings []Finding
	unlisted int // Violations that are counted, but have no finding.
	reasons  []string
	notes    []string
	seen     map[string]bool // Keys of first.
	subjects map[string]bool
}

// rule judges a world with one check. A check that panics is Unknown.
func rule(w *world.World, c Check) (res Result) {
	defer func() {
		if p := recover(); p != nil {
			crashed := &ruling{Check: c, world: w, seen: map[string]bool{}}
			crashed.unknown("the check crashed: %v", p)
			res = crashed.result()
		}
	}()
	r := &ruling{Check: c, world: w, seen: map[string]bool{}, subjects: map[string]bool{}}
	var err error
	if r.trial, err = w.Trial(); err != nil {
		r.unknown("%v", err)
	} else {
		c.judge(r)
	}
	return r.result()
}

// violation adds a finding. It fills in promise, sentence and, if f has none, the faults active in its span.
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

// first reports whether this is its first call with these words. A check uses it to report a repeated violation once.
func (r *ruling) first(words ...string) bool {
	name := strings.Join(words, "\x00")
	defer func() { r.seen[name] = true }()
	return !r.seen[name]
}

// judged counts one piece of evidence and records whose it is.
func (r *ruling) judged(subject string) {
	r.evidence++
	r.subjects[subject] = true
}

// watched adds a reason for each of the observers of the API that never ran. Hidden says what is not known without it.
func (r *ruling) watched(hidden string, observers ...string) {
	for _, name := range observers {
		if !r.world.Watch().On(name) {
			r.unknown("the observer %s was never on: %s", name, hidden)
		}
	}
}

// note adds a fact that does not change the verdict.
func (r *ruling) note(format string, args ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// were counts things, with the verb: "1 insert was", "2 inserts were".
func were(n int, noun string) string {
	if n == 1 {
		return "1 " + noun + " was"
	}
	return plan.Count(n, noun) + " were"
}

// clock renders a time relative to the begin of the trial.
func (r *ruling) clock(t history.Time) string { return r.trial.Clock(t) }

func (r *ruling) result() Result {
	if len(r.findings)+len(r.reasons) == 0 {
		switch {
		case r.evidence == 0:
			r.unknown("there was nothing to judge")
		case r.world.Truncated:
			r.unknown("the history is torn: facts after its end are missing")
		}
	}
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

// bounded keeps the first most lines and counts the others in one more line.
func bounded(lines []string, most int) []string {
	if len(lines) <= most {
		return lines
	}
	kept := slices.Clone(lines[:most])
	return append(kept, fmt.Sprintf("and %d more like these", len(lines)-most))
}

// proof returns the distinct event ids, sorted, maxProof at most.
func proof(ids ...int64) []int64 {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) > maxProof {
		ids = ids[:maxProof]
	}
	return ids
}

// leading appends to first the ids of rest that are new, up to maxProof in all.
func leading(first, rest []int64) []int64 {
	out := slices.Clone(first)
	for _, id := range rest {
		if len(out) < maxProof && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// hull returns the shortest span that contains both.
func hull(a, b history.Span) history.Span {
	return history.Span{NotBefore: min(a.NotBefore, b.NotBefore), NotAfter: max(a.NotAfter, b.NotAfter)}
}

// keys returns the keys of a map, sorted.
func keys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
