package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// ContainerFreeze stops every process of a container of the victim's pod, as if the database hung. Its connections stay
// open, the kernel accepts new ones, and nothing answers. The heal continues the processes with their old state, so a
// former writer does not know that it was replaced.
//
// Processes that a probe starts in the container later are not stopped. If a failing liveness probe makes the
// kubelet kill the container, the fault fails, since its effect was not held.
func ContainerFreeze() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "container-freeze",
		Summary: "Freezes a container of the victim's pod with SIGSTOP; the pod and its connections stay.",
		Shown:   "Every process of the container is stopped (state T), and the runtime still has its task.",
		Healed: "Its processes get SIGCONT if they bear our mark; the container, or a later one of the pod, runs, " +
			"and the pod is Ready.",
		Needs: []string{"systemd"},
		// The database is silent as if gone, and later acts on outdated state.
		Takes:    []plan.Part{plan.PartContainer},
		Upstream: "jepsen.io: process pause (SIGSTOP)",
	}, func(p containerParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &containerFreeze{container: container{Env: env, name: cmp.Or(p.Container, env.Container)}}, nil
	})
}

type containerFreeze struct {
	container
	all []probe.Process // The stopped processes.
}

// Undo records the container's processes and continues them. It is an error if one is stopped already.
func (f *containerFreeze) Undo(ctx context.Context) ([]undo.Task, error) {
	if err := f.note(ctx); err != nil {
		return nil, err
	}
	var err error
	if f.all, err = f.processes(ctx); err != nil {
		return nil, err
	}
	for _, p := range f.all {
		if p.Frozen() {
			return nil, fmt.Errorf("pid %d of container %q is stopped already", p.PID, f.name)
		}
	}
	return f.thaw(), nil
}

func (f *containerFreeze) thaw() []undo.Task { return f.Here(undo.Thaw(f.all...)) }

func (f *containerFreeze) processes(ctx context.Context) ([]probe.Process, error) {
	found, err := nodeagent.On(f.Node).Processes(ctx, probe.Query{PodUIDs: []string{f.pod}})
	return slices.DeleteFunc(found.Processes, func(p probe.Process) bool {
		return p.Container != f.process.Container
	}), err
}

// Inject stops all processes. Some may have ended since they were read, and one that was forked since would go on with
// the work: it is stopped too, once the undo names it.
func (f *containerFreeze) Inject(ctx context.Context) error {
	for next := f.all; len(next) > 0; {
		_, failed := clusters.Run(ctx, f.Node, undo.Signal("STOP", next...)...)
		now, err := f.processes(ctx)
		if err != nil {
			return errors.Join(failed, err)
		}
		if failed != nil && !slices.ContainsFunc(now, probe.Process.Frozen) {
			return failed
		}
		old := probe.Processes{Processes: f.all}
		f.all = now
		next = slices.DeleteFunc(slices.Clone(now), old.Lives)
		if len(next) > 0 {
			if err := undo.Arm(ctx, f.thaw()[0], f.Owner, f.Life); err != nil {
				return err
			}
		}
	}
	return nil
}

func (f *containerFreeze) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("every process of container %q to be stopped", f.name)
	return fault.Until(ctx, what, 100*time.Millisecond, stopBound, f.frozen)
}

// frozen checks that all processes that are left are stopped, and that the first of them is the runtime's task.
func (f *containerFreeze) frozen(ctx context.Context) ([]fault.Fact, error) {
	now, err := f.Again(ctx, f.all...)
	if err != nil {
		return nil, err
	}
	f.all = slices.DeleteFunc(f.all, func(p probe.Process) bool { // A probe that takes too long is killed.
		return p.PID != f.process.PID && !now.Lives(p)
	})
	found, err := f.Frozen(ctx, f.all...)
	if err != nil {
		return nil, err
	}
	pid, err := f.task(ctx, f.old)
	if err == nil && pid != f.process.PID {
		err = fault.NotYet("containerd runs container %q with pid %d, not %d", f.name, pid, f.process.PID)
	}
	if err != nil {
		return nil, err
	}
	return fault.Seen(history.At(found.At),
		"every process of container %q, id %.12s, is stopped (state T): %d in all, the first %s pid %d, started at %s",
		f.name, f.old, len(f.all), f.process.Name, f.process.PID, f.process.Start), nil
}

func (f *containerFreeze) Held(ctx context.Context) ([]fault.Fact, error) { return f.frozen(ctx) }

// ConfirmHealed shows that the container or its successor runs in a Ready pod, and that none of the processes is
// stopped.
func (f *containerFreeze) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("container %q of pod %q to go on and be Ready", f.name, f.Namespace+"/"+f.Pod)
	return fault.Until(ctx, what, 500*time.Millisecond, againBound, f.thawed, f.well)
}

// thawed checks that none of the processes is stopped.
func (f *containerFreeze) thawed(ctx context.Context) ([]fault.Fact, error) {
	if len(f.all) == 0 {
		return nil, nil
	}
	found, err := f.Again(ctx, f.all...)
	if err != nil {
		return nil, err
	}
	live := 0
	for _, old := range f.all {
		if !found.Lives(old) {
			continue
		}
		if p, _ := found.Find(old.PID); p.Frozen() {
			return nil, fault.NotYet("pid %d is still stopped", p.PID)
		}
		live++
	}
	return fault.Seen(history.At(found.At), "%d of %d stopped processes go on", live, len(f.all)), nil
}

// well checks that the container runs in a Ready pod.
func (f *containerFreeze) well(ctx context.Context) ([]fault.Fact, error) {
	begin := f.Clock()
	c, pod, err := f.status(ctx)
	switch {
	case err != nil:
		return nil, err
	case c.State.Running == nil:
		return nil, fault.NotYet("container %q does not run", c.Name)
	case !fault.Ready(pod):
		return nil, fault.NotYet("its pod is not Ready")
	}
	id, p, err := f.running(ctx, c)
	if err != nil {
		return nil, err
	}
	return f.Saw(begin, "container %q, id %.12s, runs as %s pid %d, and pod %q (uid %s) is Ready", c.Name, id, p.Name,
		p.PID, pod.Namespace+"/"+pod.Name, pod.UID), nil
}
