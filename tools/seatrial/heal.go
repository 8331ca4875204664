package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

func newHeal() *cobra.Command {
	var run, one, dir, output string
	var hurt []string // Nodes with open faults in the journal.
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

API objects are reached through a control-plane node, and on an existing cluster also by its kubeconfig. If the API
server does not answer, heal still heals the nodes of a kind cluster and reports what it could not do; those of an
existing cluster it reaches only through the API server. Timers on the nodes undo their faults all the same, and those
on the control plane, where there are some, keep trying.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case all && (run != "" || one != "" || dir != ""):
				return badArguments("--all covers every run on every cluster; omit the other flags")
			case one != "" && access.given():
				return badArguments("--cluster is for a kind cluster; omit it with --kubeconfig and --context")
			case run != "" && dir != "":
				return badArguments("--journal already names the run; omit --run")
			case dir != "":
				var err error
				if run, hurt, err = openFaults(dir, cmd.ErrOrStderr()); err != nil {
					return err
				}
				if run == "" {
					return healed{Nodes: []undo.Report{}, Watchdogs: []string{}}.write(cmd.OutOrStdout(), output)
				}
			}
			var only undo.Only
			if run != "" {
				if err := (undo.Owner{Run: run}).Check(); err != nil {
					return badArguments("--run: %w", err)
				}
				only = undo.Of(run, 0)
			}
			h := healed{Nodes: []undo.Report{}, Watchdogs: []string{}}
			err := access.check()
			if err != nil {
				return err
			}
			if access.given() {
				err = h.existing(cmd.Context(), access, only, cmd.ErrOrStderr())
			} else {
				err = h.clusters(cmd.Context(), only, one, cmd.ErrOrStderr())
			}
			if err != nil && len(h.Nodes) == 0 {
				return err
			}
			whole := access.given() && access.nodes == "" || !access.given() && one == "" && onKind(dir)
			return errors.Join(err, h.write(cmd.OutOrStdout(), output),
				h.reached(hurt, whole && err == nil, cmd.ErrOrStderr()))
		},
	}
	outputFlag(cmd, &output, "nodes where something was undone")
	access.register(cmd)
	cmd.Flags().StringVar(&run, "run", "", "undo the faults of this run only (its id is in run.json)")
	cmd.Flags().StringVar(&dir, "journal", "", "list and undo the faults of this run directory only")
	cmd.Flags().StringVar(&one, "cluster", "", "undo the faults on this cluster only")
	completeFlag(cmd, "journal", completeRuns)
	completeFlag(cmd, "cluster", completeClusters)
	cmd.Flags().BoolVar(&all, "all", false, "undo the faults of every run on every cluster (default)")
	return cmd
}

type healed struct {
	Nodes     []undo.Report `json:"nodes"`
	Watchdogs []string      `json:"watchdogs"` // That were ended beside their clusters.
}

// onKind reports whether the run of a directory was on a kind cluster, which needs no kubeconfig.
func onKind(path string) bool {
	var run report.Run
	dir, err := rundir.Open(path)
	return err == nil && dir.ReadJSON(rundir.RunFile, &run) == nil && run.NodeImageSource != ""
}

// reached returns an error unless all nodes were looked at. Where all that there are were, the others are gone.
func (h healed) reached(nodes []string, all bool, stderr io.Writer) error {
	nodes = slices.DeleteFunc(nodes, func(name string) bool {
		return slices.ContainsFunc(h.Nodes, func(r undo.Report) bool { return r.Node == name })
	})
	if all {
		for _, name := range nodes {
			say(stderr, "node %s is in the cluster no more: nothing is left to heal there", name)
		}
		return nil
	}
	if len(nodes) == 0 {
		return nil
	}
	return badArguments("--journal: faults are open on %s, which was not looked at: if its cluster still exists, name "+
		"it by --kubeconfig or --context", strings.Join(nodes, ", "))
}

func (h healed) write(w io.Writer, output string) error {
	var names []string
	var text strings.Builder
	for _, r := range h.Nodes {
		if r.Nothing() {
			say(&text, "%s: nothing to undo", r.Node)
			continue
		}
		names = append(names, r.Node)
		say(&text, "%s: undone: %s", r.Node, r)
	}
	for _, name := range h.Watchdogs {
		say(&text, "ended the watchdog %s beside its cluster", name)
	}
	return writeAs(w, output, h, names, written(w, &text))
}

