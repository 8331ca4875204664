package world

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Forever is the end of anything whose end was not seen.
const Forever = history.Time(math.MaxInt64)

// Trial is the plan, the begin of the trial and the lives of its faults.
type Trial struct {
	*World
	Plan   plan.Plan
	Start  history.Time
	Faults []Fault // In the order of the plan's steps.
}

// errNoPlan makes every check Unknown.
var errNoPlan = errors.New("the history has no plan: what was to be shown is not known")

// readTrial reads the plan, the phases and the faults off a history.
func readTrial(w *World) (*Trial, error) {
	plans := w.Of(history.KindPlan)
	if len(plans) == 0 {
		return nil, errNoPlan
	}
	p, err := readPlan(plans[0].Plan)
	if err != nil {
		return nil, err
	}
	return &Trial{World: w, Plan: p, Start: w.Begin(), Faults: FaultLives(p, w.Of(history.KindFault))}, nil
}

// readPlan decodes and validates a plan: with bounds of zero, say, every check would pass.
func readPlan(raw []byte) (plan.Plan, error) {
	p, err := plan.Decode(raw)
	if err != nil {
		return p, fmt.Errorf("the plan in the history cannot be read: %w", err)
	}
	caps := plan.Caps{Workloads: []string{p.Workload.Name}}
	params := map[string][]string{} // By fault; one may be there several times, with others.
	for _, st := range p.AllSteps() {
		if f := st.Fault; f != nil {
			params[f.Name] = slices.AppendSeq(params[f.Name], maps.Keys(f.Params))
		}
	}
	for name, names := range params { // The faults' own parameters were validated before the run.
		caps.Faults = append(caps.Faults, plan.FaultCaps{Name: name, Outlasts: true, Triggers: true,
			Check: plan.Names(names...)})
	}
	if err := p.Validate(caps); err != nil {
		return p, fmt.Errorf("the plan in the history is not legal: %w", err)
	}
	return p, nil
}

// Instances returns the names of the first n pods of the StatefulSet.
func (s *Trial) Instances(n int) []string {
	names := make([]string, 0, max(n, 0))
	for i := range n {
		names = append(names, fmt.Sprintf("%s-%d", s.Plan.Workload.StatefulSet, s.Plan.Workload.Start+i))
	}
	return names
}

// Written returns what the clients write to, of the first n pods: all, only the first if the others replicate it, or
// their group.
func (s *Trial) Written(n int) []string {
	switch {
	case s.Plan.Workload.Grouped():
		return []string{s.Plan.Workload.StatefulSet}
	case s.Plan.Workload.Replicated:
		return s.Instances(min(n, 1))
	}
	return s.Instances(n)
}

// Origin returns what an instance's rows were written to: itself, the source that it replicates, or its group.
func (s *Trial) Origin(name string) string {
	if s.Plan.Workload.Grouped() || s.Plan.Workload.Replicated {
		return s.Written(1)[0]
	}
	return name
}

// ReplicasAt returns how many replicas the plan wants when step n begins.
func (s *Trial) ReplicasAt(n int) int {
	replicas := s.Plan.Workload.Replicas
	for _, st := range s.Plan.AllSteps() {
		if st.N < n && st.Do == plan.ActionScale && st.Replicas != nil {
			replicas = *st.Replicas
		}
	}
	return replicas
}

// Finally returns how many replicas the plan ends with.
func (s *Trial) Finally() int { return s.ReplicasAt(math.MaxInt) }

// LookedUntil returns when the observers could stop: at the end of phase "end", else of phase "audit", else of the
// history.
func (s *Trial) LookedUntil() history.Time {
	for _, name := range []history.PhaseName{history.PhaseEnd, history.PhaseAudit} {
		if end := s.Phase(name).End; end != nil {
			return end.Span.NotBefore
		}
	}
	return s.Last()
}

// Fault is one planned fault with the events of its life.
type Fault struct {
	Step   int
	Name   string
	Node   string
	Victim string
	Takes  []plan.Part
	Facts  map[history.FaultStage]*history.Event // Stages in order, see FaultLife.
	Failed []*history.Event
	Within bool // The plan nests it within another fault's step; see Outermost.
}

// LifeStages returns the stages that every fault must go through, in order. StageArmed is not one of them: not every
// fault can be armed.
func LifeStages() []history.FaultStage {
	return []history.FaultStage{
		history.StageIntent, history.StageInjected, history.StageConfirmed,
		history.StageHealed, history.StageConfirmedHealed,
	}
}

// FaultLives returns the FaultLife of every planned fault, in the order of the plan's steps.
func FaultLives(p plan.Plan, facts []*history.Event) []Fault {
	var lives []Fault
	for _, st := range p.AllSteps() {
		if st.Do == plan.ActionFault && st.Fault != nil {
			l := FaultLife(facts, st.N, st.Fault.Name)
			l.Within = slices.ContainsFunc(p.Around(st.N), func(around plan.Step) bool { return around.Fault != nil })
			lives = append(lives, l)
		}
	}
	return lives
}

