package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Failover judges how long a group takes no write because of a fault, whoever takes it before and after.
//
// From a fault's injection until its healing begins, and at least for the bound, every two acknowledged inserts in a row
// must be at most the bound apart. Only the plan gives a bound: neither semi-synchronous replication nor group
// replication promises one. A longer time without an acknowledgement is a violation if clients tried all the time.
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
	j := &failing{ruling: r, bound: r.trial.Plan.Bounds.Failover.D()}
	for _, op := range r.world.Operations().All {
		if op.Sent == nil || op.Sent.Op.F != history.OpInsert {
			continue
		}
		j.inserts, j.last = append(j.inserts, op), max(j.last, op.Sent.Span.NotAfter)
		if e := op.Answer; e != nil && e.Op.Stage == history.StageOK {
			j.acks = append(j.acks, e)
		}
	}
	slices.SortStableFunc(j.inserts, func(a, b world.Operation) int {
		return cmp.Compare(a.Sent.Span.NotAfter, b.Sent.Span.NotAfter)
	})
	for _, l := range r.trial.Faults {
		if l.Facts[history.StageConfirmed] == nil {
			r.unknown("%s was never shown to have taken effect", l)
			continue
		}
		j.judge(l)
	}
}

type failing struct {
	*ruling
	bound   time.Duration
	inserts []world.Operation // In the order in which they were sent.
	acks    []*history.Event  // The acknowledgements, in their order.
	last    history.Time      // When the last insert was sent.
}

// silence is a time in which no insert was acknowledged: at least certain, at most possible.
type silence struct {
	certain, possible history.Span
	before, after     *history.Event // The acknowledgements around it; nil where it begins with the fault or ends open.
}

func (j *failing) judge(l world.Fault) {
	injected := l.Facts[history.StageInjected]
	end := injected.Span.NotAfter.Add(j.bound)
	if healed := l.Facts[history.StageHealed]; healed != nil {
		end = max(end, healed.Span.NotBefore)
	} else {
		end = world.Forever
	}
	end = min(end, j.last)
	longest, acknowledged := j.longest(injected.Span, end)
	lasted := longest.certain.NotAfter.Sub(longest.certain.NotBefore)
	switch tried, event := j.tried(longest.certain); {
	case lasted > j.bound && tried > 0:
		f := Finding{Subject: j.trial.Plan.Workload.StatefulSet, Span: longest.certain,
			Events: []int64{injected.ID, event}, Node: l.Node}
		next := "and nobody did later in the trial"
		if longest.before != nil {
			f.Events = append(f.Events, longest.before.ID)
		}
		if longest.after != nil {
			f.Events = append(f.Events, longest.after.ID)
			next = longest.after.Op.By + " did again at " + j.clock(longest.after.Span.NotAfter)
		}
		j.violation(f, "Nobody acknowledged a write for %s while %s lasted: the bound is %s. %s were tried, %s.",
			lasted.Round(time.Millisecond), l, j.bound, plan.Count(tried, "insert"), next)
	case longest.possible.NotAfter.Sub(longest.possible.NotBefore) > j.bound:
		j.unknown("nobody acknowledged for %s during %s, and whether clients tried all the time is not known",
			lasted.Round(time.Millisecond), l)
	case !acknowledged:
		j.unknown("the clients ended %s after %s was injected, before anybody acknowledged: the bound is %s",
			max(0, end.Sub(injected.Span.NotAfter)).Round(time.Millisecond), l, j.bound)
	default:
		j.judged(l.String())
		j.note("%s: nobody acknowledged for at most %s", l, lasted.Round(time.Millisecond))
	}
}

// longest returns the longest silence from an injection to an end, and whether there was an acknowledgement in between.
func (j *failing) longest(injected history.Span, end history.Time) (longest silence, acknowledged bool) {
	last := silence{
		certain:  history.Span{NotBefore: injected.NotAfter},
		possible: history.Span{NotBefore: injected.NotBefore},
	}
	silent := func(certain, possible history.Time) {
		last.certain.NotAfter, last.possible.NotAfter = max(certain, last.certain.NotBefore), possible
		if longest.possible.NotAfter == 0 || last.certain.NotAfter-last.certain.NotBefore >
			longest.certain.NotAfter-longest.certain.NotBefore {
			longest = last
		}
	}
	for _, e := range j.acks {
		if e.Span.NotBefore < injected.NotAfter {
			continue
		}
		last.after = e
		if e.Span.NotAfter > end {
			break
		}
		acknowledged = true
		silent(e.Span.NotBefore, e.Span.NotAfter)
		last = silence{
			certain:  history.Span{NotBefore: e.Span.NotAfter},
			possible: history.Span{NotBefore: e.Span.NotBefore}, before: e,
		}
	}
	silent(end, end)
	return longest, acknowledged
}

// tried counts the inserts that were under way in a span, and names the first, if there always was one: a pause of a
// quarter of the bound in all of the clients' tries shows nothing.
func (j *failing) tried(span history.Span) (count int, first int64) {
	pause, until := j.bound/4, span.NotBefore
	for _, op := range j.inserts {
		end := span.NotAfter
		if op.Answer != nil {
			end = op.Answer.Span.NotBefore
		}
		if end < span.NotBefore || op.Sent.Span.NotBefore > span.NotAfter {
			continue
		}
		if op.Sent.Span.NotAfter > until.Add(pause) {
			return 0, 0
		}
		if count++; first == 0 {
			first = op.Sent.ID
		}
		until = max(until, end)
	}
	if span.NotAfter > until.Add(pause) {
		return 0, 0
	}
	return count, first
}
