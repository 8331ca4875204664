package faulttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// Bench is a cluster with a workload and a victim to try a fault on.
type Bench struct {
	Env  fault.Env
	Spec plan.Fault
	// Before, when set, waits until the bench is fit for the next check, for example until all pods are Ready, and
	// returns it with the node that the victim's pod is on by then.
	Before func(ctx context.Context) (fault.Env, error)
}

// Check is one requirement on every fault.
type Check struct {
	Name string
	Run  func(ctx context.Context, def fault.Definition, b Bench) error
}

// Checks returns all checks that need only a cluster, the quickest first.
func Checks() []Check {
	return []Check{
		{"is described", described},
		{"heals where nothing is", healsNothing},
		{"lives its whole life", wholeLife},
		{"is healed when it is given up", givenUp},
		{"is healed after its harness died", harnessDied},
	}
}

// Conform runs all checks one after the other on the same bench and returns their errors.
func Conform(ctx context.Context, def fault.Definition, b Bench) error {
	var errs []error
	for i, c := range Checks() {
		one := b
		if b.Before != nil {
			var err error
			if one.Env, err = b.Before(ctx); err != nil {
				return errors.Join(append(errs, fmt.Errorf("make the bench fit for %q: %w", c.Name, err))...)
			}
		}
		one.Env.RunID = fmt.Sprintf("%s-%d", b.Env.RunID, i)
		if err := c.Run(ctx, def, one); err != nil {
			errs = append(errs, fmt.Errorf("fault %q: %s: %w", def.Name, c.Name, err))
		}
	}
	return errors.Join(errs...)
}

// Step returns the step with which the checks run a fault.
func Step(spec plan.Fault) plan.Step {
	return plan.Step{N: 1, Do: plan.ActionFault, Fault: &spec, Bound: plan.Duration(10 * time.Minute)}
}

// Recorder keeps events in memory.
type Recorder struct {
	mu    sync.Mutex
	facts []history.Fault
	on    func(history.Fault)
}

// Record keeps an event.
func (r *Recorder) Record(e history.Event) {
	r.mu.Lock()
	r.facts = append(r.facts, *e.Fault)
	r.mu.Unlock()
	if r.on != nil {
		r.on(*e.Fault)
	}
}

// Facts returns the events so far.
func (r *Recorder) Facts() []history.Fault {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.facts)
}

// Stages returns the stages of the events so far, without the arming, which not every fault has.
func (r *Recorder) Stages() []history.FaultStage {
	var stages []history.FaultStage
	for _, f := range r.Facts() {
		if f.Stage != history.StageArmed {
			stages = append(stages, f.Stage)
		}
	}
	return stages
}

// Run takes the fault through its life on the bench and returns the recorded events and the guard's error.
func Run(ctx context.Context, def fault.Definition, b Bench, on func(history.Fault)) (*Recorder, error) {
	r := &Recorder{on: on}
	f, err := def.New(b.Spec, 1, b.Env)
	if err != nil {
		return r, fmt.Errorf("make the fault: %w", err)
	}
	err = fault.NewGuard(fault.Config{Step: Step(b.Spec), Of: def, Env: b.Env, Recorder: r}, f).Run(ctx)
	if b.Env.Log != nil {
		for _, fact := range r.Facts() {
			b.Env.Log.Info("evidence", "fault", fact.Name, "stage", fact.Stage, "shown", fact.Evidence,
				"error", fact.Error)
		}
	}
	return r, err
}

func described(_ context.Context, def fault.Definition, _ Bench) error {
	var errs []error
	for field, text := range map[string]string{
		"Name": def.Name, "Summary": def.Summary, "Shown": def.Shown, "Healed": def.Healed, "Upstream": def.Upstream,
	} {
		if strings.TrimSpace(text) == "" {
			errs = append(errs, fmt.Errorf("definition has no %s", field))
		}
	}
	if len(def.Needs) == 0 {
		errs = append(errs, errors.New("definition has no Needs: every fault needs something of the cluster"))
	}
	return errors.Join(errs...)
}

func healsNothing(ctx context.Context, def fault.Definition, b Bench) error {
	f, err := def.New(b.Spec, 1, b.Env)
	if err != nil {
		return fmt.Errorf("make the fault: %w", err)
	}
	for i := range 2 {
		if err := f.Heal(ctx); err != nil {
			return fmt.Errorf("heal %d with nothing injected: %w", i+1, err)
		}
	}
	if err := undo.Disarm(ctx, b.Env.Node, undo.Owner{Run: b.Env.RunID, Step: 1}); err != nil {
		return fmt.Errorf("disarm what was never armed: %w", err)
	}
	return nothingLeft(ctx, b)
}

