package fault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// Journal stores the stages of a fault. Append returns once the entry would survive a crash of the harness.
type Journal interface {
	Append(run string, at history.Time, f history.Fault) error
}

// Limits bound the stages of a fault, in addition to the bound of its step. A guard adds what the fault may wait
// (Waiter) to Confirm, which also bounds the act, and to ConfirmHealed.
type Limits struct {
	Confirm       time.Duration
	Heal          time.Duration
	ConfirmHealed time.Duration
	// Abandoned bounds ConfirmHealed after the trial was cancelled, when a person is waiting.
	Abandoned time.Duration
}

// ConfirmLimit is the default of Limits.Confirm. The longest wait of any fault is for the lease in a partition, 15 s to
// 25 s; the rest allows for a busy machine.
const ConfirmLimit = 60 * time.Second

// DefaultLimits returns the defaults for limits that are zero.
func DefaultLimits() Limits {
	return Limits{
		Confirm: ConfirmLimit, Heal: 30 * time.Second, ConfirmHealed: 3 * time.Minute, Abandoned: 20 * time.Second,
	}
}

// Life is the longest time that a fault may stay without a heal; its undo in the kernel is armed with it, and that on
// the node with what its act may wait in addition. It is longer than any fault that the guard heals in time.
func Life(spec plan.Fault) time.Duration {
	if spec.Life > 0 {
		return spec.Life.D()
	}
	life := ConfirmLimit + spec.Hold.D() + 15*time.Second
	for _, steps := range [][]plan.Step{spec.Provoke, spec.During} {
		for _, s := range steps {
			life += s.Bound.D()
		}
	}
	return life
}

// Config configures a guard.
type Config struct {
	Step     plan.Step // With Fault set.
	Env      Env
	Of       Definition // Of the fault; what it takes is recorded in the history.
	Recorder history.Recorder
	Journal  Journal // Optional; without one, a crash of the harness loses the state of the fault.
	// Provoke runs after Inject and before Confirm. It serves a fault whose act waits for a call (plan.Fault.When). Its
	// error ends the fault early.
	Provoke func(ctx context.Context) error
	// During runs after Confirm and before the hold. Its error ends the fault early.
	During func(ctx context.Context) error
	// Before runs once the node is clean and nothing is injected, After once ConfirmHealed succeeded. An error of
	// Before ends the fault before it begins. Both are optional.
	Before, After func(ctx context.Context) error
	Limits        Limits
}

// Guard takes a fault through its stages in order, records each, and heals after any error. It is not safe for
// concurrent use.
type Guard struct {
	cfg      Config
	f        Fault
	state    State
	injected bool // Inject was called, even if it failed.
	armed    bool // Arm was called, even if it failed.
	tasks    []undo.Task
	undoAt   history.Time // The earliest time at which the armed undo runs; zero if none is armed.
	held     []Fact
	bounded  []clusters.BoundedNode // Whose leave was given.
}

// NewGuard returns a guard for f, which was made from cfg.Step and cfg.Env.
func NewGuard(cfg Config, f Fault) *Guard {
	defaults := DefaultLimits()
	l := &cfg.Limits
	wait := cfg.Of.wait(*cfg.Step.Fault)
	l.Confirm, l.Heal = cmp.Or(l.Confirm, defaults.Confirm)+wait, cmp.Or(l.Heal, defaults.Heal)
	l.ConfirmHealed = cmp.Or(l.ConfirmHealed, defaults.ConfirmHealed) + wait
	l.Abandoned = cmp.Or(l.Abandoned, defaults.Abandoned)
	if cfg.Env.Log == nil {
		cfg.Env.Log = slog.New(slog.DiscardHandler)
	}
	return &Guard{cfg: cfg, f: f, state: StateFresh}
}

// State returns the fault's state.
func (g *Guard) State() State { return g.state }

// Begin heals leftovers of an earlier run, runs the Before hook, and journals the intent.
func (g *Guard) Begin(ctx context.Context) error {
	return g.move(ctx, verbBegin, history.StageIntent, g.cfg.Limits.ConfirmHealed,
		func(ctx context.Context) ([]Fact, error) {
			if err := g.f.Heal(ctx); err != nil {
				return nil, fmt.Errorf("heal to begin clean: %w", err)
			}
			if g.cfg.Before == nil {
				return nil, nil
			}
			return nil, g.cfg.Before(ctx)
		})
}

// Arm asks the nodes for leave, where they bound what a harness may do, and arms the undo, if the fault has one.
func (g *Guard) Arm(ctx context.Context) error {
	undoer, ok := g.f.(Undoer)
	stage := history.StageArmed
	if !ok {
		stage = "" // Nothing is armed, so nothing is recorded.
	}
	return g.move(ctx, verbArm, stage, g.cfg.Limits.Heal, func(ctx context.Context) ([]Fact, error) {
		if err := g.leave(ctx); err != nil || !ok {
			return nil, err
		}
		g.armed = true
		tasks, err := undoer.Undo(ctx)
		if err != nil {
			return nil, err
		}
		g.tasks = tasks
		life := g.cfg.Of.Life(*g.cfg.Step.Fault)
		g.undoAt = g.cfg.Env.Clock().Add(life)
		return nil, Arm(ctx, g.cfg.Env, g.owner(), life, tasks)
	})
}

