package check

import (
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Settle judges liveness: once everything is healed, the workload comes back within the bound.
//
// Liveness is not judged while faults are active: a cluster may do nothing useful while it is hurt. The bound starts
// when the healing phase ends. Non-recovery is a violation only for an instance that the StatefulSet demanded
// throughout the bound, and that either had acknowledged writes before and then took none of the clients' tries, or was
// never Ready by an API watch without a gap; and for a group with one writer, see blameGroup. A workload without data
// need only be Ready.
func Settle() Check {
	return Check{
		Name:    "settle",
		When:    AfterHeal,
		Promise: "After the last heal every instance is Ready and takes a write within the bound.",
		Source:  "Seatrial's design: safety while it hurts, liveness after the last heal",
		Unit:    "instances settled",
		judge:   judgeSettle,
	}
}

func judgeSettle(r *ruling) {
	heal := r.trial.Phase(history.PhaseHeal).End
	if heal == nil {
		r.unknown("the trial never came to the end of its healing, so nothing had to settle")
		return
	}
	if heal.Phase.Error != "" {
		r.unknown("not everything was healed: %s", heal.Phase.Error)
		return
	}
	j := &settling{
		ruling: r, set: r.world.Sets().Named(r.trial.Plan.Workload.StatefulSet),
		bounds: history.Span{NotBefore: heal.Span.NotAfter,
			NotAfter: heal.Span.NotAfter.Add(r.trial.Plan.Bounds.Settle.D())},
		writes: map[string]writes{},
	}
	j.readWrites()
	settle := r.trial.Phase(history.PhaseSettle)
	j.whole = settle.End != nil && settle.End.Phase.Error != "" && settle.End.Span.NotBefore >= j.bounds.NotAfter
	for i, name := range r.trial.Instances(r.trial.Finally()) {
		j.judge(r.trial.Plan.Workload.Start+i, name)
	}
	if group := r.trial.Plan.Workload.StatefulSet; r.trial.Plan.Workload.Grouped() {
		w := j.writes[group]
		if w.first == nil {
			r.unknown("group %s was not seen to take a write within %s after the healing", group,
				r.trial.Plan.Bounds.Settle)
			j.blameGroup(group, w)
		} else {
			r.note("group %s: a write was acknowledged %s after the healing", group,
				w.first.Span.NotAfter.Sub(j.bounds.NotBefore).Round(1e6))
		}
	}
	if settle.End == nil {
		r.unknown("the trial broke off before everything had settled")
	} else if settle.End.Phase.Error != "" {
		r.unknown("the harness did not see everything settle: %s", settle.End.Phase.Error)
	}
}

// writes holds the clients' writes to one instance.
type writes struct {
	before int            // Acknowledged writes sent before the healing ended.
	across bool           // One of before was answered after it.
	first  *history.Event // The first acknowledged write that was sent after it.
	tried  int            // Inserts sent within the bound and not acknowledged within it.
	lastID int64          // Event id of the last insert of tried.
}

type settling struct {
	*ruling
	set    *world.Set
	bounds history.Span      // From the end of the healing to the end of the bound.
	writes map[string]writes // By instance.
	whole  bool              // The harness waited for the whole bound without seeing everything settle.
}

// readWrites sorts the clients' writes by when they were sent.
func (j *settling) readWrites() {
	for _, op := range j.world.Operations() {
		e := op.Answer
		if e == nil || !isWrite(e.Op) {
			continue
		}
		w := j.writes[e.Op.Instance]
		ok := e.Op.Stage == history.StageOK && e.Span.NotAfter <= j.bounds.NotAfter
		switch {
		case op.Sent == nil || op.Sent.Span.NotBefore < j.bounds.NotBefore:
			if ok {
				w.before++
				w.across = w.across || e.Span.NotAfter >= j.bounds.NotBefore
			}
		case ok:
			if w.first == nil {
				w.first = e
			}
		case e.Op.F == history.OpInsert && op.Sent.Span.NotAfter < j.bounds.NotAfter &&
			e.Span.NotAfter <= j.bounds.NotAfter:
			w.tried++
			w.lastID = e.ID
		}
		j.writes[e.Op.Instance] = w
	}
}

// judge judges one instance.
func (j *settling) judge(ordinal int, name string) {
	w := j.writes[name]
	ready, bound := j.ready(name), j.trial.Plan.Bounds.Settle
	unwritten := j.trial.Plan.Workload.Light || j.trial.Origin(name) != name // No client writes to the instance.
	if ready && (unwritten || w.first != nil) {
		j.judged(name)
	}
	switch {
	case !ready:
		j.unknown("%s was not seen Ready within %s after the healing", name, bound)
	case !unwritten && w.first != nil:
		j.note("%s: Ready, and a write was acknowledged %s after the healing", name,
			w.first.Span.NotAfter.Sub(j.bounds.NotBefore).Round(1e6))
	}
	if w.first == nil && !unwritten {
		j.unknown("%s was not seen to take a write within %s after the healing", name, bound)
	}
	if !j.whole || !j.demanded(ordinal) {
		return
	}
	events := []int64{j.trial.Phase(history.PhaseHeal).End.ID, j.trial.Phase(history.PhaseSettle).End.ID}
	if p := j.last(name, j.bounds.NotAfter); p != nil {
		events = append(events, p.Event.ID)
	}
	blame := func(format string, args ...any) {
		j.violation(Finding{Subject: name, Span: j.bounds, Events: events}, format, args...)
	}
	switch {
	case w.first == nil && w.before > 0 && w.tried > 0 && !w.across:
		events = append(events, w.lastID)
		blame("%s took no write within %s after everything was healed: %s tried.", name, bound,
			were(w.tried, "insert"))
	case !ready && j.certainlyNotReady(name):
		blame("%s was not Ready at any time within %s after everything was healed.", name, bound)
	}
}

// blameGroup tells of a group that took writes before and none of the clients' tries, although each of its instances
// was Ready when the healing ended or within the bound. Nothing is promised where a promoter refuses to fail over, or
// where members of group replication have lost their majority: a person must decide then.
func (j *settling) blameGroup(group string, w writes) {
	work := j.trial.Plan.Workload
	refused := false // When the healing ended, since it is told once, or later.
	for _, e := range j.world.Of(history.KindPromotion) {
		switch refuses := e.Promotion.Act == history.ActRefuse; {
		case e.Span.NotAfter < j.bounds.NotBefore:
			refused = refuses
		default:
			refused = refused || refuses
		}
	}
	if work.GroupReplication() || refused && !work.ManualFailover {
		return
	}
	all := j.trial.Instances(j.trial.Finally())
	if !j.whole || w.before == 0 || w.tried == 0 || w.across ||
		slices.ContainsFunc(all, func(name string) bool { return !j.ready(name) }) {
		return
	}
	events := []int64{j.trial.Phase(history.PhaseHeal).End.ID, j.trial.Phase(history.PhaseSettle).End.ID, w.lastID}
	j.violation(Finding{Subject: group, Span: j.bounds, Events: events},
		"Group %s took no write within %s after everything was healed: %s tried, and each of its %s was Ready at "+
			"some time.", group, j.trial.Plan.Bounds.Settle, were(w.tried, "insert"), plan.Count(len(all), "instance"))
}

// last returns the last state of a pod that was known at t, nil if none.
func (j *settling) last(name string, t history.Time) *world.PodState {
	var last *world.PodState
	for _, p := range j.set.States {
		if p.Life.Name == name && p.Event.Span.NotAfter <= t {
			last = p
		}
	}
	return last
}

// ready reports whether a pod was known to be Ready when the healing ended, or became so within the bound.
func (j *settling) ready(name string) bool {
	if p := j.last(name, j.bounds.NotBefore); p != nil && p.Healthy() {
		return true
	}
	return slices.ContainsFunc(j.set.States, func(p *world.PodState) bool {
		at := p.Event.Span.NotAfter
		return p.Life.Name == name && p.Healthy() && at > j.bounds.NotBefore && at <= j.bounds.NotAfter
	})
}

// certainlyNotReady reports whether a watch without a gap, which outlived the bound, never showed the pod Ready within
// it. The watch of pods is silent while nothing changes, so any API watch counts as a sign of life.
func (j *settling) certainlyNotReady(name string) bool {
	for _, p := range j.set.States { // What was seen after the bound may have been so within it.
		if span := p.Event.Span; p.Life.Name == name && p.Healthy() && span.NotBefore <= j.bounds.NotAfter &&
			span.NotAfter > j.bounds.NotBefore {
			return false
		}
	}
	from, watch := j.trial.Start, j.world.Watch() // A pod that was never seen was never there.
	if last := j.last(name, j.bounds.NotBefore); last != nil {
		from = last.Event.Span.NotBefore
	}
	return watch.On(world.PodsObserver) && watch.Alive >= j.bounds.NotAfter &&
		!watch.Blind(from, j.bounds.NotAfter, world.PodsObserver, world.SetsObserver)
}

// endSlack is how long before the end of the bound a change may have come that was seen after it, and not count: the
// harness ends the instances right after the bound, and the span of what a watch sees begins when it was last heard of.
const endSlack = time.Second

// demanded reports whether the StatefulSet wanted the ordinal throughout the bound, but for endSlack.
func (j *settling) demanded(ordinal int) bool {
	known := false
	for _, st := range j.set.Versions {
		if st.Event.Span.NotBefore > j.bounds.NotAfter.Add(-endSlack) && st.Event.Span.NotAfter > j.bounds.NotAfter {
			break
		}
		known = keeps(st, ordinal)
		if st.Event.Span.NotAfter > j.bounds.NotBefore && !known {
			return false
		}
	}
	return known
}
