package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/world"
)

// Coverage judges whether the trial tested anything: each planned fault was injected, took effect and was healed, with
// the workload at work around it. It never fails: what is missing makes the trial Unknown.
func Coverage() Check {
	return Check{
		Name:    "coverage",
		When:    OnFault,
		Promise: "Every planned fault took effect and was healed, the workload at work before, during and after.",
		Source:  "Seatrial's design: a trial in which nothing happened proves nothing",
		Unit:    "faults shown and healed, and steps carried out",
		judge:   judgeCoverage,
	}
}

func judgeCoverage(r *ruling) {
	var t reported
	for _, l := range r.trial.Faults {
		r.judgeLife(l)
		for _, e := range l.Failed {
			t = append(t, e.Fault.Error)
		}
	}
	t = r.judgeSteps(t)
	for _, name := range []history.PhaseName{
		history.PhaseSetup, history.PhaseSteady, history.PhaseLoad, history.PhaseHeal, history.PhaseSettle,
		history.PhaseAudit,
	} {
		r.judgePhase(r.trial.Phase(name), "phase "+string(name), t)
	}
	r.judgeAtWork()
	r.judgeObservers()
	if r.trial.Phase(history.PhaseDone).End == nil {
		r.unknown("the history has no end: facts after its last one are missing")
	}
}

// reported holds the errors that are reasons already: a fault's error comes up again as that of its step and phase.
type reported []string

// ending says that something ended with err; it leaves err out if that is a reason already.
func (t reported) ending(err string) string {
	for _, known := range t {
		if known != "" && strings.Contains(err, known) {
			return "was cut short by that"
		}
	}
	return "ended badly: " + err
}

// judgePhase reports whether a phase or step began and ended well.
func (r *ruling) judgePhase(p world.PhaseSpan, what string, t reported) bool {
	switch {
	case p.Begin == nil:
		r.unknown("%s never began", what)
	case p.End == nil:
		r.unknown("%s never ended", what)
	case p.End.Phase.Error != "":
		r.unknown("%s %s", what, t.ending(p.End.Phase.Error))
	default:
		return true
	}
	return false
}

// judgeSteps demands that every step began and ended well, and adds their errors to t. If the trial gave up the plan,
// the remaining steps are one reason.
func (r *ruling) judgeSteps(t reported) reported {
	steps := r.trial.Plan.AllSteps()
	begun := 0
	for i, st := range steps {
		if r.trial.StepPhase(st.N).Begin != nil {
			begun = i + 1
		}
	}
	for i, st := range steps {
		what := fmt.Sprintf("step %d (%s)", st.N, st.Do)
		if st.Fault != nil {
			what = fmt.Sprintf("step %d (%s)", st.N, st.Fault.Name)
		}
		if after := len(steps) - i - 1; i >= begun && after > 0 {
			r.unknown("%s and the rest of the plan, steps %d to %d, never began", what, st.N+1, st.N+after)
			return t
		}
		p, upgrade := r.trial.StepPhase(st.N), r.lastPart(st.N)
		if upgrade != nil && (p.End == nil || p.End.Phase.Error != "") {
			r.unknown("step %d: %s", st.N, r.stoodAt(upgrade))
			t = append(t, upgrade.Upgrade.Error)
		}
		well := r.judgePhase(p, what, t)
		switch {
		case well && st.Do != plan.ActionFault:
			r.evidence++
		case !well && p.End != nil:
			t = append(t, p.End.Phase.Error)
		}
	}
	return t
}

// judgeLife demands that a fault went through all stages in order, with evidence of its effect and of its healing.
func (r *ruling) judgeLife(l world.Fault) {
	if len(l.Facts) == 0 && len(l.Failed) == 0 {
		r.unknown("%s was never carried out", l)
		return
	}
	whole := true
	lacks := func(format string, args ...any) {
		whole = false
		r.unknown(format, args...)
	}
	for _, e := range l.Failed {
		lacks("%s on node %s failed: %s", l, e.Fault.Node, e.Fault.Error)
	}
	var before *history.Event
	for _, stage := range world.LifeStages() {
		e := l.Facts[stage]
		if e == nil {
			lacks("%s was never %s", l, stageWord(stage))
			continue
		}
		if before != nil && e.Span.CertainlyBefore(before.Span) {
			lacks("%s was %s before it was %s", l, stageWord(stage), stageWord(before.Fault.Stage))
		}
		before = e
		shown := stage == history.StageConfirmed || stage == history.StageConfirmedHealed
		if shown && strings.TrimSpace(strings.Join(e.Fault.Evidence, "")) == "" {
			lacks("%s is said to be %s, and nothing that was seen is given for it", l, stageWord(stage))
		}
	}
	if whole {
		r.evidence++
	}
}