// clusters heals Seatrial's clusters, or only the named one, and ends the watchdogs beside those that are healed.
func (h *healed) clusters(ctx context.Context, only undo.Only, one string, stderr io.Writer) error {
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
			err = h.heal(ctx, c, only)
		}
		if err == nil { // After an error a watchdog may still bring a node back.
			err = h.release(ctx, o.Name, only)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// release ends the selected watchdogs of a cluster on this machine.
func (h *healed) release(ctx context.Context, cluster string, only undo.Only) error {
	dir, err := undo.WatchdogDir()
	if err != nil {
		return err
	}
	names, err := undo.HostWatchdog{Dir: dir, Cluster: cluster}.Release(ctx, only)
	h.Watchdogs = append(h.Watchdogs, names...)
	return err
}

// existing heals an existing cluster: API objects by its kubeconfig, nodes through agents of its own. It leaves
// watchdogs alone, which may have power over nodes that it has not.
func (h *healed) existing(ctx context.Context, f accessFlags, only undo.Only, stderr io.Writer) error {
	access, name, err := f.access(stderr)
	if err != nil {
		return err
	}
	config, err := clientConfig(f.kubeconfig, name)
	if err != nil {
		return err
	}
	did, unmarked := trial.Unmark(ctx, config, only)
	if len(did) > 0 {
		h.Nodes = append(h.Nodes, undo.Report{Node: "API server", Undone: []string{}, Did: did})
	}
	c, err := trial.OpenExisting(ctx, access, name)
	if err != nil {
		return errors.Join(unmarked, err)
	}
	return errors.Join(unmarked, h.heal(ctx, c, only), c.Close(ctx))
}

func (h *healed) heal(ctx context.Context, c clusters.Cluster, only undo.Only) error {
	nodes, err := c.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes of cluster %q: %w", c.Name(), err)
	}
	reports, err := undo.Cluster(ctx, nodes, only)
	h.Nodes = append(h.Nodes, reports...)
	return err
}

// openFaults lists the open faults of the journal in a run directory and returns the run, empty if the journal has no
// entry, and the nodes with such faults. A truncated journal is read as far as possible; the marks show the rest.
func openFaults(path string, stderr io.Writer) (run string, nodes []string, err error) {
	dir, err := rundir.Open(path)
	if err != nil {
		return "", nil, badArguments("--journal: %w; give the path of a run directory, for example runs/latest", err)
	}
	data, err := dir.ReadFile(rundir.JournalFile)
	if err != nil {
		return "", nil, badArguments("--journal: %w; use --run, or neither", err)
	}
	record, err := undo.ReadJournal(bytes.NewReader(data))
	if err != nil {
		say(stderr, "the journal is truncated: %v", err)
	}
	if len(record.Entries) == 0 {
		say(stderr, "no fault was started in %s", dir.Path())
		return "", nil, nil
	}
	open := record.Open()
	for _, e := range open {
		say(stderr, "step %d %s on node %s: started and not shown to be gone, last %s at %s", e.Step, e.Fault, e.Node,
			e.Stage, e.At)
		if !slices.Contains(nodes, e.Node) {
			nodes = append(nodes, e.Node)
		}
	}
	if len(open) == 0 {
		say(stderr, "every started fault was shown to be gone; looking for marks anyway")
	}
	return record.Entries[0].Run, nodes, nil
}

// newDeadman makes the command that a trial starts for a fault that no node can undo; it outlives the trial.
func newDeadman() *cobra.Command {
	return &cobra.Command{
		Use:    trial.OutsideCommand + " ORDER",
		Short:  "Undo, at the deadline that a file names, what no node can",
		Hidden: true, // Trials call it.
		Args:   exactly("ORDER"),
		RunE: func(cmd *cobra.Command, args []string) error {
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			return undo.Watch(cmd.Context(), args[0], trial.Ordered(cmd.InOrStdin(), log), cmd.OutOrStdout(), log)
		},
	}
}