// leave asks the agents of the nodes that the fault does harm to for leave to do so until its undo is due.
func (g *Guard) leave(ctx context.Context) error {
	nodes := []clusters.Node{g.cfg.Env.Node}
	if plan.OnControlPlane(g.cfg.Of.Takes) {
		var err error
		if nodes, err = g.cfg.Env.ControlPlane(ctx); err != nil {
			return err
		}
	}
	life := g.cfg.Of.Life(*g.cfg.Step.Fault)
	for _, n := range nodes {
		bounded, ok := n.(clusters.BoundedNode)
		if !ok {
			continue
		}
		if err := bounded.BeginFault(ctx, g.owner().Name(), g.cfg.Step.Fault.Name, life); err != nil {
			return errors.Join(err, g.giveBack(ctx))
		}
		g.bounded = append(g.bounded, bounded)
	}
	return nil
}

func (g *Guard) giveBack(ctx context.Context) error {
	var errs []error
	for _, n := range g.bounded {
		errs = append(errs, n.EndFault(ctx, g.owner().Name()))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	g.bounded = nil
	return nil
}

// Inject carries out the act. It stops before the undo is due: nothing would undo a later act.
func (g *Guard) Inject(ctx context.Context) error {
	limit := g.cfg.Limits.Confirm
	if g.undoAt > 0 {
		limit = min(limit, g.undoAt.Sub(g.cfg.Env.Clock())-undoMargin)
	}
	return g.move(ctx, verbInject, history.StageInjected, limit,
		func(ctx context.Context) ([]Fact, error) {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("the undo is due before the act: %w", err)
			}
			g.injected = true
			return nil, g.f.Inject(ctx)
		})
}

// undoMargin is how long before its undo an act must end: a command that reached the node cannot be recalled.
const undoMargin = 2 * time.Second

// Confirm waits for the effect. A fault without facts has failed.
func (g *Guard) Confirm(ctx context.Context) error {
	return g.move(ctx, verbConfirm, history.StageConfirmed, g.cfg.Limits.Confirm,
		func(ctx context.Context) ([]Fact, error) { return requireFacts(g.f.Confirm(ctx)) })
}

func (g *Guard) owner() undo.Owner { return undo.Owner{Run: g.cfg.Env.RunID, Step: g.cfg.Step.N} }

// Heal undoes the fault, then disarms the undo.
func (g *Guard) Heal(ctx context.Context) error {
	return g.move(ctx, verbHeal, history.StageHealed, g.cfg.Limits.Heal,
		func(ctx context.Context) ([]Fact, error) {
			if err := g.f.Heal(ctx); err != nil {
				return g.held, err
			}
			if err := Disarm(ctx, g.cfg.Env, g.owner(), g.tasks); err != nil {
				return g.held, fmt.Errorf("disarm the undo: %w", err)
			}
			return g.held, g.giveBack(ctx)
		})
}

// ConfirmHealed waits until the effect is gone.
func (g *Guard) ConfirmHealed(ctx context.Context) error {
	return g.move(ctx, verbConfirmHealed, history.StageConfirmedHealed, g.cfg.Limits.ConfirmHealed,
		func(ctx context.Context) ([]Fact, error) { return requireFacts(g.f.ConfirmHealed(ctx)) })
}

// ErrNothingShown is the error of a fault that reports an effect, or its end, without a fact.
var ErrNothingShown = errors.New("it shows nothing for it")

// requireFacts drops facts without a sentence, and returns ErrNothingShown if none is left and err is nil.
func requireFacts(facts []Fact, err error) ([]Fact, error) {
	facts = slices.DeleteFunc(facts, func(f Fact) bool { return f.Sentence == "" })
	if err == nil && len(facts) == 0 {
		return nil, ErrNothingShown
	}
	return facts, err
}

// move makes one transition: it calls act within limit and records the outcome.
func (g *Guard) move(ctx context.Context, verb string, stage history.FaultStage, limit time.Duration,
	act func(ctx context.Context) ([]Fact, error),
) error {
	from, to := transition(verb)
	if !slices.Contains(from, g.state) {
		return g.wrap(verb, fmt.Errorf("state is %q: %w", g.state, ErrOrder))
	}
	bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("the limit of %s is over", limit))
	defer cancel()
	begin := g.cfg.Env.Clock()
	facts, err := recovered(bounded, act)
	if err != nil && bounded.Err() != nil {
		err = errors.Join(err, context.Cause(bounded))
	}
	span := history.Between(begin, g.cfg.Env.Clock())
	if err == nil {
		err = g.record(stage, span, facts, nil)
		if err != nil && (verb == verbHeal || verb == verbConfirmHealed) {
			g.state = to // The act succeeded; only the record is missing.
			return g.wrap(verb, err)
		}
	}
	if err != nil {
		g.state = StateHurt
		err = g.wrap(verb, err)
		return errors.Join(err, g.record(history.StageFaultFailed, span, facts, err))
	}
	g.state = to
	g.cfg.Env.Log.Info(verb, "fault", g.cfg.Step.Fault.Name, "node", g.node(), "took", span.Length())
	return nil
}