// stageWord returns the participle of a stage.
func stageWord(stage history.FaultStage) string {
	switch stage {
	case history.StageIntent:
		return "written down beforehand"
	case history.StageInjected:
		return "injected"
	case history.StageConfirmed:
		return "shown to have taken effect"
	case history.StageHealed:
		return "healed"
	case history.StageConfirmedHealed:
		return "shown to be gone"
	}
	return string(stage)
}

// window is a span in which the workload must have been at work, and the operations acknowledged in it.
type window struct {
	history.Span
	what   string
	victim string // Count only this instance's operations; "" means all.
	hurt   string // The instance that the fault hurts.
	alone  bool   // No other may take its place as the writer while it may be alive; the window before comes first.
	ops    int
	others int // Of ops, the inserts by other members of the group than hurt.
	asked  int // Under way in the window, whatever came of them.
}

// judgeAtWork counts the operations acknowledged around each fault. An operation counts for a window that holds all of
// it: one that was sent before the effect was shown and answered after it proves nothing about the time of the fault.
func (r *ruling) judgeAtWork() {
	windows := workWindows(r.trial)
	for _, op := range r.world.Operations() {
		if op.Sent == nil {
			continue
		}
		for j := range windows {
			w := &windows[j]
			if underWay(op).PossiblyOverlaps(w.Span) {
				w.asked++
			}
			if op.Answer == nil || op.Answer.Op.Stage != history.StageOK {
				continue
			}
			if op.Sent.Span.NotBefore >= w.NotBefore && op.Answer.Span.NotAfter <= w.NotAfter &&
				(w.victim == "" || w.victim == op.Answer.Op.Instance) {
				w.ops++
				if op.Answer.Op.F == history.OpInsert && op.Answer.Op.By != w.hurt {
					w.others++
				}
			}
		}
	}
	need := r.trial.Plan.Bounds.MinAround
	for i, w := range windows {
		ops, done := w.ops, "acknowledged"
		if w.alone && w.others == 0 && windows[i-1].others == 0 { // It is the writer; more there cannot be.
			ops, done = w.asked, "asked of "+w.hurt
		}
		if ops < need {
			r.unknown("%s %s %s, the plan demands %d", were(ops, "operation"), done, w.what, need)
		}
	}
}

// workWindows returns the windows of the outermost faults that went through all stages; judgeLife reports the others.
// A fault during which the plan removes every instance has no window "during".
func workWindows(s *world.Trial) []window {
	var windows []window
	for _, l := range s.Outermost() {
		confirmed, healed := l.Facts[history.StageConfirmed], l.Facts[history.StageHealed]
		at, ok := s.Around(l)
		if !ok || confirmed == nil || healed == nil {
			continue
		}
		add := func(what, victim string, from, to history.Time) {
			windows = append(windows, window{Span: history.Span{NotBefore: from, NotAfter: to},
				what: what + " " + l.String(), victim: victim, hurt: l.Victim})
		}
		steady := s.Instances(s.Steady(l.Step))
		add("before", "", at.Last, at.From)
		if len(steady) > 0 {
			add("during", "", confirmed.Span.NotAfter, healed.Span.NotBefore)
			windows[len(windows)-1].alone = s.Plan.Workload.TopologyName() == plan.TopologyAsync
		}
		if at.To == world.Forever {
			continue // Another fault was never shown to be gone.
		}
		add("after", "", at.To, at.Next)
		if slices.Contains(steady, l.Victim) && s.Origin(l.Victim) == l.Victim {
			add("by "+l.Victim+" after", l.Victim, at.To, at.Next)
		}
	}
	return windows
}

// judgeObservers demands that every observer that ever ran was alive when the healing began, up to the bound of blind
// gaps.
func (r *ruling) judgeObservers() {
	heal := r.trial.Phase(history.PhaseHeal).Begin
	if heal == nil {
		return
	}
	type observer struct{ name, node string }
	last := map[observer]history.Time{}
	var order []observer
	for _, e := range r.world.Of(history.KindObserver) {
		o := observer{e.Observer.Name, e.Observer.Node}
		if _, known := last[o]; !known {
			order = append(order, o)
		}
		last[o] = max(last[o], e.Span.NotAfter)
	}
	if len(order) == 0 {
		r.unknown("no observer was ever on")
	}
	deadline := heal.Span.NotBefore.Add(-r.trial.Plan.Bounds.BlindGap.D())
	for _, o := range order {
		if last[o] < deadline {
			r.unknown("the observer %s fell silent at %s, before everything was healed at %s",
				strings.TrimSuffix(o.name+" of "+o.node, " of "), r.clock(last[o]), r.clock(heal.Span.NotBefore))
		}
	}
}
