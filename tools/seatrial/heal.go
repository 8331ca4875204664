package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

func newHeal() *cobra.Command {
	var run, one, dir string
	var access accessFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "heal",
		Short: "Undo all faults left on nodes and API objects of Seatrial's clusters",
		Long: `Heal finds faults by their owner marks, on nodes and API objects, and undoes them. It does not need the
journal of their run. It can run at any time, repeatedly and in parallel; during a trial it makes that trial UNKNOWN.
Without --run and --cluster it covers all runs on all of Seatrial's clusters, as with --all. With --kubeconfig or
--context it covers the cluster that they name.
With --journal it first lists the faults that are open in the journal of a run directory, then undoes those of that run.

API objects are reached through a control-plane node. If the API server does not answer, heal still heals the nodes and
reports what it could not do; timers on the control plane keep trying.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case all && (run != "" || one != "" || dir != ""):
				return badArguments("--all covers every run on every cluster; omit the other flags")
			case run != "" && dir != "":
				return badArguments("--journal already names the run; omit --run")
			case dir != "":
				var err error
				if run, err = openFaults(dir, cmd.ErrOrStderr()); err != nil || run == "" {
					return err
				}
			}
			var only undo.Only
			if run != "" {
				if err := (undo.Owner{Run: run}).Check(); err != nil {
					return badArguments("--run: %w", err)
				}
				only = undo.Of(run, 0)
			}
			if access.given() {
				return healExisting(cmd.Context(), access, only, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			every := one == "" || run != ""
			return healClusters(cmd.Context(), only, one, every, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	access.register(cmd)
	cmd.Flags().StringVar(&run, "run", "", "undo the faults of this run only (its id is in run.json)")
	cmd.Flags().StringVar(&dir, "journal", "", "list and undo the faults of this run directory only")
	cmd.Flags().StringVar(&one, "cluster", "", "undo the faults on this cluster only")
	completeFlag(cmd, "journal", completeRuns)
	completeFlag(cmd, "cluster", completeClusters)
	cmd.Flags().BoolVar(&all, "all", false, "undo the faults of every run on every cluster (default)")
	return cmd
}

// healClusters heals Seatrial's clusters, or only the named one, and, if beside is set, ends the watchdogs beside them:
// those do not say for which cluster they are.
func healClusters(
	ctx context.Context, only undo.Only, one string, beside bool, stdout, stderr io.Writer,
) error {
	p, ok, err := maker(ctx, stderr)
	if !ok {
		return err
	}
	owned, err := p.List(ctx)
	if err != nil {
		return fmt.Errorf("list clusters: %w", err)
	}
	ours := func(c clusters.Owned) bool { return c.Ours && len(c.Nodes) > 0 && (one == "" || c.Name == one) }
	if one != "" && !slices.ContainsFunc(owned, ours) {
		return badArguments("--cluster: Seatrial has no cluster %q", one)
	}
	var errs []error
	for _, o := range owned {
		if !ours(o) {
			continue
		}
		c, err := p.Open(ctx, o.Name)
		if err == nil {
			err = healNodes(ctx, c, only, stdout)
		}
		errs = append(errs, err)
	}
	if err := errors.Join(errs...); err != nil || !beside {
		return err // After an error a watchdog may still bring a node back.
	}
	dir, err := undo.WatchdogDir()
	if err != nil {
		return err
	}
	names, err := undo.HostWatchdog{Dir: dir}.Release(ctx, only)
	for _, name := range names {
		say(stdout, "ended the watchdog %s beside its cluster", name)
	}
	return err
}

// healExisting heals an existing cluster through agents of its own.
func healExisting(ctx context.Context, f accessFlags, only undo.Only, stdout, stderr io.Writer) error {
	access, name, err := f.access(stderr)
	if err != nil {
		return err
	}
	c, err := trial.OpenExisting(ctx, access, name)
	if err != nil {
		return err
	}
	return errors.Join(healNodes(ctx, c, only, stdout), c.Close(ctx))
}

func healNodes(ctx context.Context, c clusters.Cluster, only undo.Only, stdout io.Writer) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes of cluster %q: %w", c.Name(), err)
	}
	reports, err := undo.Cluster(ctx, nodes, only)
	for _, r := range reports {
		if r.Nothing() {
			say(stdout, "%s: nothing to undo", r.Node)
			continue
		}
		say(stdout, "%s: undone: %s", r.Node, r)
	}
	return err
}

// openFaults lists the open faults of the journal in a run directory and returns the run, empty if the journal has no
// entry. A truncated journal is read as far as possible; the marks show the rest.
func openFaults(path string, stderr io.Writer) (run string, err error) {
	dir, err := rundir.Open(path)
	if err != nil {
		return "", badArguments("--journal: %w; give the path of a run directory, for example runs/latest", err)
	}
	data, err := dir.ReadFile(rundir.JournalFile)
	if err != nil {
		return "", badArguments("--journal: %w; use --run, or neither", err)
	}
	record, err := undo.ReadJournal(bytes.NewReader(data))
	if err != nil {
		say(stderr, "the journal is truncated: %v", err)
	}
	if len(record.Entries) == 0 {
		say(stderr, "no fault was started in %s", dir.Path())
		return "", nil
	}
	open := record.Open()
	for _, e := range open {
		say(stderr, "step %d %s on node %s: started and not shown to be gone, last %s at %s", e.Step, e.Fault, e.Node,
			e.Stage, e.At)
	}
	if len(open) == 0 {
		say(stderr, "every started fault was shown to be gone; looking for marks anyway")
	}
	return record.Entries[0].Run, nil
}

// newDeadman makes the command that a trial starts for a fault that takes a whole node away; it outlives the trial.
func newDeadman() *cobra.Command {
	return &cobra.Command{
		Use:    trial.OutsideCommand + " ORDER",
		Short:  "Bring a node back at the deadline that a file names",
		Hidden: true, // Trials call it.
		Args:   exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			return undo.Watch(cmd.Context(), args[0], trial.OpenOrdered(log), cmd.OutOrStdout(), log)
		},
	}
}