func wholeLife(ctx context.Context, def fault.Definition, b Bench) error {
	r, err := Run(ctx, def, b, nil)
	if err != nil {
		return err
	}
	wholeStages := []history.FaultStage{
		history.StageIntent, history.StageInjected, history.StageConfirmed, history.StageHealed,
		history.StageConfirmedHealed,
	}
	if got := r.Stages(); !slices.Equal(got, wholeStages) {
		return fmt.Errorf("stages are %q, want %q", got, wholeStages)
	}
	for _, f := range r.Facts() {
		needs := f.Stage == history.StageConfirmed || f.Stage == history.StageConfirmedHealed
		if needs && len(f.Evidence) == 0 {
			return fmt.Errorf("stage %q has no evidence", f.Stage)
		}
		if f.Node != b.Env.Node.Name() || f.Victim != b.Env.Pod {
			return fmt.Errorf("stage %q names node %q and victim %q", f.Stage, f.Node, f.Victim)
		}
	}
	return nothingLeft(ctx, b)
}

// givenUp cancels the trial's context as soon as the effect is shown.
func givenUp(ctx context.Context, def fault.Definition, b Bench) error {
	trial, stop := context.WithCancel(ctx)
	defer stop()
	b.Spec.Hold = plan.Duration(time.Hour)
	r, err := Run(trial, def, b, func(f history.Fault) {
		if f.Stage == history.StageConfirmed {
			stop()
		}
	})
	if !errors.Is(err, context.Canceled) {
		return fmt.Errorf("error is %w, want one of the context", err)
	}
	if !slices.Contains(r.Stages(), history.StageHealed) {
		return fmt.Errorf("it was not healed: stages %q: %w", r.Stages(), err)
	}
	if !slices.Contains(r.Stages(), history.StageFaultFailed) {
		return fmt.Errorf("no stage says that it failed: %q", r.Stages())
	}
	return nothingLeft(ctx, b)
}

// harnessDied injects and abandons the fault. The heal of a later harness must find and undo everything by owner mark,
// and a new instance of the fault must be able to show that the effect is gone.
func harnessDied(ctx context.Context, def fault.Definition, b Bench) (err error) {
	dead, err := def.New(b.Spec, 1, b.Env)
	if err != nil {
		return fmt.Errorf("make the fault: %w", err)
	}
	defer func() { err = errors.Join(err, dead.Heal(ctx)) }() // Ends what of it runs in this process.
	if err := Arm(ctx, dead, b); err != nil {
		return err
	}
	if err := dead.Inject(ctx); err != nil {
		return fmt.Errorf("inject: %w", err)
	}
	if _, err := heal(ctx, b); err != nil {
		return err
	}
	if b.Env.Watchdog != nil {
		if _, err := b.Env.Watchdog.Release(ctx, undo.Of(b.Env.RunID, 0)); err != nil {
			return err
		}
	}
	if err := nothingLeft(ctx, b); err != nil {
		return err
	}
	later, err := def.New(b.Spec, 1, b.Env)
	if err != nil {
		return fmt.Errorf("make the fault anew: %w", err)
	}
	if err := later.Heal(ctx); err != nil {
		return fmt.Errorf("heal anew: %w", err)
	}
	facts, err := later.ConfirmHealed(ctx)
	if err == nil && len(facts) == 0 {
		err = fault.ErrNothingShown
	}
	return err
}

// Arm arms the undo of a fault of step 1, if it has one, as the guard does.
func Arm(ctx context.Context, f fault.Fault, b Bench) error {
	undoer, ok := f.(fault.Undoer)
	if !ok {
		return nil
	}
	tasks, err := undoer.Undo(ctx)
	if err != nil {
		return fmt.Errorf("note the undo: %w", err)
	}
	return fault.Arm(ctx, b.Env, undo.Owner{Run: b.Env.RunID, Step: 1}, fault.Life(b.Spec), tasks)
}

// heal undoes what the run has left.
func heal(ctx context.Context, b Bench) ([]undo.Report, error) {
	nodes, err := b.Env.Cluster.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return fault.HealCluster(ctx, b.Env.Cluster, nodes, b.Env.Kube, undo.Of(b.Env.RunID, 0))
}

// nothingLeft returns an error that names what the run has left on any node, and undoes it.
func nothingLeft(ctx context.Context, b Bench) error {
	reports, err := heal(ctx, b)
	errs := []error{err}
	for _, r := range reports {
		if !r.Nothing() {
			errs = append(errs, fmt.Errorf("left on node %q: %s", r.Node, r))
		}
	}
	if b.Env.Watchdog != nil {
		armed, err := b.Env.Watchdog.Release(ctx, undo.Of(b.Env.RunID, 0))
		if errs = append(errs, err); len(armed) > 0 {
			errs = append(errs, fmt.Errorf("left beside the cluster: %q", armed))
		}
	}
	return errors.Join(errs...)
}
