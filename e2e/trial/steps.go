package trial

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// commitPoll is how often a load step looks at the number of commits.
const commitPoll = 50 * time.Millisecond

// steps carries the plan's steps out.
func (c *runner) steps(ctx context.Context) error {
	c.stepsBegan = bootclock.Now()
	return c.inOrder(ctx, c.Plan.Steps, enclosing{since: c.stepsBegan})
}

// inOrder carries steps out, one after another. It stops at the first that goes wrong: what follows was planned on the
// state that this one should have left.
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

// logged gives a fault a log of its own, beside the harness's: what went on in it can be read without the rest.
func (c *runner) logged(s plan.Step, do func(*slog.Logger) error) error {
	name := fmt.Sprintf("%02d-%s.log", s.N, s.Fault.Name)
	file, err := c.dir.OpenAppend(filepath.Join(rundir.StepsDir, name))
	if err != nil {
		return err
	}
	own := slog.NewTextHandler(file, &slog.HandlerOptions{Level: slog.LevelDebug})
	err = do(slog.New(slog.NewMultiHandler(c.log.Handler(), own)).With("step", s.N))
	return errors.Join(err, file.Close())
}

// step carries out one step. In is how things were when the step that encloses it began, base when the last change in
// the same sequence did.
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
		return c.logged(s, func(log *slog.Logger) error { return c.fault(ctx, s, in, log) })
	case plan.ActionUpgrade:
		return c.upgrade(ctx, s, in)
	case plan.ActionPause:
		return await.For(ctx, s.Lasting.D())
	case plan.ActionDeleteClaim, plan.ActionDeletePod, plan.ActionRecover:
		return c.set.Change(ctx, s)
	case plan.ActionChecksum:
		return c.data.Checksum(ctx, s.Label, s.N)
	case plan.ActionRead:
		return c.data.Read(ctx, s.N)
	case plan.ActionTamper:
		return c.data.Tamper(ctx, *s.Tamper)
	}
	return fmt.Errorf("carry out step %d: action %q is not known", s.N, s.Do)
}

// change changes the StatefulSet, carries out what is to be done meanwhile, and waits for what comes of the change.
func (c *runner) change(ctx context.Context, s plan.Step, in enclosing, base *enclosing) error {
	before, err := c.enclose(ctx)
	if err != nil {
		return err
	}
	before.open = in.open // What outlasts, outlasts a fault.
	*base = before
	switch s.Do {
	case plan.ActionUpdate:
		c.revision.Store(&s.Update.Revision)
	case plan.ActionRollback:
		c.revision.Store(&s.Revision)
	}
	if err := c.set.Change(ctx, s); err != nil {
		return err
	}
	if err := c.inOrder(ctx, s.During, before); err != nil {
		return err
	}
	if s.Wait == plan.WaitObserved {
		return c.set.Observed(ctx, s.Bound.D())
	}
	return c.set.Converge(ctx, s.Bound.D())
}

// victimBound is how long clients are given to come back to an instance that was hurt.
const victimBound = 15 * time.Second

// load lets the clients write until so many more inserts are acknowledged. Where nothing is hurt, those whom faults had
// hurt before must be at work again: the others could acknowledge all before the clients of these have come back. A
// victim that is not in time is no error here: the plan may have scaled it away, and coverage counts what was seen.
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
	err := wait.PollUntilContextCancel(ctx, commitPoll, true, func(context.Context) (bool, error) {
		return c.data.Commits() >= want, c.rec.Err()
	})
	if err != nil {
		return fmt.Errorf("await %d more commits, %d seen: %w", commits, c.data.Commits()-begin,
			errors.Join(err, context.Cause(ctx)))
	}
	return nil
}

// fault resolves the victim and hands the fault to the guard.
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
	if other := def.Other(*s.Fault); other != nil {
		env.Peer = c.podName(*other)
		if env.PeerNode, err = c.victim(ctx, env.Peer, in); err != nil {
			return fmt.Errorf("find the node of the other side %q: %w", env.Peer, err)
		}
	}
	f, err := def.New(*s.Fault, s.N, env)
	if err != nil {
		return fmt.Errorf("make fault %q: %w", def.Name, err)
	}
	fmt.Fprintf(c.Progress, "%8s  step %-3d %s on node %s, which runs %s\n",
		c.sinceBegin(bootclock.Now()), s.N, def.Name, node.Name(), pod)
	release, err := c.active.take(activeFault{step: s.N, name: def.Name, node: node.Name(), parts: def.Takes})
	if err != nil {
		return fmt.Errorf("begin fault %q: %w", def.Name, err)
	}
	if in.open == nil {
		c.rec.hurts(pod)
	}
	within, err := c.enclose(ctx)
	if err != nil {
		release()
		return err
	}
	g := fault.NewGuard(fault.Config{
		Step: s, Takes: def.Takes, Env: env, Recorder: c.rec, Journal: undo.NewJournal(c.journal),
		Provoke: func(ctx context.Context) error { return c.inOrder(ctx, s.Fault.Provoke, within) },
		During:  func(ctx context.Context) error { return c.inOrder(ctx, s.Fault.During, within) },
	}, f)
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

// victim returns the node that a pod of the workload runs on. Within another step it is the one that ran the pod when
// that step began: what happens within may move the pod.
func (c *runner) victim(ctx context.Context, pod string, in enclosing) (clusters.Node, error) {
	name := in.node(pod)
	if name == "" {
		err := answered(ctx, fmt.Sprintf("the node of %q to be known", pod), func(ctx context.Context) error {
			p, err := c.kube.CoreV1().Pods(c.namespace()).Get(ctx, pod, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("get pod: %w", err)
			}
			name = p.Spec.NodeName
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	for _, n := range c.nodes {
		if n.Name() == name {
			return n, nil
		}
	}
	return nil, fmt.Errorf("pod %q is on node %q, which the cluster does not list", pod, name)
}

// stopLoad ends the clients although the trial's context has ended: an operation left in flight could never be judged.
func (c *runner) stopLoad(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainBound)
	defer cancel()
	return c.workload.StopLoad(ctx)
}