// FaultLife collects the events of the fault of one step. A stage counts only after the stage before it: the heal that
// precedes an injection, to begin clean, heals nothing.
func FaultLife(facts []*history.Event, step int, name string) Fault {
	l := Fault{Step: step, Name: name, Takes: Takes(facts, step, name),
		Facts: map[history.FaultStage]*history.Event{}}
	next := 0
	stages := LifeStages()
	for _, e := range facts {
		if e.Fault.Step != step {
			continue
		}
		l.Node, l.Victim = cmp.Or(l.Node, e.Fault.Node), cmp.Or(l.Victim, e.Fault.Victim)
		if e.Fault.Stage == history.StageFaultFailed {
			l.Failed = append(l.Failed, e)
		}
		i := slices.Index(stages, e.Fault.Stage)
		healsNothing := next == 0 && i > slices.Index(stages, history.StageConfirmed)
		if i >= next && !healsNothing {
			l.Facts[e.Fault.Stage] = e
			next = i + 1
		}
	}
	return l
}

// String names the fault, as findings print it.
func (l Fault) String() string { return fmt.Sprintf("step %d %s", l.Step, l.Name) }

// Active returns the span in which the fault may have been active: from its injection, or its intent if only that is
// known, to its confirmed healing, or to Forever if there is none. It returns false if the fault was never intended.
func (l Fault) Active() (history.Span, bool) {
	if span, ok := l.since(history.StageInjected); ok {
		return span, true
	}
	return l.since(history.StageIntent)
}

// since returns the span from a stage of the fault's life to its confirmed healing, false if it never reached the
// stage.
func (l Fault) since(stage history.FaultStage) (history.Span, bool) {
	begin := l.Facts[stage]
	if begin == nil {
		return history.Span{}, false
	}
	span := history.Span{NotBefore: begin.Span.NotBefore, NotAfter: Forever}
	if end := l.Facts[history.StageConfirmedHealed]; end != nil {
		span.NotAfter = end.Span.NotAfter
	}
	return span, true
}

// FaultsIn names the faults that were active at some time in span.
func (s *Trial) FaultsIn(span history.Span) []string {
	var names []string
	for _, l := range s.Faults {
		if active, ok := l.Active(); ok && active.PossiblyOverlaps(span) {
			names = append(names, l.String())
		}
	}
	return names
}

// FaultsUntil names the faults that had begun by t: damage found in a volume at t may come from any of them.
func (s *Trial) FaultsUntil(t history.Time) []string {
	return s.FaultsIn(history.Span{NotBefore: s.Start, NotAfter: t})
}

// TakesControl reports whether a fault takes a part of the control plane.
func (l Fault) TakesControl() bool {
	control := []plan.Part{plan.PartControlPlane, plan.PartAPIServer, plan.PartEtcd, plan.PartManager,
		plan.PartScheduler, plan.PartRequests}
	return slices.ContainsFunc(l.Takes, func(p plan.Part) bool { return slices.Contains(control, p) })
}

// endsBoot reports whether the fault ends the boot of its node. The parts that it takes do not tell: a partition takes
// the node as well.
func (l Fault) endsBoot() bool {
	return slices.Contains([]string{"node-crash", "node-reboot", "node-reset", "node-stop", "power-loss"}, l.Name)
}

// HurtsControl reports whether a fault takes a part of the control plane or acts on a control-plane node.
func (s *Trial) HurtsControl(l Fault) bool {
	return l.TakesControl() || l.Node != "" && s.IsControlPlane(l.Node)
}

// Ran reports whether a step ran at some time in span or ended less than CacheLag before it.
func (s *Trial) Ran(n int, span history.Span) bool {
	step := s.StepPhase(n)
	return step.Begin != nil && step.Begin.Span.NotBefore <= span.NotAfter &&
		(step.End == nil || step.End.Span.NotAfter.Add(CacheLag) >= span.NotBefore)
}

// OwnerOf returns, in words, who owns a thing by its owner mark, and the owning fault if it is one of this trial; run
// is this trial's run.
func (s *Trial) OwnerOf(t history.Thing, run string) (who string, faults []string) {
	switch {
	case t.Run == "":
		return "it bears no owner's mark", nil
	case t.Run != run:
		return fmt.Sprintf("it bears the mark of step %d of run %s, which is another", t.Step, t.Run), nil
	}
	for _, st := range s.Plan.AllSteps() {
		if st.N == t.Step && st.Do == plan.ActionUpgrade {
			return fmt.Sprintf("it bears the mark of step %d of this trial, an upgrade", t.Step), nil
		}
		if st.N == t.Step && st.Do == plan.ActionFault && st.Fault != nil {
			name := fmt.Sprintf("step %d %s", st.N, st.Fault.Name)
			return "it bears the mark of " + name + " of this trial", []string{name}
		}
	}
	return fmt.Sprintf("it bears the mark of step %d of this trial, which the plan does not have", t.Step), nil
}

