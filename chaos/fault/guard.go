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
)

// Journal takes what a fault has come to, and returns when it would survive a crash of the harness.
type Journal interface {
	Append(run string, at history.Time, f history.Fault) error
}

// Limits bound the stages of a fault's life, beside the bound of its step.
type Limits struct {
	Confirm       time.Duration
	Heal          time.Duration
	ConfirmHealed time.Duration
	// Abandoned bounds ConfirmHealed after the trial was given up: a person is waiting then.
	Abandoned time.Duration
}

// ConfirmLimit is the default of Limits.Confirm. The longest part of any fault is the lease evidence of a partition,
// 15 s to 25 s; the rest is room for a busy machine.
const ConfirmLimit = 60 * time.Second

// DefaultLimits returns the limits that are used for those left at zero.
func DefaultLimits() Limits {
	return Limits{
		Confirm: ConfirmLimit, Heal: 30 * time.Second, ConfirmHealed: 3 * time.Minute, Abandoned: 20 * time.Second,
	}
}

// Life is the longest that a fault may stay in place when nobody heals it: what its undo on the node and in the kernel
// is armed with. It is longer than any fault that the guard heals in time.
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

// Config is what a guard is made of.
type Config struct {
	Step     plan.Step // Its Fault is set.
	Env      Env
	Takes    []plan.Part // What the fault takes, for the history.
	Recorder history.Recorder
	Journal  Journal // Optional: without one, nothing is known of the fault after a crash of the harness.
	// Provoke runs when Inject has returned, before the effect is looked for. It is for a fault whose act waits for
	// something (plan.Fault.When). Its error ends the fault early.
	Provoke func(ctx context.Context) error
	// During runs when the effect was shown, before the hold begins. Its error ends the fault early.
	During func(ctx context.Context) error
	// Before runs when the node is clean and nothing was done yet, After when the fault was shown to be gone. An
	// error of Before ends the fault before it began. Both are optional.
	Before, After func(ctx context.Context) error
	Limits        Limits
}

// Guard holds one fault to the order of its life, records every stage, and heals whatever goes wrong. It is used by
// one goroutine.
type Guard struct {
	cfg      Config
	f        Fault
	state    State
	injected bool // Inject was called, whatever came of it.
	armed    bool // Arm was called, whatever came of it.
	tasks    []undo.Task
	undoAt   history.Time // When the armed undo is carried out at the earliest; zero if none is armed.
	held     []Fact
}

// NewGuard returns a guard for f, which was made with cfg.Step and cfg.Env.
func NewGuard(cfg Config, f Fault) *Guard {
	defaults := DefaultLimits()
	l := &cfg.Limits
	l.Confirm, l.Heal = cmp.Or(l.Confirm, defaults.Confirm), cmp.Or(l.Heal, defaults.Heal)
	l.ConfirmHealed = cmp.Or(l.ConfirmHealed, defaults.ConfirmHealed)
	l.Abandoned = cmp.Or(l.Abandoned, defaults.Abandoned)
	if cfg.Env.Log == nil {
		cfg.Env.Log = slog.New(slog.DiscardHandler)
	}
	return &Guard{cfg: cfg, f: f, state: StateFresh}
}

// State returns where the fault is in its life.
func (g *Guard) State() State { return g.state }

// Begin heals what an earlier run may have left, runs the Before hook, and puts the intent into the journal.
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

// Arm arms the undo, when the fault has one.
func (g *Guard) Arm(ctx context.Context) error {
	undoer, ok := g.f.(Undoer)
	stage := history.StageArmed
	if !ok {
		stage = "" // Nothing was armed, and so nothing is said.
	}
	return g.move(ctx, verbArm, stage, g.cfg.Limits.Heal, func(ctx context.Context) ([]Fact, error) {
		if !ok {
			return nil, nil
		}
		g.armed = true
		tasks, err := undoer.Undo(ctx)
		if err != nil {
			return nil, err
		}
		g.tasks = tasks
		life := Life(*g.cfg.Step.Fault)
		g.undoAt = g.cfg.Env.Clock().Add(life)
		return nil, Arm(ctx, g.cfg.Env, g.owner(), life, tasks)
	})
}

// Inject carries out the act, and gives up when the undo is due: what is done after the undo would stay.
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

// undoMargin is how long before its undo an act must be over: a command that has reached the node is not taken back.
const undoMargin = 2 * time.Second

// Confirm waits until the effect is shown. A fault that shows nothing has failed.
func (g *Guard) Confirm(ctx context.Context) error {
	return g.move(ctx, verbConfirm, history.StageConfirmed, g.cfg.Limits.Confirm,
		func(ctx context.Context) ([]Fact, error) { return evident(g.f.Confirm(ctx)) })
}

func (g *Guard) owner() undo.Owner { return undo.Owner{Run: g.cfg.Env.RunID, Step: g.cfg.Step.N} }

