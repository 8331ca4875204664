package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"k8s.io/client-go/util/exec"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/podexec"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/fixtures"
)

// commitPoll is how often a load step reads the number of commits.
const commitPoll = 50 * time.Millisecond

func (c *runner) steps(ctx context.Context) error {
	c.stepsBegan = bootclock.Now()
	return c.inOrder(ctx, c.Plan.Steps, enclosing{since: c.stepsBegan})
}

// inOrder carries steps out, one after another. It stops at the first error: later steps are planned on the state that
// this one should leave.
func (c *runner) inOrder(ctx context.Context, steps []plan.Step, in enclosing) error {
	base := in
	for _, s := range steps {
		p := history.Phase{Name: history.PhaseStep, Step: s.N, Detail: c.Plan.Describe(s)}
		err := c.recorded(ctx, p, func(ctx context.Context) error {
			ctx, cancel := context.WithTimeoutCause(ctx, s.Bound.D(),
				fmt.Errorf("the step's bound of %s is over", s.Bound))
			defer cancel()
			return c.step(ctx, s, in, &base)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// logged gives a step a log of its own, beside the harness's.
func (c *runner) logged(s plan.Step, name string, do func(*slog.Logger) error) error {
	name = fmt.Sprintf("%02d-%s.log", s.N, name)
	file, err := c.dir.OpenAppend(filepath.Join(rundir.StepsDir, name))
	if err != nil {
		return err
	}
	own := slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug})
	err = do(slog.New(slog.NewMultiHandler(c.log.Handler(), own)).With("step", s.N))
	return errors.Join(err, file.Close())
}

// step carries out one step. In is the state when the enclosing step began, base when the last change in the same
// sequence did.
func (c *runner) step(ctx context.Context, s plan.Step, in enclosing, base *enclosing) error {
	if s.Do.ChangesSet() {
		return c.change(ctx, s, in, base)
	}
	switch s.Do {
	case plan.ActionAwait:
		return c.await(ctx, s, in, *base)
	case plan.ActionLoad:
		return c.load(ctx, s.Commits, in.open == nil)
	case plan.ActionTogether:
		return c.together(ctx, s, in)
	case plan.ActionFault:
		return c.logged(s, s.Fault.Name, func(log *slog.Logger) error { return c.fault(ctx, s, in, log) })
	case plan.ActionExec:
		return c.logged(s, string(s.Do), func(log *slog.Logger) error { return c.program(ctx, *s.Exec, log) })
	case plan.ActionUpgrade:
		return c.upgrade(ctx, s, in)
	case plan.ActionPause:
		return await.For(ctx, s.Lasting.D())
	case plan.ActionBackup, plan.ActionDeleteClaim, plan.ActionDeletePod, plan.ActionRecover, plan.ActionRestore:
		return c.workload.Change(ctx, s)
	case plan.ActionRecycle:
		storage, ok := c.storage.(fixtures.Recycler)
		if !ok {
			return fmt.Errorf("carry out step %d: storage %q recycles no volumes", s.N, c.Plan.Workload.StorageName())
		}
		return storage.Recycle(ctx)
	case plan.ActionChecksum:
		return c.data.Checksum(ctx, s.Label, s.N)
	case plan.ActionRead:
		return c.data.Read(ctx, s.N)
	case plan.ActionTamper:
		return c.data.Tamper(ctx, *s.Tamper)
	}
	return fmt.Errorf("carry out step %d: action %q is not known", s.N, s.Do)
}

// program runs a program in a pod, and keeps what it wrote.
func (c *runner) program(ctx context.Context, x plan.Exec, log *slog.Logger) error {
	config, err := c.ClientConfig(ctx)
	if err != nil {
		return err
	}
	in := podexec.Target{Namespace: c.namespace(), Pod: c.podName(x.Ordinal), Container: x.Container}
	if in.Container == "" && c.Plan.Workload.External != nil {
		in.Container = c.Plan.Workload.External.Container
	}
	out, said, err := podexec.Output(ctx, config, in, x.Command)
	log.Info("ran a program in a pod", "pod", in.Pod, "command", x.Command, "out", out, "said", said, "err", err)
	return endedAs(x, out+said, err)
}

// endedAs returns an error unless a program ended as its step says. Said is what it wrote, err how it ended.
func endedAs(x plan.Exec, said string, err error) error {
	var ended exec.ExitError
	switch {
	case x.Refused == "":
		return err
	case err == nil:
		return fmt.Errorf("%q ended with 0; it should have been refused with %q", x.Command, x.Refused)
	case errors.As(err, &ended) && strings.Contains(said, x.Refused):
		return nil
	}
	return fmt.Errorf("should have been refused with %q: %w", x.Refused, err)
}

// change changes the StatefulSet, carries out the steps during the change, and waits for its effect.
func (c *runner) change(ctx context.Context, s plan.Step, in enclosing, base *enclosing) error {
	before, err := c.enclose(ctx)
	if err != nil {
		return err
	}
	before.open = in.open // Faults outlast the enclosing fault, not this step.
	*base = before
	switch s.Do {
	case plan.ActionUpdate:
		c.revision.Store(&s.Update.Revision)
	case plan.ActionRollback:
		c.revision.Store(&s.Revision)
	}
	if err := c.workload.Change(ctx, s); err != nil {
		return err
	}
	if err := c.inOrder(ctx, s.During, before); err != nil {
		return err
	}
	if s.Wait == plan.WaitObserved {
		return c.workload.Observed(ctx, s.Bound.D())
	}
	return c.workload.Converge(ctx, s.Bound.D())
}

// victimBound is how long clients may take to return to an instance that was hurt.
const victimBound = 15 * time.Second

// load lets the clients write until so many more inserts are acknowledged. Outside of faults, earlier victims must work
// again first: the other instances could acknowledge all before the clients of these have returned. A victim that is
// not in time is no error here: the plan may have scaled it away, and coverage counts what was seen.
func (c *runner) load(ctx context.Context, commits int, calm bool) error {
	begin := c.data.Commits()
	if calm {
		need := c.Plan.Bounds.MinAround
		for instance, acked := range c.rec.victims() {
			err := await.Until(ctx, instance+" to be at work again", commitPoll, victimBound,
				func(context.Context) (bool, string, error) {
					n := c.rec.acknowledged(instance) - acked
					return n >= need, fmt.Sprintf("%d operations acknowledged, want %d", n, need), c.rec.Err()
				})
			if err != nil {
				c.log.Warn("a victim is not at work again", "instance", instance, "err", err)
			}
		}
	}
	want := begin + int64(commits)
	return await.Until(ctx, fmt.Sprintf("%d more commits", commits), commitPoll, plan.MaxBound,
		func(context.Context) (bool, string, error) {
			err := c.rec.Err()
			if err != nil {
				err = await.Stop(err)
			}
			n := c.data.Commits()
			return n >= want, fmt.Sprintf("%d acknowledged", n-begin), err
		})
}

// fault finds the victim and runs the fault with a guard.
func (c *runner) fault(ctx context.Context, s plan.Step, in enclosing, log *slog.Logger) error {
	def, ok := c.Parts.fault(s.Fault.Name)
	if !ok {
		return fmt.Errorf("carry out step %d: fault %q is not known", s.N, s.Fault.Name)
	}
	pod := c.podName(s.Fault.Ordinal)
	node, err := c.victim(ctx, pod, in)
	if err != nil {
		return fmt.Errorf("find the node of the victim %q: %w", pod, err)
	}
	env := fault.Env{
		Cluster: c.Cluster, Kube: c.kube, Node: node, Pod: pod, Namespace: c.namespace(), RunID: c.RunID,
		Clock: bootclock.Now, Log: log, Watchdog: c.Watchdog,
	}
	if x := c.Plan.Workload.External; x != nil {
		env.Container = x.Container
	}
	if other := def.Other(*s.Fault); other != nil {
		env.Peer = c.podName(*other)
		if env.PeerNode, err = c.victim(ctx, env.Peer, in); err != nil {
			return fmt.Errorf("find the node of the other side %q: %w", env.Peer, err)
		}
	}
	var within enclosing
	g, release, err := c.guard(def, fault.Config{
		Step: s, Env: env,
		Provoke: func(ctx context.Context) error { return c.inOrder(ctx, s.Fault.Provoke, within) },
		During:  func(ctx context.Context) error { return c.inOrder(ctx, s.Fault.During, within) },
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Progress, "%8s  step %-3d %s on node %s, which runs %s\n",
		c.sinceBegin(bootclock.Now()), s.N, def.Name, node.Name(), pod)
	if in.open == nil && !c.Plan.Workload.Grouped() { // Another instance does its work.
		c.rec.hurts(pod)
	}
	if within, err = c.enclose(ctx); err != nil {
		release()
		return err
	}
	if !s.Fault.Outlast {
		defer release()
		return errors.Join(g.Run(ctx), within.open.end(ctx))
	}
	end, err := g.RunOpen(ctx)
	if err != nil {
		defer release()
		return errors.Join(err, within.open.end(ctx))
	}
	in.open.add(func(ctx context.Context) error {
		defer release()
		return errors.Join(end(ctx), within.open.end(ctx))
	})
	return nil
}

// guard makes a fault and takes its resources, until release is called.
func (c *runner) guard(def fault.Definition, cfg fault.Config) (g *fault.Guard, release func(), err error) {
	f, err := def.New(*cfg.Step.Fault, cfg.Step.N, cfg.Env)
	if err != nil {
		return nil, nil, fmt.Errorf("make fault %q: %w", def.Name, err)
	}
	cfg.Of, cfg.Recorder, cfg.Journal = def, c.rec, undo.NewJournal(c.journal)
	release, err = c.active.take(activeFault{
		step: cfg.Step.N, name: def.Name, node: cfg.Env.Node.Name(), parts: def.Takes,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("begin fault %q: %w", def.Name, err)
	}
	return fault.NewGuard(cfg, f), release, nil
}

// victim returns the node that a pod of the workload runs on. Within another step it is the one that ran the pod when
// that step began: what happens within may move the pod.
func (c *runner) victim(ctx context.Context, pod string, in enclosing) (clusters.Node, error) {
	name := in.node(pod)
	if name == "" {
		now, err := c.enclose(ctx)
		if err != nil {
			return nil, err
		}
		name = now.node(pod)
	}
	if n, ok := find(c.nodes, func(n clusters.Node) bool { return n.Name() == name }); ok {
		return n, nil
	}
	return nil, fmt.Errorf("pod %q is on node %q, which the cluster does not list", pod, name)
}

// stopLoad ignores the end of ctx: an operation left in flight could never be judged.
func (c *runner) stopLoad(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainBound)
	defer cancel()
	return c.workload.StopLoad(ctx)
}