// Takes returns the parts that the fault of a step takes, from its events. Events of old runs do not have them, nor do
// those of a fault that holds nothing while it is active, such as the deletion of a pod: for these it falls back to the
// fault's name.
func Takes(facts []*history.Event, step int, name string) []plan.Part {
	for _, e := range facts {
		if e.Fault.Step == step && len(e.Fault.Takes) > 0 {
			var parts []plan.Part
			for _, part := range e.Fault.Takes {
				parts = append(parts, plan.Part(part))
			}
			return parts
		}
	}
	for _, old := range []struct {
		part  plan.Part
		names []string
	}{
		{plan.PartProcesses, []string{"node-stop", "node-crash"}},
		{plan.PartPod, []string{"pod-delete", "pod-force-delete"}},
		{plan.PartClaim, []string{"claim-delete"}},
		{plan.PartObject, []string{"node-delete"}},
		{plan.PartVolume, []string{"volume-full", "volume-read-only"}},
		{plan.PartAPIServer, []string{"apiserver-freeze", "apiserver-kill", "apiserver-stop"}},
		{plan.PartEtcd, []string{"etcd-freeze", "etcd-kill", "etcd-stop"}},
		{plan.PartManager, []string{"manager-freeze", "manager-kill", "manager-stop", "force-detach-off"}},
		{plan.PartScheduler, []string{"scheduler-freeze", "scheduler-kill", "scheduler-stop"}},
	} {
		if slices.Contains(old.names, name) {
			return []plan.Part{old.part}
		}
	}
	return nil
}

// Surroundings are the times around a fault: the fault and those that overlap it lasted from From to To; Last is when
// the last fault before was healed, or the start of the trial, and Next when the next one was injected, or Forever.
type Surroundings struct{ Last, From, To, Next history.Time }

// Outermost returns the faults that are within no other. A nested fault shares the before and after of the outer one:
// the time between two overlapping faults proves nothing about either.
func (s *Trial) Outermost() []Fault {
	return slices.DeleteFunc(slices.Clone(s.Faults), func(l Fault) bool { return l.Within })
}

// Around returns the times around an outermost fault, false if it was not both injected and confirmed healed. Faults in
// a chain of overlaps share one before and one after, as does a nested one that outlasts it.
func (s *Trial) Around(l Fault) (Surroundings, bool) {
	injected, over := l.Facts[history.StageInjected], l.Facts[history.StageConfirmedHealed]
	if injected == nil || over == nil {
		return Surroundings{}, false
	}
	at := Surroundings{From: injected.Span.NotBefore, To: over.Span.NotAfter}
	for grown := true; grown; {
		grown = false
		for _, o := range s.Faults {
			active, ok := o.Active()
			if ok && active.PossiblyOverlaps(history.Between(at.From, at.To)) &&
				(active.NotBefore < at.From || active.NotAfter > at.To) {
				at.From, at.To = min(at.From, active.NotBefore), max(at.To, active.NotAfter)
				grown = true
			}
		}
	}
	at.Last, at.Next = s.Start, Forever
	for _, o := range s.Faults {
		if e := o.Facts[history.StageConfirmedHealed]; e != nil && e.Span.NotAfter <= at.From {
			at.Last = max(at.Last, e.Span.NotAfter)
		}
		if e := o.Facts[history.StageInjected]; e != nil && e.Span.NotBefore >= at.To {
			at.Next = min(at.Next, e.Span.NotBefore)
		}
	}
	return at, true
}

// Steady returns how many instances, counted from the first, the plan keeps before, during and after the outermost step
// around step n.
func (s *Trial) Steady(n int) int {
	top := n
	if around := s.Plan.Around(n); len(around) > 0 {
		top = around[0].N
	}
	steady, gone := s.ReplicasAt(top), false
	for _, st := range s.Plan.AllSteps() {
		switch {
		case st.N >= top:
		case st.Do == plan.ActionDeleteSet:
			gone = st.Cascade != plan.CascadeOrphan
		case st.Do == plan.ActionCreateSet:
			gone = false
		}
	}
	for _, st := range s.Plan.Steps {
		if st.N != top {
			continue
		}
		for _, in := range append(st.Within(), st) {
			switch {
			case in.Do == plan.ActionScale && in.Replicas != nil:
				steady = min(steady, *in.Replicas)
			case in.Do == plan.ActionDeleteSet && in.Cascade != plan.CascadeOrphan:
				gone = true
			}
		}
	}
	if gone {
		return 0
	}
	return steady
}
