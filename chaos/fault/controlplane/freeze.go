package controlplane

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// freezing completes the definition of a fault that freezes a component.
func freezing(of component, d fault.Definition) fault.Definition {
	d.Shown = "The kernel says that its process is stopped, its health endpoint is silent, and " + lack(of) + "."
	d.Healed = "The process goes on; it, or a later one, tells that it is well, requests to the " +
		"API server are answered, and the leases that depend on it are renewed again and again."
	d.Needs = []string{"api", "static-pods", "systemd"}
	d.Takes = []plan.Part{of.part}
	// The kubelet kills a container whose liveness probe was not answered 8 times in a row, at 10 s to 15 s each.
	d.Longest = time.Minute
	d.New = func(_ plan.Fault, step int, env fault.Env) (fault.Fault, error) {
		f := &freeze{victims: victims{env: env, of: of}, armed: newArmed(step, env)}
		return f, f.owner.Check()
	}
	return d
}

// lack says how the rest of the cluster has to do without a component.
func lack(of component) string {
	if of.serves {
		return "a request to the API server is not answered"
	}
	return "its lease is not renewed"
}

// freeze is SIGSTOP to a component.
type freeze struct {
	victims
	armed
}

// Undo notes which processes there are.
func (f *freeze) Undo(ctx context.Context) ([]undo.Task, error) {
	if err := f.note(ctx); err != nil {
		return nil, err
	}
	var tasks []undo.Task
	for _, n := range f.nodes() {
		tasks = append(tasks, undo.Task{Node: n, Actions: []undo.Action{undo.Thaw(f.on(n)...)}})
	}
	return tasks, nil
}

// on returns the processes on a node.
func (f *freeze) on(n clusters.Node) []probe.Process {
	var here []probe.Process
	for _, p := range f.old {
		if p.node.Name() == n.Name() {
			here = append(here, p.Process)
		}
	}
	return here
}

// Inject freezes them.
func (f *freeze) Inject(ctx context.Context) error {
	var errs []error
	for _, n := range f.nodes() {
		_, err := clusters.Run(ctx, n, undo.Stop(f.on(n)...)...)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// Confirm shows that they are frozen, that they say nothing, and that they are missed.
func (f *freeze) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return f.missing(ctx, f.of.name+" to be frozen", goneBound, f.frozen)
}

// frozen looks once whether all that were frozen are there and frozen, and nothing beside them. A state that is not
// empty says what is not so.
func (f *freeze) frozen(ctx context.Context) (facts []fault.Fact, state string, err error) {
	begin := f.env.Clock()
	found, err := f.now(ctx)
	if err != nil {
		return nil, "", err
	}
	there := 0
	for _, p := range found {
		if _, old := f.among([]victim{p}); !old {
			return nil, fmt.Sprintf("%s %s, a later one, runs", f.of.name, p), nil
		}
		if !p.Frozen() {
			return nil, fmt.Sprintf("%s %s is in state %q, want T", f.of.name, p, p.State), nil
		}
		there++
	}
	if there < len(f.old) {
		return nil, fmt.Sprintf("%d of the %d frozen processes of %s have ended", len(f.old)-there, len(f.old),
			f.of.name), nil
	}
	return f.each(history.Between(begin, f.env.Clock()), "is frozen (state T)"), "", nil
}

// Held shows that they are frozen still.
func (f *freeze) Held(ctx context.Context) ([]fault.Fact, error) { return look(f.frozen).still(ctx) }

// ConfirmHealed shows that they, or later ones, are at work.
func (f *freeze) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) { return f.back(ctx) }
