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
		Applies: hasData,
		Judge:   judgeChecksums,
	}
}

// tableKey names a table of an instance.
type tableKey struct {
	instance, table string
}

func (k tableKey) String() string { return k.instance + " table " + k.table }

func judgeChecksums(h *world.World) Result {
	r := newRuling("checksums compared")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	quiet, loud := gatherChecksums(h, r)
	for _, key := range sortedTables(quiet) {
		judgeQuiet(s, key, quiet[key], r)
	}
	for _, key := range sortedTables(loud) {
		judgeSettled(s, key, loud[key], r)
	}
	judgeTaken(s, quiet, r)
	return r.result()
}

// gatherChecksums returns the whole checksums of each table in the order in which they were taken, those of quiet
// tables and those of others.
func gatherChecksums(h *world.World, r *ruling) (quiet, loud map[tableKey][]*history.Event) {
	quiet, loud = map[tableKey][]*history.Event{}, map[tableKey][]*history.Event{}
	for _, e := range h.Of(history.KindChecksum) {
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

// judgeQuiet compares each checksum with the one before it and tells the first difference.
func judgeQuiet(s *world.Trial, key tableKey, taken []*history.Event, r *ruling) {
	broken := false
	for i := 1; i < len(taken); i++ {
		a, b := taken[i-1], taken[i]
		r.evidence++
		why := differs(a.Checksum, b.Checksum)
		if why == "" || broken {
			continue
		}
		broken = true
		span := history.Between(a.Span.NotBefore, b.Span.NotAfter)
		r.breach(Finding{
			Promise: Checksums().Promise,
			Sentence: fmt.Sprintf("%s changed between the checksums %s at %s and %s at %s, "+
				"though no client writes to it: %s.", key,
				checksumName(a.Checksum), s.Clock(a.Span.NotAfter),
				checksumName(b.Checksum), s.Clock(b.Span.NotAfter), why),
			Subject: key.String(),
			Span:    span,
			Events:  []int64{a.ID, b.ID},
			Faults:  s.FaultsIn(span),
		})
	}
}

// judgeSettled compares the checksums of a written table that were taken when no client wrote any more.
func judgeSettled(s *world.Trial, key tableKey, taken []*history.Event, r *ruling) {
	for i := 1; i < len(taken); i++ {
		a, b := taken[i-1], taken[i]
		r.evidence++
		if why := differs(a.Checksum, b.Checksum); why != "" {
			span := history.Between(a.Span.NotBefore, b.Span.NotAfter)
			r.breach(Finding{
				Promise: Checksums().Promise,
				Sentence: fmt.Sprintf("%s changed from %s to %s, after the last client had stopped: %s.",
					key, s.Clock(a.Span.NotAfter), s.Clock(b.Span.NotAfter), why),
				Subject: key.String(),
				Span:    span,
				Events:  []int64{a.ID, b.ID},
				Faults:  s.FaultsIn(span),
			})
			return
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
func judgeTaken(s *world.Trial, quiet map[tableKey][]*history.Event, r *ruling) {
	instances := s.Instances(s.Plan.Workload.Replicas)
	tables := map[string][]tableKey{}
	for _, key := range sortedTables(quiet) {
		tables[key.instance] = append(tables[key.instance], key)
	}
	for _, name := range instances {
		if len(tables[name]) == 0 {
			r.unknown("%s: no checksum of a quiet table was taken", name)
		}
		for _, key := range tables[name] {
			needLabel(key, quiet[key], labelFilled, r)
		}
	}
	for _, name := range s.Instances(s.Finally()) {
		for _, key := range tables[name] {
			needLabel(key, quiet[key], labelSettled, r)
		}
	}
	for _, l := range s.Outermost() {
		for _, name := range s.Instances(s.Steady(l.Step)) {
			for _, key := range tables[name] {
				judgeAround(s, l, key, quiet[key], r)
			}
		}
	}
}

func needLabel(key tableKey, taken []*history.Event, label string, r *ruling) {
	if !slices.ContainsFunc(taken, func(e *history.Event) bool { return e.Checksum.Label == label }) {
		r.unknown("%s: the checksum %q is missing", key, label)
	}
}

// judgeAround demands a checksum of the table between the fault and the one before it, and between it and the next.
func judgeAround(s *world.Trial, l world.Fault, key tableKey, taken []*history.Event, r *ruling) {
	at, ok := s.Around(l)
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
