package fault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// Fact is an observation with its time.
type Fact struct {
	Span     history.Span
	Sentence string // For example "kubelet pid 214 is gone".
}

// Fault is a fault made for one victim. The guard calls Heal (for a clean start), Inject, Confirm, Heal and
// ConfirmHealed, in this order. A fault without effect must return an error.
type Fault interface {
	// Inject carries out the act. After an error the act may be half done, and the guard heals.
	Inject(ctx context.Context) error
	// Confirm waits until the effect shows from the victim's side and returns the facts.
	Confirm(ctx context.Context) ([]Fact, error)
	// Heal undoes Inject. It is idempotent, legal at any time, and safe if nothing was injected.
	Heal(ctx context.Context) error
	// ConfirmHealed waits until the effect is gone and returns the facts. It is also called after an Inject that failed
	// or was interrupted.
	ConfirmHealed(ctx context.Context) ([]Fact, error)
}

// Undoer is a fault with an undo. The guard arms it before Inject, so that the fault ends without the harness, and
// disarms it after Heal.
type Undoer interface {
	// Undo records the state before the act and returns the tasks that restore it, one for each node.
	Undo(ctx context.Context) ([]undo.Task, error)
}

// Arm arms the tasks of an undo, to be carried out after life.
func Arm(ctx context.Context, env Env, owner undo.Owner, life time.Duration, tasks []undo.Task) error {
	var errs []error
	for _, t := range tasks {
		switch {
		case t.Marks != "":
			errs = append(errs, env.Watchdog.ArmMarks(ctx, t.Marks, owner, life+t.Longer))
		case t.Power:
			errs = append(errs, env.Watchdog.Arm(ctx, t.Node.Name(), owner, life+t.Longer))
		default:
			errs = append(errs, undo.Arm(ctx, t, owner, life))
		}
	}
	return errors.Join(errs...)
}

// Disarm disarms what Arm armed.
func Disarm(ctx context.Context, env Env, owner undo.Owner, tasks []undo.Task) error {
	var errs []error
	for _, t := range tasks {
		switch {
		case t.Marks != "":
			errs = append(errs, env.Watchdog.Disarm(ctx, t.Marks, owner))
		case t.Power:
			errs = append(errs, env.Watchdog.Disarm(ctx, t.Node.Name(), owner))
		default:
			errs = append(errs, undo.Disarm(ctx, t.Node, owner))
		}
	}
	return errors.Join(errs...)
}

// Holder is a fault whose effect could end during the hold, for example by an undo that ran too early.
type Holder interface {
	// Held checks once whether the effect is still there and returns the facts.
	Held(ctx context.Context) ([]Fact, error)
}

// Caps returns what a plan may name, for plan.Validate.
func Caps(definitions []Definition, workloads []string) plan.Caps {
	caps := plan.Caps{Workloads: workloads}
	for _, d := range definitions {
		caps.Faults = append(caps.Faults, plan.FaultCaps{
			Name:     d.Name,
			Needs:    d.Needs,
			Outlasts: d.Outlasts, Manifest: d.Manifest,
			Triggers: d.Triggers,
			Storage:  d.Storage,
			Takes:    d.Takes,
			Longest:  plan.Duration(d.Longest),
			Check:    d.Check,
		})
	}
	return caps
}

// Definition describes a fault. Define completes it for a fault with parameters.
type Definition struct {
	Name    string
	Summary string // What it does, in one sentence.
	Shown   string // How its effect is shown from the victim's side.
	Healed  string // How it is undone, and how that is shown.
	// Needs lists the required capabilities of the cluster: "api", "clock", "netem", "nftables", "power", "reboot",
	// "reset", "static-pods", "systemd", "tbf".
	Needs []string
	// Takes lists the resources that it holds while active: no other fault may hold them then. The guard records them
	// in the history.
	Takes    []plan.Part
	Triggers bool   // Its act can wait on the node for a CSI call (plan.Fault.When).
	Outlasts bool   // It can outlast the fault around it (plan.Fault.Outlast); it then arms no undo.
	Manifest bool   // It changes the manifest of a static pod, and restores it.
	Lasts    bool   // Its effect stays after the heal, for the checks to find.
	Storage  string // The only kind of volume that it works on (plan.Workload.Storage); empty for every kind.
	// Longest is the longest hold; after it, the cluster itself ends the effect. 0 is no limit.
	Longest  time.Duration
	Upstream string      // Where it is known upstream: an issue, a KEP.
	Example  plan.Params // Example parameters.
	New      func(spec plan.Fault, step int, env Env) (Fault, error)

	// Set by Define.
	Params []string     // The names of its parameters.
	Type   reflect.Type // The struct of its parameters; nil without.
	Check  func(plan.Setting) plan.FieldErrors
	decode func(spec plan.Fault) any // Nil without parameters.
}

// Validator is implemented by parameters with rules.
type Validator interface {
	// Validate returns all errors, with fields relative to the fault.
	Validate(plan.Setting) plan.FieldErrors
}

// Pair is implemented by the parameters of faults between two pods.
type Pair interface {
	Other() *int // The other pod's ordinal.
}

// Waiter is implemented by the parameters of faults whose act, effect or end waits for something that the cluster or
// the node does meanwhile.
type Waiter interface {
	Waits() time.Duration // At most.
}

// Plain completes the definition of a fault without parameters.
func Plain(d Definition, build func(spec plan.Fault, env Env) (Fault, error)) Definition {
	d.New = func(spec plan.Fault, step int, env Env) (Fault, error) {
		env.Owner, env.Life = undo.Owner{Run: env.RunID, Step: step}, Life(spec)
		if err := env.Owner.Check(); err != nil {
			return nil, err
		}
		if env.Log == nil {
			env.Log = slog.New(slog.DiscardHandler)
		}
		return build(spec, env)
	}
	return d
}

// Define completes the definition of a fault with parameters P. They are decoded strictly from the JSON object that
// also holds the common fields of plan.Fault.
func Define[P any](d Definition, build func(p P, spec plan.Fault, env Env) (Fault, error)) Definition {
	d.Params, d.Type = plan.ParamNames[P](), reflect.TypeFor[P]()
	d.Check = func(s plan.Setting) plan.FieldErrors {
		p, errs := plan.DecodeParams[P](s.Fault)
		if v, ok := any(p).(Validator); ok && len(errs) == 0 {
			return v.Validate(s)
		}
		return errs
	}
	d.decode = func(spec plan.Fault) any {
		p, _ := plan.DecodeParams[P](spec)
		return p
	}
	return Plain(d, func(spec plan.Fault, env Env) (Fault, error) {
		p, errs := plan.DecodeParams[P](spec)
		if err := errs.Err(); err != nil {
			return nil, fmt.Errorf("read the parameters of fault %q: %w", spec.Name, err)
		}
		return build(p, spec, env)
	})
}

// decoded returns the parameters of a fault, nil for a fault without any.
func (d Definition) decoded(spec plan.Fault) any {
	if d.decode == nil {
		return nil
	}
	return d.decode(spec)
}

// Other returns the other pod's ordinal of a fault between two pods, nil for other faults.
func (d Definition) Other(spec plan.Fault) *int {
	if p, ok := d.decoded(spec).(Pair); ok {
		return p.Other()
	}
	return nil
}

// Life is the longest time from the arming of a fault's undo until it is due: that of Life, and what its act may wait.
func (d Definition) Life(spec plan.Fault) time.Duration { return Life(spec) + d.wait(spec) }

func (d Definition) wait(spec plan.Fault) time.Duration {
	if p, ok := d.decoded(spec).(Waiter); ok {
		return p.Waits()
	}
	return 0
}
