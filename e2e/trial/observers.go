package trial

import (
	"context"
	"fmt"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/observe/apiwatch"
	"github.com/seatrial/seatrial/e2e/observe/csicalls"
	"github.com/seatrial/seatrial/e2e/observe/install"
	"github.com/seatrial/seatrial/e2e/observe/mounts"
)

// watchers are the observers that run beside a trial.
type watchers struct {
	mounts *mounts.Tailer
	calls  *csicalls.Tailer // Nil where the volumes have no CSI driver.
	api    *apiwatch.Watcher
}

// installAgents begins a new mount ledger on every node.
func (c *runner) installAgents(ctx context.Context) error {
	return c.onEachNode(ctx, func(ctx context.Context, n clusters.Node) error {
		done, err := install.Install(ctx, n, c.Agent)
		if err != nil {
			return fmt.Errorf("install agent on node %q: %w", n.Name(), err)
		}
		c.log.Info("agent installed", "node", n.Name(), "copied", done.Copied, "ledger", done.On.Observer.Detail)
		return nil
	})
}

// startObservers begins to read ledgers and to watch the API. They outlive ctx: what happens while a trial that was
// given up is healed belongs to its history. stopObservers ends them.
func (c *runner) startObservers(ctx context.Context, config *rest.Config) error {
	alive := context.WithoutCancel(ctx)
	c.watchers = &watchers{mounts: mounts.Start(alive, c.nodes, c.rec, c.log.With("part", "mounts"))}
	if c.Plan.Workload.StorageName() == plan.StorageSharedDisk {
		c.watchers.calls = csicalls.Start(alive, c.nodes, c.rec, c.log.With("part", "csicalls"))
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make dynamic client: %w", err)
	}
	c.watchers.api, err = apiwatch.Start(alive, apiwatch.Config{
		Client: client, Namespace: c.namespace(), Recorder: c.rec, Log: c.log.With("part", "apiwatch"),
	})
	if err != nil {
		return fmt.Errorf("watch the API: %w", err)
	}
	return c.watchers.api.Ready(ctx)
}

func (c *runner) stopObservers(ctx context.Context) error {
	if c.watchers == nil {
		return nil
	}
	if c.watchers.api != nil {
		c.watchers.api.Stop()
	}
	if c.watchers.calls != nil {
		c.watchers.calls.Stop(ctx)
	}
	c.watchers.mounts.Stop(ctx)
	return nil
}

// guard holds the fault of a step to the order of its life.
func (c *runner) guard(
	s plan.Step, takes []plan.Part, env fault.Env, f fault.Fault, steps func(context.Context, []plan.Step) error,
) *fault.Guard {
	return fault.NewGuard(fault.Config{
		Step: s, Takes: takes, Env: env, Recorder: c.rec, Journal: undo.NewJournal(c.journal),
		Provoke: func(ctx context.Context) error { return steps(ctx, s.Fault.Provoke) },
		During:  func(ctx context.Context) error { return steps(ctx, s.Fault.During) },
	}, f)
}

// healAll undoes whatever of this run is left on any node. After steps that went well there is nothing to undo: what
// is found then was left behind by a fault that said it was healed.
func (c *runner) healAll(ctx context.Context) error {
	reports, err := undo.Cluster(ctx, c.nodes, undo.Of(c.RunID, 0))
	if c.Watchdog != nil && err == nil { // After an error, they are what may still bring a node back.
		var armed []string
		if armed, err = c.Watchdog.Release(ctx, undo.Of(c.RunID, 0)); err == nil && len(armed) > 0 {
			err = fmt.Errorf("left behind by a healed fault: dead-men beside the cluster: %q", armed)
		}
	}
	for _, r := range reports {
		if r.Nothing() {
			continue
		}
		c.log.Warn("left behind", "node", r.Node, "what", r.String())
		if err == nil {
			err = fmt.Errorf("heal node %q: found left behind by a healed fault: %s", r.Node, r)
		}
	}
	return err
}