// Heal undoes the fault, and disarms the undo then: there is nothing left for it to do.
func (g *Guard) Heal(ctx context.Context) error {
	return g.move(ctx, verbHeal, history.StageHealed, g.cfg.Limits.Heal,
		func(ctx context.Context) ([]Fact, error) {
			if err := g.f.Heal(ctx); err != nil {
				return g.held, err
			}
			if err := Disarm(ctx, g.cfg.Env, g.owner(), g.tasks); err != nil {
				return g.held, fmt.Errorf("disarm the undo: %w", err)
			}
			return g.held, nil
		})
}

// ConfirmHealed waits until the effect is shown to be gone.
func (g *Guard) ConfirmHealed(ctx context.Context) error {
	return g.move(ctx, verbConfirmHealed, history.StageConfirmedHealed, g.cfg.Limits.ConfirmHealed,
		func(ctx context.Context) ([]Fact, error) { return evident(g.f.ConfirmHealed(ctx)) })
}

// ErrNothingShown is the error of a fault that claims an effect, or its end, and shows nothing for it.
var ErrNothingShown = errors.New("it shows nothing for it")

// evident leaves out facts that say nothing, and holds that one is left where there is no error.
func evident(facts []Fact, err error) ([]Fact, error) {
	facts = slices.DeleteFunc(facts, func(f Fact) bool { return f.Sentence == "" })
	if err == nil && len(facts) == 0 {
		return nil, ErrNothingShown
	}
	return facts, err
}

// move takes one arrow: it calls act within limit, and records what came of it.
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
	facts, err := caught(bounded, act)
	if err != nil && bounded.Err() != nil {
		err = errors.Join(err, context.Cause(bounded))
	}
	span := history.Between(begin, g.cfg.Env.Clock())
	if err == nil {
		err = g.record(stage, span, facts, nil)
		if err != nil && (verb == verbHeal || verb == verbConfirmHealed) {
			g.state = to // It was done; only the journal does not know.
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

// caught calls act and turns a panic into an error: the fault must be healed all the same.
func caught(ctx context.Context, act func(ctx context.Context) ([]Fact, error)) (facts []Fact, err error) {
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

// record puts one stage into the journal first and into the history then. An empty stage is nothing to record.
func (g *Guard) record(stage history.FaultStage, span history.Span, facts []Fact, failure error) error {
	if stage == "" {
		return nil
	}
	f := history.Fault{
		Step: g.cfg.Step.N, Name: g.cfg.Step.Fault.Name, Stage: stage, Node: g.node(), Victim: g.cfg.Env.Pod,
	}
	if stage == history.StageIntent || stage == history.StageInjected {
		for _, part := range g.cfg.Takes {
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
	if err == nil || stage != history.StageIntent { // An intent that is not in the journal is none.
		g.cfg.Recorder.Record(history.Event{Kind: history.KindFault, Source: "guard", Span: span, Fault: &f})
	}
	return err
}

// String renders the sentence with the time at which it was seen.
func (f Fact) String() string {
	if f.Span.NotBefore == f.Span.NotAfter {
		return fmt.Sprintf("%s (at %s)", f.Sentence, f.Span.NotAfter)
	}
	return fmt.Sprintf("%s (between %s and %s)", f.Sentence, f.Span.NotBefore, f.Span.NotAfter)
}

// State is where a guarded fault is in its life.
//
//	fresh --Begin--> clean --Arm--> armed --Inject--> injected --Confirm--> shown (hold)
//	                   |              |                  |                   |
//	                   +------Heal----+-------Heal-------+--------Heal-------+---> healed --ConfirmHealed--> over
//	                                                                              ^  |
//	any state --error--> hurt ------------------------Heal------------------------+  +--Heal--> healed
//
// Heal is legal everywhere but before the beginning and after the end. A fault that was hurt once stays failed, also
// when it is over.
type State string

// The states of a guarded fault.
const (
	StateFresh    State = "fresh"    // Nothing was done.
	StateClean    State = "clean"    // Healed to begin with, and the intent is in the journal.
	StateArmed    State = "armed"    // The undo is armed, or the fault has none to arm.
	StateInjected State = "injected" // The act was carried out.
	StateShown    State = "shown"    // The effect was shown.
	StateHurt     State = "hurt"     // Something went wrong; anything may be left.
	StateHealed   State = "healed"   // The undo was carried out.
	StateOver     State = "over"     // The effect was shown to be gone.
)

// ErrOrder is wrapped by the error of a call that is not legal in the guard's state. Nothing was done then.
var ErrOrder = errors.New("not legal in this state")

// transition returns the states in which a verb is legal, and the state it leads to. Every error leads to StateHurt.
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

// StageError is an error with the stage of a fault's life that could not be reached.
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
