package check

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// forever is the end of what was never seen to end.
const forever = history.Time(math.MaxInt64)

// scene is what every judge has to know first: what was planned, when the trial began, how far it came, and which
// faults lived when.
type scene struct {
	plan   plan.Plan
	start  history.Time
	phases map[phaseKey]phaseSpan
	faults []faultLife // In the order of the plan's steps.
}

type phaseKey struct {
	name history.PhaseName
	step int
}

// phaseSpan is the begin and the end of a phase or step, as far as they are in the history.
type phaseSpan struct {
	begin, end *history.Event
}

// errNoPlan makes every check Unknown: without the plan nobody knows what was to be shown.
var errNoPlan = errors.New("the history has no plan, so nobody knows what was to be shown")

// setScene reads the scene off a history.
func setScene(h history.History) (*scene, error) {
	s := &scene{phases: map[phaseKey]phaseSpan{}}
	planned := false
	var faults []*history.Event
	for i := range h.Events {
		e := &h.Events[i]
		switch {
		case e.Kind == history.KindPlan && !planned:
			p, err := readPlan(e.Plan)
			if err != nil {
				return nil, err
			}
			s.plan, s.start, planned = p, e.Span.NotAfter, true
		case e.Kind == history.KindPhase && e.Phase != nil:
			s.addPhase(e)
		case e.Kind == history.KindFault && e.Fault != nil:
			faults = append(faults, e)
		}
	}
	if !planned {
		return nil, errNoPlan
	}
	s.faults = faultLives(s.plan, faults)
	return s, nil
}

// readPlan decodes a plan and holds it against the rules on paper: with bounds of zero everything would pass.
func readPlan(raw []byte) (plan.Plan, error) {
	p, err := plan.Decode(bytes.NewReader(raw))
	if err != nil {
		return p, fmt.Errorf("the plan in the history cannot be read: %w", err)
	}
	caps := plan.Caps{Workloads: []string{p.Workload.Name}}
	for _, st := range p.AllSteps() {
		if st.Fault != nil {
			caps.Faults = append(caps.Faults,
				plan.FaultCaps{Name: st.Fault.Name, Families: true, CSI: st.Fault.CSI != nil, Outlasts: true,
					Triggers: true, Network: st.Fault.NetworkCaps(), Container: true, Grace: true,
					File:     st.Fault.File != "",
					Manifest: len(st.Fault.Manifest) > 0, Offset: st.Fault.Offset != 0})
		}
	}
	if err := p.Validate(caps); err != nil {
		return p, fmt.Errorf("the plan in the history is not legal: %w", err)
	}
	return p, nil
}

// addPhase keeps the first begin and the last end: a phase said to have ended badly later did.
func (s *scene) addPhase(e *history.Event) {
	key := phaseKey{e.Phase.Name, e.Phase.Step}
	span := s.phases[key]
	switch {
	case e.Phase.End:
		span.end = e
	case span.begin == nil:
		span.begin = e
	}
	s.phases[key] = span
}

// phase returns a phase's begin and end; both are nil when it never began.
func (s *scene) phase(name history.PhaseName) phaseSpan { return s.phases[phaseKey{name: name}] }

// clock renders an instant relative to the begin of the trial.
func (s *scene) clock(t history.Time) string {
	return fmt.Sprintf("+%.3f s", t.Sub(s.start).Seconds())
}

// hasData reports that the plan's workload is a database that clients write to. A history without a plan may have
// planned anything.
func hasData(h history.History) bool {
	s, err := setScene(h)
	return err != nil || !s.plan.Workload.Light
}

// instances returns the names of the first n pods of the StatefulSet.
func (s *scene) instances(n int) []string {
	names := make([]string, 0, max(n, 0))
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", s.plan.Workload.StatefulSet, s.plan.Workload.Start+i))
	}
	return names
}

// written returns how many of the first n pods clients write to: of databases that are copies of the first, that one.
func (s *scene) written(n int) int {
	if s.plan.Workload.Replicated {
		return min(n, 1)
	}
	return n
}

