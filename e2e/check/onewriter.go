package check

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// thereAndBack is less than any two changes of the primary take, each of which ends the writes to one and has the other
// catch up first. Only the acts of our own promoter are known.
const thereAndBack = history.Time(time.Second)

// maxChanges bounds the changes of the writer that are told.
const maxChanges = 5

// OneWriter judges who acknowledged when: after another instance has acknowledged, the first must not, unless it was
// made the primary again in between.
//
// Two acknowledgements of one instance with one of another certainly between them show two writers, if the instance
// was not made the primary in between; of a group that our promoter does not lead, nor seen read-only. Spans that
// overlap claim nothing.
func OneWriter() Check {
	return Check{
		Name:    "one-writer",
		When:    Continuous,
		Promise: "No two instances of the group are writable and acknowledge at once.",
		Source: "MySQL Reference Manual, Single-Primary Mode; of a promoter: whoever is replaced is fenced before " +
			"another acknowledges",
		Unit:    "acknowledgements of the group",
		Applies: func(p plan.Plan) bool { return p.Workload.Grouped() && !p.Workload.Multi() },
		judge:   judgeOneWriter,
	}
}

func judgeOneWriter(r *ruling) {
	type ack struct {
		by   string
		span history.Span // From when it was sent to when it was answered.
		id   int64
	}
	var acks, inserts []ack // What counts as evidence is the inserts, which every trial of a group has.
	for _, op := range r.world.Operations() {
		e := op.Answer
		if e == nil || op.Sent == nil || !isWrite(e.Op) || e.Op.Stage != history.StageOK || e.Op.By == "" {
			continue
		}
		acks = append(acks, ack{e.Op.By, history.Between(op.Sent.Span.NotBefore, e.Span.NotAfter), e.ID})
		if e.Op.F == history.OpInsert {
			inserts = append(inserts, acks[len(acks)-1])
		}
	}
	r.evidence = len(inserts)
	slices.SortFunc(acks, func(a, b ack) int { return cmp.Compare(a.span.NotAfter, b.span.NotAfter) })
	slices.SortFunc(inserts, func(a, b ack) int { return cmp.Compare(a.span.NotAfter, b.span.NotAfter) })
	by := map[string][]ack{} // The acknowledgements of each, in the order of answers.
	for _, a := range acks {
		by[a.by] = append(by[a.by], a)
	}
	for _, name := range keys(by) {
		mine, told := by[name], map[[2]int64]bool{}
		for _, other := range acks { // Between the last of name that ended before it, and the first that began after.
			if other.by == name {
				continue
			}
			n := sort.Search(len(mine), func(i int) bool { return mine[i].span.NotAfter >= other.span.NotBefore })
			k := sort.Search(len(mine), func(i int) bool { return mine[i].span.NotAfter >= other.span.NotAfter })
			for k < len(mine) && !other.span.CertainlyBefore(mine[k].span) {
				k++
			}
			if n == 0 || k == len(mine) {
				continue
			}
			before, now := mine[n-1], mine[k]
			pair := [2]int64{before.id, now.id}
			if told[pair] {
				continue
			}
			told[pair] = true
			if r.stepped(name, before.span.NotBefore, now.span.NotAfter) {
				continue
			}
			work := r.trial.Plan.Workload
			if (work.External != nil || work.GroupReplication()) &&
				now.span.NotAfter-before.span.NotAfter > thereAndBack {
				if r.first(name, other.by, "not seen") {
					r.unknown("%s acknowledged, then %s, then %s again: whether it was made the primary again was not "+
						"seen", name, other.by, name)
				}
				continue
			}
			if r.first(name, other.by) {
				r.violation(Finding{Subject: fmt.Sprintf("%s and %s", name, other.by),
					Span: hull(before.span, now.span), Events: []int64{before.id, other.id, now.id}},
					"Two instances acknowledged at once: %s at %s, %s at %s, and %s again at %s, which was not made "+
						"the primary in between.", name, r.clock(before.span.NotAfter), other.by,
					r.clock(other.span.NotAfter), name, r.clock(now.span.NotAfter))
			}
		}
	}
	changes := 0
	for i := 1; i < len(inserts); i++ {
		before, now := inserts[i-1], inserts[i]
		if before.by == now.by {
			continue
		}
		if changes++; changes <= maxChanges {
			after := now.span.NotAfter.Sub(before.span.NotAfter).Round(time.Millisecond)
			r.note("%s acknowledged at %s, %s after the last acknowledgement of %s", now.by,
				r.clock(now.span.NotAfter), after, before.by)
		}
	}
	if changes > maxChanges {
		r.note("%d changes of the writer, of which the first %d are told", changes, maxChanges)
	}
}

// toldLate is longer than it takes until our promoter has told that it made an instance the primary.
const toldLate = 10 * time.Second

// stepped reports whether an instance was made the primary within a time. Where not only our promoter decides that, it
// may have been replaced and have come back if it was seen read-only.
func (r *ruling) stepped(instance string, from, to history.Time) bool {
	work := r.trial.Plan.Workload
	ours := work.External == nil && !work.GroupReplication()
	return slices.ContainsFunc(r.world.Of(history.KindMember, history.KindPromotion), func(e *history.Event) bool {
		if p := e.Promotion; p != nil {
			made := p.Act == history.ActOpen || p.Act == history.ActPromote && p.Error == ""
			return p.Instance == instance && made &&
				e.Span.PossiblyOverlaps(history.Between(from, to.Add(toldLate)))
		}
		return !ours && e.Member.Instance == instance && e.Member.Error == "" && !e.Member.Writable &&
			e.Span.PossiblyOverlaps(history.Between(from, to))
	})
}
