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

// The labels of the checksums that the workload takes of its own accord; those of the plan's steps are free.
const (
	labelFilled  = "filled"
	labelSettled = "settled"
)

// Checksums judges the tables that nobody writes to: whatever is done to the nodes, they never change.
//
// Every whole checksum of one table of one instance must equal the one before it, from the first to the last. To name
// the fault that did it, there must be one between each two faults, one before the first and one after the last.
func Checksums() Check {
	return Check{
		Name:    "checksums",
		Promise: "A table that nobody writes to never changes.",
		Source:  "MySQL 9 Reference Manual, CHECKSUM TABLE Statement; the row hash beside it is Seatrial's own",
		Unit:    "checksums compared",
		Applies: hasData,
		judge:   judgeChecksums,
	}
}

// tableKey names a table of an instance.
type tableKey struct {
	instance, table string
}

func (k tableKey) String() string { return k.instance + " table " + k.table }

func judgeChecksums(r *ruling) {
	quiet, loud := r.gatherChecksums()
	for _, key := range sortedTables(quiet) {
		r.compare(key, quiet[key], func(a, b *history.Event) string {
			return fmt.Sprintf("between the checksums %s at %s and %s at %s, though no client writes to it",
				checksumName(a.Checksum), r.clock(a.Span.NotAfter), checksumName(b.Checksum), r.clock(b.Span.NotAfter))
		})
	}
	for _, key := range sortedTables(loud) {
		r.compare(key, loud[key], func(a, b *history.Event) string {
			return fmt.Sprintf("from %s to %s, after the last client had stopped", r.clock(a.Span.NotAfter),
				r.clock(b.Span.NotAfter))
		})
	}
	r.judgeTaken(quiet)
}

// gatherChecksums returns the whole checksums of each table in the order in which they were taken, those of quiet
// tables and those of others.
func (r *ruling) gatherChecksums() (quiet, loud map[tableKey][]*history.Event) {
	quiet, loud = map[tableKey][]*history.Event{}, map[tableKey][]*history.Event{}
	for _, e := range r.world.Of(history.KindChecksum) {
		c := e.Checksum
		key := tableKey{c.Instance, c.Table}
		switch {
		case c.Error != "":
			r.unknown("%s: its checksum %q could not be taken: %s", key, c.Label, c.Error)
		case c.Quiet:
			quiet[key] = append(quiet[key], e)
		case c.Label == labelSettled:
			loud[key] = append(loud[key], e)
		}
	}
	return quiet, loud
}

func sortedTables(m map[tableKey][]*history.Event) []tableKey {
	return slices.SortedFunc(maps.Keys(m), func(a, b tableKey) int {
		return cmp.Or(cmp.Compare(a.instance, b.instance), cmp.Compare(a.table, b.table))
	})
}

// compare compares each checksum of a table with the one before it and tells the first difference.
func (r *ruling) compare(key tableKey, taken []*history.Event, when func(a, b *history.Event) string) {
	broken := false
	for i := 1; i < len(taken); i++ {
		a, b := taken[i-1], taken[i]
		r.evidence++
		if why := differs(a.Checksum, b.Checksum); why != "" && !broken {
			broken = true
			r.violation(Finding{
				Sentence: fmt.Sprintf("%s changed %s: %s.", key, when(a, b), why),
				Subject:  key.String(), Span: history.Between(a.Span.NotBefore, b.Span.NotAfter),
				Events: []int64{a.ID, b.ID},
			})
		}
	}
}

// differs says how two checksums of one table differ, "" when they do not.
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

// judgeTaken demands the checksums that the plan's faults call for.
func (r *ruling) judgeTaken(quiet map[tableKey][]*history.Event) {
	instances := r.trial.Instances(r.trial.Plan.Workload.Replicas)
	tables := map[string][]tableKey{}
	for _, key := range sortedTables(quiet) {
		tables[key.instance] = append(tables[key.instance], key)
	}
	for _, name := range instances {
		if len(tables[name]) == 0 {
			r.unknown("%s: no checksum of a quiet table was taken", name)
		}
		for _, key := range tables[name] {
			r.needLabel(key, quiet[key], labelFilled)
		}
	}
	for _, name := range r.trial.Instances(r.trial.Finally()) {
		for _, key := range tables[name] {
			r.needLabel(key, quiet[key], labelSettled)
		}
	}
	for _, l := range r.trial.Outermost() {
		for _, name := range r.trial.Instances(r.trial.Steady(l.Step)) {
			for _, key := range tables[name] {
				r.judgeAround(l, key, quiet[key])
			}
		}
	}
}

func (r *ruling) needLabel(key tableKey, taken []*history.Event, label string) {
	if !slices.ContainsFunc(taken, func(e *history.Event) bool { return e.Checksum.Label == label }) {
		r.unknown("%s: the checksum %q is missing", key, label)
	}
}

// judgeAround demands a checksum of the table between the fault and the one before it, and between it and the next.
func (r *ruling) judgeAround(l world.Fault, key tableKey, taken []*history.Event) {
	at, ok := r.trial.Around(l)
	if !ok {
		r.unknown("%s was not carried out to its end: checksums before and after it mean nothing", l)
		return
	}
	within := func(from, to history.Time) bool {
		return slices.ContainsFunc(taken, func(e *history.Event) bool {
			return e.Span.NotBefore >= from && e.Span.NotAfter <= to
		})
	}
	if !within(at.Last, at.From) {
		r.unknown("%s: there is no checksum before %s", key, l)
	}
	if !within(at.To, at.Next) {
		r.unknown("%s: there is no checksum after %s", key, l)
	}
}

// checksumName names a checksum by its label and, where it has one, its step.
func checksumName(c *history.Checksum) string {
	if c.Step == 0 {
		return fmt.Sprintf("%q", c.Label)
	}
	return fmt.Sprintf("%q (step %d)", c.Label, c.Step)
}