// origin returns the instance that the rows of one were written to: itself, or the one that it is a copy of.
func (s *scene) origin(name string) string {
	if !s.plan.Workload.Replicated {
		return name
	}
	return s.instances(1)[0]
}

// replicasAt returns how many replicas the plan wants when step n begins.
func (s *scene) replicasAt(n int) int {
	replicas := s.plan.Workload.Replicas
	for _, st := range s.plan.AllSteps() {
		if st.N < n && st.Do == plan.ActionScale && st.Replicas != nil {
			replicas = *st.Replicas
		}
	}
	return replicas
}

// finally returns how many replicas the plan leaves.
func (s *scene) finally() int { return s.replicasAt(math.MaxInt) }

// lastSight is when the observers could stop looking: when the instances had ended, when all was read back where a
// trial did not go so far, or the end of everything there is.
func (s *scene) lastSight(h history.History) history.Time {
	for _, name := range []history.PhaseName{history.PhaseEnd, history.PhaseAudit} {
		if end := s.phase(name).end; end != nil {
			return end.Span.NotBefore
		}
	}
	last := s.start
	for i := range h.Events {
		last = max(last, h.Events[i].Span.NotAfter)
	}
	return last
}

// faultLife is one planned fault and the facts of its life.
type faultLife struct {
	step   int
	name   string
	node   string
	victim string
	facts  map[history.FaultStage]*history.Event // The first chain of stages in their order.
	failed []*history.Event
	within bool // It was planned for the time of another fault, with which it shares its before and its after.
}

// lifeStages are the stages a fault must go through, in order. Armed is left out: not every fault can be armed.
func lifeStages() []history.FaultStage {
	return []history.FaultStage{
		history.StageIntent, history.StageInjected, history.StageConfirmed,
		history.StageHealed, history.StageConfirmedHealed,
	}
}

// faultLives puts the fault facts to the planned steps. A stage counts only when it came after the one before it: a
// heal before the injection, to begin clean, heals nothing.
func faultLives(p plan.Plan, facts []*history.Event) []faultLife {
	var lives []faultLife
	for _, st := range p.AllSteps() {
		if st.Do != plan.ActionFault || st.Fault == nil {
			continue
		}
		l := faultLife{
			step: st.N, name: st.Fault.Name, facts: map[history.FaultStage]*history.Event{},
			within: slices.ContainsFunc(p.Around(st.N), func(around plan.Step) bool { return around.Fault != nil }),
		}
		next := 0
		stages := lifeStages()
		for _, e := range facts {
			if e.Fault.Step != st.N {
				continue
			}
			l.node, l.victim = firstOf(l.node, e.Fault.Node), firstOf(l.victim, e.Fault.Victim)
			if e.Fault.Stage == history.StageFaultFailed {
				l.failed = append(l.failed, e)
			}
			i := slices.Index(stages, e.Fault.Stage)
			healsNothing := next == 0 && i > slices.Index(stages, history.StageConfirmed)
			if i >= next && !healsNothing {
				l.facts[e.Fault.Stage] = e
				next = i + 1
			}
		}
		lives = append(lives, l)
	}
	return lives
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// String names the fault as findings do.
func (l faultLife) String() string { return fmt.Sprintf("step %d %s", l.step, l.name) }

// active is the span in which the fault may have been at work: from its injection (or its intent, when only that is
// known) to its confirmed healing, and to the end when it was never shown to be healed.
func (l faultLife) active() (history.Span, bool) {
	begin := l.facts[history.StageInjected]
	if begin == nil {
		begin = l.facts[history.StageIntent]
	}
	if begin == nil {
		return history.Span{}, false
	}
	span := history.Span{NotBefore: begin.Span.NotBefore, NotAfter: forever}
	if end := l.facts[history.StageConfirmedHealed]; end != nil {
		span.NotAfter = end.Span.NotAfter
	}
	return span, true
}

// faultsIn names the faults that were active somewhere in span.
func (s *scene) faultsIn(span history.Span) []string {
	var names []string
	for _, l := range s.faults {
		if active, ok := l.active(); ok && active.PossiblyOverlaps(span) {
			names = append(names, l.String())
		}
	}
	return names
}
