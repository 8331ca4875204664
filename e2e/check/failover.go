package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// patience is how long an operation counts as a try at most: clients give up sooner. A client that is dead or stopped
// does not try.
const patience = 15 * time.Second

// Failover judges how long a group takes no write because of a fault, whoever takes it before and after.
//
// A silence is the time from one acknowledged write to the next, or to the end of the clients. An insert is a write, as
// is a transaction that does not only read. It counts from the injection of a fault on, if it began before the fault
// was gone; then it counts to its end, even if the fault is gone before. Only the plan gives a bound: neither
// semi-synchronous replication nor group replication promises one. A longer silence is a violation if inserts were
// tried all the time.
func Failover() Check {
	return Check{
		Name:    "failover",
		When:    OnFault,
		Promise: "A fault keeps the group from taking writes for no longer than the plan's bound.",
		Source:  "bounds.failover of the plan",
		Unit:    "faults during which writes were taken in time",
		Applies: func(p plan.Plan) bool { return p.Bounds.Failover > 0 },
		judge:   judgeFailover,
	}
}

func judgeFailover(r *ruling) {
	j := &silences{ruling: r, bound: r.trial.Plan.Bounds.Failover.D(), longest: map[int]time.Duration{}}
	for _, op := range r.world.Operations() {
		if e := op.Answer; e != nil && e.Op.Stage == history.StageOK && isWrite(e.Op) {
			j.acks = append(j.acks, e)
		}
		if op.Sent == nil || op.Sent.Op.F != history.OpInsert {
			continue
		}
		j.inserts, j.end = append(j.inserts, op), max(j.end, op.Sent.Span.NotAfter)
		if op.Answer != nil {
			j.end = max(j.end, op.Answer.Span.NotAfter)
		}
	}
	slices.SortStableFunc(j.inserts, func(a, b world.Operation) int {
		return cmp.Compare(a.Sent.Span.NotBefore, b.Sent.Span.NotBefore)
	})
	slices.SortStableFunc(j.acks, func(a, b *history.Event) int { return cmp.Compare(answeredAt(a), answeredAt(b)) })
	for _, l := range r.trial.Faults {
		if l.Facts[history.StageInjected] == nil || l.Facts[history.StageConfirmed] == nil {
			r.unknown("%s was never shown to have taken effect", l)
			continue
		}
		j.faults = append(j.faults, l)
		j.longest[l.Step] = 0
	}
	var before *history.Event
	for _, after := range append(j.acks, nil) {
		j.judge(before, after)
		before = after
	}
	for _, l := range j.faults {
		if longest, ok := j.longest[l.Step]; ok {
			j.judged(l.String())
			j.note("%s: nobody acknowledged for at most %s", l, longest.Round(time.Millisecond))
		}
	}
}

// isWrite reports whether an operation writes.
func isWrite(op *history.Op) bool {
	return op.F == history.OpInsert || op.F == history.OpTxn && op.Txn != nil &&
		slices.ContainsFunc(op.Txn.Ops, func(a history.Access) bool { return a.Write })
}

// answeredAt is when a client had the answer. The span of an answer begins when the operation was sent.
func answeredAt(e *history.Event) history.Time { return e.Span.NotAfter }

// underWay is the time in which an operation that was sent counts as a try.
func underWay(op world.Operation) history.Span {
	try := history.Span{NotBefore: op.Sent.Span.NotBefore, NotAfter: op.Sent.Span.NotBefore.Add(patience)}
	if op.Answer != nil {
		try.NotAfter = min(try.NotAfter, answeredAt(op.Answer))
	}
	return try
}

type silences struct {
	*ruling
	bound   time.Duration
	inserts []world.Operation // In the order in which they were sent.
	acks    []*history.Event  // The acknowledgements, in their order.
	end     history.Time      // Of the last insert.
	faults  []world.Fault
	longest map[int]time.Duration // The longest silence of a fault, by step; without one where it is not known.
}

// judge judges the silence between two acknowledgements; before is nil at the begin of the trial, after at its end.
func (j *silences) judge(before, after *history.Event) {
	begin, end := j.world.Begin(), j.end
	if before != nil {
		begin = answeredAt(before)
	}
	if after != nil {
		end = answeredAt(after)
	}
	var during []world.Fault
	certain, possible := end, end // When it begins to count.
	for _, l := range j.faults {
		active, _ := l.Active()
		injected := l.Facts[history.StageInjected].Span
		if injected.NotBefore >= end && after != nil || active.NotAfter <= begin {
			continue
		}
		during = append(during, l)
		certain = min(certain, max(begin, injected.NotAfter))
		possible = min(possible, max(begin, injected.NotBefore))
	}
	if len(during) == 0 {
		return
	}
	span := history.Span{NotBefore: certain, NotAfter: end}
	lasted, perhaps := max(0, end.Sub(certain)), max(0, end.Sub(possible))
	culprit := during[0]
	for _, l := range during { // The last that was injected before it began to count.
		if at := l.Facts[history.StageInjected]; at.Span.NotBefore <= certain &&
			at.Span.NotBefore > culprit.Facts[history.StageInjected].Span.NotBefore {
			culprit = l
		}
	}
	tried, first := j.tried(span)
	switch {
	case lasted > j.bound && tried > 0:
		f := Finding{Subject: j.trial.Plan.Workload.StatefulSet, Span: span, Node: culprit.Node,
			Events: []int64{culprit.Facts[history.StageInjected].ID, first}}
		next := "and nobody did later in the trial"
		if before != nil {
			f.Events = append(f.Events, before.ID)
		}
		if after != nil {
			f.Events = append(f.Events, after.ID)
			next = after.Op.By + " did again at " + j.clock(end)
		}
		j.violation(f, "Nobody acknowledged a write for %s because of %s: the bound is %s. %s tried, %s.",
			lasted.Round(time.Millisecond), culprit, j.bound, were(tried, "insert"), next)
	case perhaps > j.bound:
		j.unknown("nobody acknowledged for %s around %s, and whether clients tried all the time after its injection "+
			"is not known", perhaps.Round(time.Millisecond), culprit)
	case after == nil:
		j.unknown("the clients ended %s after the last acknowledgement, before %s was gone: the bound is %s",
			lasted.Round(time.Millisecond), culprit, j.bound)
	default:
		for _, l := range during {
			if longest, ok := j.longest[l.Step]; ok {
				j.longest[l.Step] = max(longest, perhaps)
			}
		}
		return
	}
	for _, l := range during {
		delete(j.longest, l.Step)
	}
}

// tried counts the inserts that were under way in a span, and names the first, if there always was one: a pause of a
// quarter of the bound in all of the clients' tries shows nothing.
func (j *silences) tried(span history.Span) (count int, first int64) {
	pause, until := j.bound/4, span.NotBefore
	for _, op := range j.inserts {
		try := underWay(op)
		if try.NotAfter <= span.NotBefore || try.NotBefore >= span.NotAfter {
			continue
		}
		if try.NotBefore > until.Add(pause) {
			return 0, 0
		}
		if count++; first == 0 {
			first = op.Sent.ID
		}
		until = max(until, try.NotAfter)
	}
	if span.NotAfter > until.Add(pause) {
		return 0, 0
	}
	return count, first
}