// recovered calls act and turns a panic into an error, so that the fault is still healed.
func recovered(ctx context.Context, act func(ctx context.Context) ([]Fact, error)) (facts []Fact, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return act(ctx)
}

func (g *Guard) wrap(verb string, err error) error {
	return &StageError{Fault: g.cfg.Step.Fault.Name, Node: g.node(), Stage: verb, Err: err}
}

func (g *Guard) node() string {
	if g.cfg.Env.Node == nil {
		return ""
	}
	return g.cfg.Env.Node.Name()
}

// record writes one stage to the journal, then to the history. An empty stage is not recorded.
func (g *Guard) record(stage history.FaultStage, span history.Span, facts []Fact, failure error) error {
	if stage == "" {
		return nil
	}
	f := history.Fault{
		Step: g.cfg.Step.N, Name: g.cfg.Step.Fault.Name, Stage: stage, Node: g.node(), Victim: g.cfg.Env.Pod,
	}
	if stage == history.StageIntent || stage == history.StageInjected {
		for _, part := range g.cfg.Of.Takes {
			f.Takes = append(f.Takes, string(part))
		}
	}
	for _, fact := range facts {
		f.Evidence = append(f.Evidence, fact.String())
	}
	if failure != nil {
		f.Error = failure.Error()
	}
	var err error
	if g.cfg.Journal != nil {
		if err = g.cfg.Journal.Append(g.cfg.Env.RunID, span.NotAfter, f); err != nil {
			err = fmt.Errorf("keep stage %q in the journal: %w", stage, err)
		}
	}
	if err == nil || stage != history.StageIntent { // Without a journal entry the fault does not begin.
		g.cfg.Recorder.Record(history.Event{Kind: history.KindFault, Source: "guard", Span: span, Fault: &f})
	}
	return err
}

// String returns the sentence with its time.
func (f Fact) String() string {
	if f.Span.NotBefore == f.Span.NotAfter {
		return fmt.Sprintf("%s (at %s)", f.Sentence, f.Span.NotAfter)
	}
	return fmt.Sprintf("%s (between %s and %s)", f.Sentence, f.Span.NotBefore, f.Span.NotAfter)
}

// State is the state of a guarded fault.
//
//	fresh --Begin--> clean --Arm--> armed --Inject--> injected --Confirm--> shown (hold)
//	                   |              |                  |                   |
//	                   +------Heal----+-------Heal-------+--------Heal-------+---> healed --ConfirmHealed--> over
//	                                                                              ^  |
//	any state --error--> hurt ------------------------Heal------------------------+  +--Heal--> healed
//
// Heal is legal in every state but fresh and over. A fault that was hurt once counts as failed, even when it is over.
type State string

// The states of a guarded fault.
const (
	StateFresh    State = "fresh"    // Nothing was done.
	StateClean    State = "clean"    // Leftovers are healed, and the intent is in the journal.
	StateArmed    State = "armed"    // The undo is armed, or the fault has none.
	StateInjected State = "injected" // The act was carried out.
	StateShown    State = "shown"    // The effect was shown.
	StateHurt     State = "hurt"     // A stage failed; anything may be left.
	StateHealed   State = "healed"   // The undo was carried out.
	StateOver     State = "over"     // The end of the effect was shown.
)

// ErrOrder is wrapped by the error of a call that is not legal in the guard's state. The call does nothing.
var ErrOrder = errors.New("not legal in this state")

// transition returns the states in which a verb is legal and the state it leads to. Every error leads to StateHurt.
func transition(verb string) (from []State, to State) {
	switch verb {
	case verbBegin:
		return []State{StateFresh}, StateClean
	case verbArm:
		return []State{StateClean}, StateArmed
	case verbInject:
		return []State{StateArmed}, StateInjected
	case verbConfirm:
		return []State{StateInjected}, StateShown
	case verbHeal:
		return []State{StateClean, StateArmed, StateInjected, StateShown, StateHurt, StateHealed}, StateHealed
	}
	return []State{StateHealed}, StateOver // verbConfirmHealed.
}

const (
	verbBegin         = "begin"
	verbArm           = "arm"
	verbInject        = "inject"
	verbConfirm       = "confirm"
	verbDuring        = "carry out the steps within"
	verbProvoke       = "carry out the steps that provoke"
	verbHold          = "hold"
	verbHeal          = "heal"
	verbConfirmHealed = "confirm healed"
)

// StageError is the error of a stage of a fault's life.
type StageError struct {
	Fault string
	Node  string
	Stage string // "begin", "arm", "inject", "confirm", "hold", "heal", "confirm healed".
	Err   error
}

// Error names the stage, the fault and its node.
func (e *StageError) Error() string {
	return fmt.Sprintf("%s fault %q on node %q: %v", e.Stage, e.Fault, e.Node, e.Err)
}

// Unwrap returns the cause.
func (e *StageError) Unwrap() error { return e.Err }
