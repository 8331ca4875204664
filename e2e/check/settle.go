package check

import (
	"fmt"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/world"
)

// Settle judges liveness: once everything is healed, the workload comes back within the bound.
//
// Safety is judged while it hurts, liveness only now: a cluster may do nothing useful for as long as it is injured. The
// clock starts when the healing phase has ended. That an instance did not come back is claimed only of one that clients
// had written to before, that the StatefulSet demanded, and that an API watch without a gap, or clients that went on
// trying, saw fail for the whole bound. Of a workload without data only Ready is demanded.
func Settle() Check {
	return Check{
		Name:    "settle",
		Promise: "After the last heal every instance is Ready and takes a write within the bound.",
		Source:  "Seatrial's design: safety while it hurts, liveness after the last heal",
		Judge:   judgeSettle,
	}
}

func judgeSettle(h *world.World) Result {
	r := newRuling("instances settled")
	s, err := h.Trial()
	if err != nil {
		r.unknown("%v", err)
		return r.result()
	}
	heal := s.Phase(history.PhaseHeal).End
	if heal == nil {
		r.unknown("the trial never came to the end of its healing, so nothing had to settle")
		return r.result()
	}
	if heal.Phase.Error != "" {
		r.unknown("not everything was healed: %s", heal.Phase.Error)
		return r.result()
	}
	watch := world.Memo(h, readSets)
	set := watch.planned(s.Plan.Workload.StatefulSet)
	j := &settling{
		scene: s, ruling: r, watch: watch, set: set,
		bounds: history.Span{NotBefore: heal.Span.NotAfter,
			NotAfter: heal.Span.NotAfter.Add(s.Plan.Bounds.Settle.D())},
		writes: map[string]*writes{},
	}
	j.readWrites(h)
	settle := s.Phase(history.PhaseSettle)
	j.whole = settle.End != nil && settle.End.Phase.Error != "" && settle.End.Span.NotBefore >= j.bounds.NotAfter
	for i, name := range s.Instances(s.Finally()) {
		j.judge(s.Plan.Workload.Start+i, name)
	}
	if settle.End == nil {
		r.unknown("the trial broke off before everything had settled")
	} else if settle.End.Phase.Error != "" {
		r.unknown("the harness did not see everything settle: %s", settle.End.Phase.Error)
	}
	return r.result()
}

// writes is what clients saw of one instance.
type writes struct {
	before int            // Acknowledged before the healing ended.
	first  *history.Event // The first acknowledged insert that was sent after it.
	tried  int            // Inserts sent within the bound and not acknowledged within it.
	lastID int64          // Of the last of those.
}

type settling struct {
	scene  *world.Trial
	ruling *ruling
	watch  *setWatch
	set    *setLife
	bounds history.Span // From the end of the healing to the end of the bound.
	writes map[string]*writes
	whole  bool // The harness waited for the whole bound and saw not everything settle.
}

// readWrites sorts the clients' inserts by when they were sent.
func (j *settling) readWrites(h *world.World) {
	open := map[opKey]*history.Event{}
	for _, e := range h.Of(history.KindOp) {
		if e.Op.F != history.OpInsert {
			continue
		}
		op := opKey{e.Op.Instance, e.Op.Client, e.Op.Number}
		if e.Op.Stage == history.StageInvoke {
			if e.Span.NotAfter >= j.bounds.NotBefore {
				open[op] = e
			}
			j.of(op.instance)
			continue
		}
		sent := open[op]
		delete(open, op)
		w := j.of(op.instance)
		switch {
		case sent == nil || sent.Span.NotBefore < j.bounds.NotBefore:
			if e.Op.Stage == history.StageOK && e.Span.NotAfter <= j.bounds.NotAfter {
				w.before++
			}
		case e.Op.Stage == history.StageOK && e.Span.NotAfter <= j.bounds.NotAfter:
			if w.first == nil {
				w.first = e
			}
		case sent.Span.NotAfter < j.bounds.NotAfter:
			w.tried++
			w.lastID = e.ID
		}
	}
}

func (j *settling) of(instance string) *writes {
	w := j.writes[instance]
	if w == nil {
		w = &writes{}
		j.writes[instance] = w
	}
	return w
}

// judge judges one instance.
func (j *settling) judge(ordinal int, name string) {
	w := j.of(name)
	ready := j.set.readyWithin(name, j.bounds)
	unwritten := j.scene.Plan.Workload.Light || j.scene.Origin(name) != name
	if ready && unwritten {
		j.ruling.looked(name)
		j.ruling.evidence++ // There is nobody to write, or nothing to write to.
		return
	}
	if ready && w.first != nil {
		j.ruling.evidence++
		j.ruling.looked(name)
		j.ruling.note("%s: Ready, and a write was acknowledged %s after the healing", name,
			w.first.Span.NotAfter.Sub(j.bounds.NotBefore).Round(1e6))
		return
	}
	if !ready {
		j.ruling.unknown("%s was not seen Ready within %s after the healing", name, j.scene.Plan.Bounds.Settle)
	}
	if w.first == nil && !unwritten {
		j.ruling.unknown("%s was not seen to take a write within %s after the healing", name,
			j.scene.Plan.Bounds.Settle)
	}
	if !j.whole || !j.set.demands(ordinal, j.bounds) {
		return
	}
	switch {
	case w.first == nil && w.before > 0 && w.tried > 0:
		j.blame(name, fmt.Sprintf("%s took no write within %s after everything was healed: %d inserts were tried.",
			name, j.scene.Plan.Bounds.Settle, w.tried), w.lastID)
	case !ready && j.watch.certainlyNotReady(j.set, name, j.bounds):
		j.blame(name, fmt.Sprintf("%s was not Ready at any time within %s after everything was healed.",
			name, j.scene.Plan.Bounds.Settle), 0)
	}
}

func (j *settling) blame(name, sentence string, id int64) {
	events := []int64{j.scene.Phase(history.PhaseHeal).End.ID, j.scene.Phase(history.PhaseSettle).End.ID}
	if id != 0 {
		events = append(events, id)
	}
	if e := j.set.last(name, j.bounds.NotAfter); e != nil {
		events = append(events, e.Event.ID)
	}
	j.ruling.breach(Finding{
		Promise: Settle().Promise, Sentence: sentence, Subject: name, Span: j.bounds, Events: events,
		Faults: j.scene.FaultsIn(j.bounds),
	})
}
