package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/heal"
	"github.com/seatrial/seatrial/chaos/mark"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/berth"
	"github.com/seatrial/seatrial/e2e/trial"
	"github.com/seatrial/seatrial/tools/host/engine"
)

func newClean() *cobra.Command {
	var all, force bool
	var one string
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Delete every cluster that Seatrial made; with --all also undo what setup did to this host",
		Long: `Clean finds our clusters by their marks in the container engine, running or not, and deletes them.
One on which a trial runs is left alone, and named, unless --force is given.
Run directories and built images are kept. With --all an engine that setup
started is stopped and its configuration restored.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, out := cmd.Context(), cmd.ErrOrStderr()
			if all && one != "" {
				return badArguments("--all concerns every cluster; give it or --cluster, not both")
			}
			err := deleteClusters(ctx, one, force, out)
			var used *berth.TakenError
			if all && !errors.As(err, &used) { // The trial that runs needs the engine.
				err = errors.Join(err, engine.Clean(ctx, engine.Options{Log: quiet(out), Out: out}))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&one, "cluster", "", "delete this cluster only")
	cmd.Flags().BoolVar(&all, "all", false, "also undo what setup did to this host")
	cmd.Flags().BoolVar(&force, "force", false, "delete clusters on which a trial runs as well")
	return cmd
}

func quiet(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// provider finds the engine, without making one. Without an engine there is nothing of ours that could run.
func provider(ctx context.Context, out io.Writer) (clusters.Provider, bool, error) {
	found, err := engine.Find(ctx)
	var none *engine.NotFoundError
	if errors.As(err, &none) {
		say(out, "no container engine runs here, and so no cluster either: %v", err)
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	p, err := trial.NewProvider(found.Path, quiet(out))
	return p, err == nil, err
}

// deleteClusters deletes our clusters, or the one of that name when it is given.
func deleteClusters(ctx context.Context, one string, force bool, out io.Writer) error {
	p, ok, err := provider(ctx, out)
	if !ok {
		return err
	}
	owned, err := p.List(ctx)
	if err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	named := func(c clusters.Owned) bool { return c.Name == one }
	if one != "" && !slices.ContainsFunc(owned, named) {
		return badArguments("--cluster: no cluster is called %q", one)
	}
	var errs []error
	for _, c := range owned {
		if one != "" && !named(c) {
			continue
		}
		if !c.Ours {
			say(out, "cluster %s is not ours and is left alone", c.Name)
			continue
		}
		if err := mayDelete(ctx, p, c.Name, force); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := p.Delete(ctx, c.Name); err != nil {
			errs = append(errs, fmt.Errorf("delete cluster %q: %w", c.Name, err))
			continue
		}
		if len(c.Nodes) == 0 {
			say(out, "what cluster %s left on this host is removed", c.Name)
			continue
		}
		say(out, "cluster %s of run %s deleted", c.Name, c.RunID)
	}
	return errors.Join(errs...)
}

// mayDelete returns an error for a cluster on which a trial runs.
func mayDelete(ctx context.Context, p clusters.Provider, name string, force bool) error {
	if force {
		return nil
	}
	holder, used, err := trial.Used(ctx, p, name)
	if err == nil && used {
		err = &berth.TakenError{Cluster: name, Holder: holder}
	}
	if err != nil {
		return fmt.Errorf("%w; --force deletes it all the same", err)
	}
	return nil
}

func newHeal() *cobra.Command {
	var run, one string
	var all bool
	cmd := &cobra.Command{
		Use:   "heal",
		Short: "Undo every fault that is left on the nodes and API objects of our clusters",
		Long: `Heal finds faults by the marks they carry, on the nodes and on API objects, with or without the journal
of their run, and undoes them. It may be run at any time, again, beside itself, and while a trial runs: that trial will
then be UNKNOWN. Without --run and --cluster it undoes those of all runs on all of our clusters, as with --all.

API objects are reached through a node of the control plane. When the API server does not answer, the nodes are healed
all the same, and what could not be done is said; timers on the control plane go on trying.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if all && (run != "" || one != "") {
				return badArguments("--all concerns every run on every cluster; leave out --run and --cluster")
			}
			return healClusters(cmd.Context(), run, one, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "undo the faults of this run only (its id is in run.json)")
	cmd.Flags().StringVar(&one, "cluster", "", "undo those on this cluster only")
	cmd.Flags().BoolVar(&all, "all", false, "undo those of every run on every cluster of ours; this is the default")
	return cmd
}

// healClusters heals our clusters, or the one of that name when it is given.
func healClusters(ctx context.Context, run, one string, stdout, stderr io.Writer) error {
	if run != "" {
		if err := (mark.Owner{Run: run}).Check(); err != nil {
			return badArguments("--run: %w", err)
		}
	}
	p, ok, err := provider(ctx, stderr)
	if !ok {
		return err
	}
	owned, err := p.List(ctx)
	if err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	ours := func(c clusters.Owned) bool { return c.Ours && len(c.Nodes) > 0 && (one == "" || c.Name == one) }
	if one != "" && !slices.ContainsFunc(owned, ours) {
		return badArguments("--cluster: no cluster of ours is called %q", one)
	}
	var only heal.Only
	if run != "" {
		only = heal.Of(run, 0)
	}
	var errs []error
	for _, o := range owned {
		if ours(o) {
			errs = append(errs, healCluster(ctx, p, o.Name, only, stdout))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err // What is armed beside the clusters may still bring a node back.
	}
	if one != "" && run == "" {
		return nil // What is armed beside the clusters does not say for which one it is.
	}
	return releaseOutside(ctx, only, stdout)
}

func healCluster(ctx context.Context, p clusters.Provider, name string, only heal.Only, stdout io.Writer) error {
	c, err := p.Open(ctx, name)
	if err != nil {
		return err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes of cluster %q: %w", name, err)
	}
	reports, err := heal.Cluster(ctx, nodes, only)
	for _, r := range reports {
		if r.Nothing() {
			say(stdout, "%s: nothing to undo", r.Node)
			continue
		}
		say(stdout, "%s: undone: %s", r.Node, r)
	}
	return err
}
