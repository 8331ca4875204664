package fault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
)

// Fact is one thing that was seen, and when.
type Fact struct {
	Span     history.Span
	Sentence string // For example: "kubelet pid 214 is gone".
}

// Fault is one fault, made for one victim. The guard calls its methods in the order Heal (to begin clean), Inject,
// Confirm, Heal, ConfirmHealed. A fault that did nothing returns an error, never a quiet nil.
type Fault interface {
	// Inject carries out the act. An error may leave it half done: the guard heals then.
	Inject(ctx context.Context) error
	// Confirm waits until the effect is shown from the victim's side and returns what was seen.
	Confirm(ctx context.Context) ([]Fact, error)
	// Heal undoes what Inject did. It is idempotent, legal at any time, and safe with nothing injected.
	Heal(ctx context.Context) error
	// ConfirmHealed waits until the effect is shown to be gone and returns what was seen. It is called after an
	// Inject that failed or was cut short, too.
	ConfirmHealed(ctx context.Context) ([]Fact, error)
}

// Undoer is a fault that leaves something to undo. The guard arms the undo before the act, so that the fault ends
// although the harness is gone, and disarms it after Heal.
type Undoer interface {
	// Undo notes what is there before the act and says how to get back to it, node by node.
	Undo(ctx context.Context) ([]undo.Task, error)
}

// Arm arms the tasks of an undo for at most life.
func Arm(ctx context.Context, env Env, owner undo.Owner, life time.Duration, tasks []undo.Task) error {
	var errs []error
	for _, t := range tasks {
		if t.Power {
			errs = append(errs, env.Watchdog.Arm(ctx, t.Node.Name(), owner, life+t.Longer))
		} else {
			errs = append(errs, undo.Arm(ctx, t, owner, life))
		}
	}
	return errors.Join(errs...)
}

// Disarm removes what Arm has armed.
func Disarm(ctx context.Context, env Env, owner undo.Owner, tasks []undo.Task) error {
	var errs []error
	for _, t := range tasks {
		if t.Power {
			errs = append(errs, env.Watchdog.Disarm(ctx, t.Node.Name(), owner))
		} else {
			errs = append(errs, undo.Disarm(ctx, t.Node, owner))
		}
	}
	return errors.Join(errs...)
}

// Holder is a fault whose effect could end by itself while it is held: the undo that is armed may have come early.
type Holder interface {
	// Held looks once whether the effect is still there, and returns what was seen.
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
			Params:   d.Params,
			Check:    d.Check,
		})
	}
	return caps
}

// Definition is one entry of the list of faults. Define completes that of a fault with parameters.
type Definition struct {
	Name    string
	Summary string // What it does, one sentence.
	Shown   string // How its effect is shown from the victim's side.
	Healed  string // How it is undone, and how that is shown.
	// Needs is what the cluster must be able to do: "api", "clock", "netem", "nftables", "power", "reboot",
	// "static-pods", "systemd", "tbf".
	Needs []string
	// Takes lists the resources that it holds while it is in force: no other fault may touch them then. The guard
	// records them in the history.
	Takes    []plan.Part
	Triggers bool   // Its act can wait on the node for a CSI call (plan.Fault.When).
	Outlasts bool   // It can outlast the fault around it (plan.Fault.Outlast), and then arms nothing.
	Manifest bool   // It changes the manifest of a static pod, and puts it back as it was.
	Lasts    bool   // What it does stays after the heal, for the checks to find.
	Storage  string // The one kind of volume that it is a fault of (plan.Workload.Storage); empty for every kind.
	// Longest is the longest hold: beyond it, the cluster undoes the effect by itself. 0 is no limit.
	Longest  time.Duration
	Upstream string      // How it is known upstream: an issue, a KEP.
	Example  plan.Params // The parameters of an example.
	New      func(spec plan.Fault, step int, env Env) (Fault, error)

	// Set by Define.
	Params []string // The names of its parameters.
	Check  func(plan.Setting) plan.FieldErrors
	peer   func(spec plan.Fault) *int
}

// Validator is implemented by parameters that have rules.
type Validator interface {
	// Validate returns what is wrong; the fields of the errors are relative to the fault.
	Validate(plan.Setting) plan.FieldErrors
}

// Pair is implemented by parameters of faults between two pods.
type Pair interface {
	Other() *int // The ordinal of the other side.
}

// Plain completes the definition of a fault without parameters of its own.
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

// Define completes the definition of a fault with the parameters P, which are decoded strictly: they stand beside the
// common fields of plan.Fault in JSON, under the names that P gives them.
func Define[P any](d Definition, build func(p P, spec plan.Fault, env Env) (Fault, error)) Definition {
	d.Params = plan.ParamNames[P]()
	d.Check = func(s plan.Setting) plan.FieldErrors {
		p, errs := plan.DecodeParams[P](s.Fault)
		if v, ok := any(p).(Validator); ok && len(errs) == 0 {
			return v.Validate(s)
		}
		return errs
	}
	var none P
	if _, ok := any(none).(Pair); ok {
		d.peer = func(spec plan.Fault) *int {
			p, _ := plan.DecodeParams[P](spec)
			return any(p).(Pair).Other()
		}
	}
	return Plain(d, func(spec plan.Fault, env Env) (Fault, error) {
		p, errs := plan.DecodeParams[P](spec)
		if err := errs.Err(); err != nil {
			return nil, fmt.Errorf("read the parameters of fault %q: %w", spec.Name, err)
		}
		return build(p, spec, env)
	})
}

// Pairs reports that it is a fault between two pods.
func (d Definition) Pairs() bool { return d.peer != nil }

// Other returns the ordinal of the other side of a fault between two pods, nil for other faults.
func (d Definition) Other(spec plan.Fault) *int {
	if d.peer == nil {
		return nil
	}
	return d.peer(spec)
}
