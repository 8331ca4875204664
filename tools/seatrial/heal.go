package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/rundir"
)

func newHeal() *cobra.Command {
	var run, one, dir string
	var all bool
	cmd := &cobra.Command{
		Use:   "heal",
		Short: "Undo every fault that is left on the nodes and API objects of our clusters",
		Long: `Heal finds faults by the marks they carry, on the nodes and on API objects, with or without the journal
of their run, and undoes them. It may be run at any time, again, beside itself, and while a trial runs: that trial will
then be UNKNOWN. Without --run and --cluster it undoes those of all runs on all of our clusters, as with --all.
With --journal it first says which faults the journal of a run directory has begun and not shown to be gone, and then
undoes those of that run.

API objects are reached through a node of the control plane. When the API server does not answer, the nodes are healed
all the same, and what could not be done is said; timers on the control plane go on trying.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case all && (run != "" || one != "" || dir != ""):
				return badArguments("--all concerns every run on every cluster; leave out the other flags")
			case run != "" && dir != "":
				return badArguments("--journal says which run it is; leave out --run")
			case dir != "":
				var err error
				if run, err = openFaults(dir, cmd.ErrOrStderr()); err != nil || run == "" {
					return err
				}
			}
			return healClusters(cmd.Context(), run, one, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&run, "run", "", "undo the faults of this run only (its id is in run.json)")
	cmd.Flags().StringVar(&dir, "journal", "", "undo the faults of the run of this directory only, and tell of them")
	cmd.Flags().StringVar(&one, "cluster", "", "undo those on this cluster only")
	cmd.Flags().BoolVar(&all, "all", false, "undo those of every run on every cluster of ours; this is the default")
	return cmd
}

// healClusters heals our clusters, or the one of that name when it is given.
func healClusters(ctx context.Context, run, one string, stdout, stderr io.Writer) error {
	if run != "" {
		if err := (undo.Owner{Run: run}).Check(); err != nil {
			return badArguments("--run: %w", err)
		}
	}
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
		return badArguments("--cluster: no cluster of ours is called %q", one)
	}
	var only undo.Only
	if run != "" {
		only = undo.Of(run, 0)
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

func healCluster(ctx context.Context, p clusters.Provider, name string, only undo.Only, stdout io.Writer) error {
	c, err := p.Open(ctx, name)
	if err != nil {
		return err
	}
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes of cluster %q: %w", name, err)
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

// openFaults says which faults the journal of a run directory has open, and returns the run. Without an entry there is
// none, and nothing to undo. A journal that breaks off is believed as far as it goes: the marks tell the rest.
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
		say(stderr, "the journal breaks off: %v", err)
	}
	if len(record.Entries) == 0 {
		say(stderr, "no fault was ever begun in %s", dir.Path())
		return "", nil
	}
	open := record.Open()
	for _, e := range open {
		say(stderr, "step %d %s on node %s: begun and not shown to be gone, last %s at %s", e.Step, e.Fault, e.Node,
			e.Stage, e.At)
	}
	if len(open) == 0 {
		say(stderr, "every fault that was begun was shown to be gone; its marks are looked for all the same")
	}
	return record.Entries[0].Run, nil
}
