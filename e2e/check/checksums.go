package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Labels of the checksums that the workload takes by itself, in no step. Those of the plan's steps may be the same.
const (
	labelFilled  = "filled"
	labelSettled = "settled"
)

// Checksums judges the quiet tables, which no client writes to: whatever happens to the nodes, they never change.
//
// Every checksum of a table of an instance must equal the one before it. To attribute a change to a fault, it demands
// one checksum between each two faults, one before the first and one after the last.
func Checksums() Check {
	return Check{
		Name:    "checksums",
		When:    Continuous,
		Promise: "A table that nobody writes to never changes.",
		Source:  "MySQL 9 Reference Manual, CHECKSUM TABLE Statement; the row hash beside it is Seatrial's own",
		Unit:    "checksums compared",
		Applies: hasData,
		judge:   judgeChecksums,
	}
}

func judgeChecksums(r *ruling) {
	for _, e := range r.world.Of(history.KindChecksum) {
		if c := e.Checksum; c.Error != "" {
			r.unknown("%s table %s: its checksum %q could not be taken: %s", c.Instance, c.Table, c.Label, c.Error)
		}
	}
	var quiet []*world.Table
	late := r.late()
	for _, t := range r.world.Tables() {
		t.Taken = r.compared(t, late[t.Instance] != "")
		switch {
		case len(t.Taken) == 0:
		case !t.Quiet:
			r.compare(t, func(a, b *history.Event) string {
				return fmt.Sprintf("from %s to %s, after the last client had stopped", r.clock(a.Span.NotAfter),
					r.clock(b.Span.NotAfter))
			})
		default:
			quiet = append(quiet, t)
			r.compare(t, func(a, b *history.Event) string {
				return fmt.Sprintf("between the checksums %s at %s and %s at %s, though no client writes to it",
					checksumName(a.Checksum), r.clock(a.Span.NotAfter), checksumName(b.Checksum),
					r.clock(b.Span.NotAfter))
			})
		}
	}
	r.judgeTaken(quiet)
}

// compared returns the checksums of a table that must be equal: the successful ones and, if clients write to the table,
// only those from after the clients had stopped. A copy that was made anew, as its server's UUID tells, need not have
// the whole table before the end, and if it is late not even then.
func (r *ruling) compared(t *world.Table, late bool) (all []*history.Event) {
	isCopy := r.trial.Origin(t.Instance) != t.Instance
	for _, e := range t.Taken {
		c := e.Checksum
		if c.Error != "" || !t.Quiet && !isOwn(c, labelSettled) {
			continue
		}
		if n := len(all); n > 0 && isCopy && (late || !isOwn(c, labelSettled)) &&
			all[n-1].Checksum.Server != c.Server && differs(all[n-1].Checksum, c) != "" {
			continue
		}
		all = append(all, e)
	}
	return all
}

// compare compares each checksum of a table with the one before it and reports the first difference.
func (r *ruling) compare(t *world.Table, when func(a, b *history.Event) string) {
	broken := false
	for i := 1; i < len(t.Taken); i++ {
		a, b := t.Taken[i-1], t.Taken[i]
		r.evidence++
		if why := differs(a.Checksum, b.Checksum); why != "" && !broken {
			broken = true
			r.violation(Finding{Subject: t.String(), Span: history.Between(a.Span.NotBefore, b.Span.NotAfter),
				Events: []int64{a.ID, b.ID}}, "%s changed %s: %s.", t, when(a, b), why)
		}
	}
}

// differs returns how two checksums of one table differ, "" if they do not.
func differs(a, b *history.Checksum) string {
	var parts []string
	if a.Rows != b.Rows {
		parts = append(parts, fmt.Sprintf("%d rows, then %d", a.Rows, b.Rows))
	}
	if a.Table64 != b.Table64 {
		parts = append(parts, fmt.Sprintf("CHECKSUM TABLE %d, then %d", a.Table64, b.Table64))
	}
	if a.RowHash != b.RowHash {
		parts = append(parts, fmt.Sprintf("row hash %.12s, then %.12s", a.RowHash, b.RowHash))
	}
	return strings.Join(parts, "; ")
}

// judgeTaken demands the checksums at the begin, at the end, of the plan's steps and around each of its faults.
func (r *ruling) judgeTaken(quiet []*world.Table) {
	of := func(replicas int, do func(*world.Table)) {
		for _, t := range quiet {
			if slices.Contains(r.trial.Instances(replicas), t.Instance) {
				do(t)
			}
		}
	}
	replicas := r.trial.Plan.Workload.Replicas
	for _, name := range r.trial.Instances(max(replicas, r.trial.Finally())) {
		if !slices.ContainsFunc(quiet, func(t *world.Table) bool { return t.Instance == name }) {
			r.unknown("%s: no checksum of a quiet table was taken", name)
		}
	}
	of(replicas, func(t *world.Table) { r.needLabel(t, labelFilled) })
	of(r.trial.Finally(), func(t *world.Table) { r.needLabel(t, labelSettled) })
	for _, st := range r.trial.Plan.AllSteps() {
		if st.Do == plan.ActionChecksum && r.trial.StepPhase(st.N).Begin != nil {
			r.needStep(st)
		}
	}
	for _, l := range r.trial.Outermost() {
		of(r.trial.Steady(l.Step), func(t *world.Table) { r.judgeAround(l, t) })
	}
}

func (r *ruling) needLabel(t *world.Table, label string) {
	if !slices.ContainsFunc(t.Taken, func(e *history.Event) bool { return isOwn(e.Checksum, label) }) {
		r.unknown("%s: the checksum %q is missing", t, label)
	}
}

// needStep demands what a step records of each instance that is there throughout: a checksum, or why there is none.
func (r *ruling) needStep(st plan.Step) {
	for _, name := range r.trial.Instances(r.trial.Steady(st.N)) {
		if !slices.ContainsFunc(r.world.Of(history.KindChecksum), func(e *history.Event) bool {
			return e.Checksum.Instance == name && e.Checksum.Quiet && e.Checksum.Step == st.N
		}) {
			r.unknown("%s: the checksum %q of step %d is missing", name, st.Label, st.N)
		}
	}
}

// isOwn reports whether the workload took a checksum by itself under a label.
func isOwn(c *history.Checksum, label string) bool { return c.Step == 0 && c.Label == label }

// judgeAround demands a checksum of the table between the fault and the one before it, and between it and the next.
func (r *ruling) judgeAround(l world.Fault, t *world.Table) {
	at, ok := r.trial.Around(l)
	if !ok {
		r.unknown("%s was not carried out to its end: checksums before and after it mean nothing", l)
		return
	}
	within := func(from, to history.Time) bool {
		return slices.ContainsFunc(t.Taken, func(e *history.Event) bool {
			return e.Span.NotBefore >= from && e.Span.NotAfter <= to
		})
	}
	if !within(at.Last, at.From) {
		r.unknown("%s: there is no checksum before %s", t, l)
	}
	if !within(at.To, at.Next) {
		r.unknown("%s: there is no checksum after %s", t, l)
	}
}

// checksumName names a checksum by its label and, if it has one, its step.
func checksumName(c *history.Checksum) string {
	if c.Step == 0 {
		return fmt.Sprintf("%q", c.Label)
	}
	return fmt.Sprintf("%q (step %d)", c.Label, c.Step)
}
