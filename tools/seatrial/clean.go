package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/lock"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/trial"
)

func newClean() *cobra.Command {
	var all, force bool
	var one, output string
	var access accessFlags
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Delete the clusters that Seatrial made; with --all also undo setup",
		Long: `Clean finds Seatrial's clusters by their labels in the container engine and deletes them.
A cluster with a running trial is skipped unless --force is given. Run directories and built images are kept.
With --all, an engine that setup started is stopped and its configuration restored.
With --kubeconfig or --context it deletes no cluster: it removes Seatrial's agents from the cluster that they name.`,
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, out := cmd.Context(), cmd.ErrOrStderr()
			answer := func(deleted []string) error {
				return writeAs(cmd.OutOrStdout(), output, deleted, deleted, func() error { return nil })
			}
			if all && one != "" {
				return badArguments("--all covers every cluster; give it or --cluster, not both")
			}
			if err := access.check(); err != nil {
				return err
			}
			if access.given() {
				if all || one != "" || force {
					return badArguments("--kubeconfig, --context: nothing deletes that cluster; give them alone")
				}
				a, name, err := access.access(out)
				if err != nil {
					return err
				}
				return errors.Join(trial.CleanExisting(ctx, a, name), answer([]string{}))
			}
			found, deleted, err := deleteClusters(ctx, one, force, out)
			if err == nil && one != "" && found == 0 {
				return badArguments("--cluster: there is no cluster %q", one)
			}
			err = errors.Join(err, answer(deleted))
			if _, used := errors.AsType[*lock.TakenError](err); all && !used { // The running trial needs the engine.
				err = errors.Join(err, offline.Tool{Progress: out, Log: quiet(out)}.CleanEngine(ctx))
			}
			return err
		},
	}
	access.register(cmd)
	outputFlag(cmd, &output, "clusters that were deleted")
	cmd.Flags().StringVar(&one, "cluster", "", "delete this cluster only")
	completeFlag(cmd, "cluster", completeClusters)
	cmd.Flags().BoolVar(&all, "all", false, "also undo what setup did to this host")
	cmd.Flags().BoolVar(&force, "force", false, "also delete clusters with a running trial")
	return cmd
}

func quiet(w io.Writer) *slog.Logger {
	return slog.New(slog.NewTextHandler(w, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

// maker finds the engine, without making one, and returns what lists and deletes clusters. Where no engine runs, there
// is nothing of ours.
func maker(ctx context.Context, out io.Writer) (clusters.Maker, bool, error) {
	found, err := offline.Tool{Progress: out, Log: quiet(out)}.FindEngine(ctx)
	switch none, ok := errors.AsType[*offline.NotFoundError](err); {
	case ok && none.Mute:
		return nil, false, fmt.Errorf("cannot tell whether a cluster exists: %w", err)
	case ok:
		say(out, "no container engine is running, so there is no cluster: %v", err)
		return nil, false, nil
	case err != nil:
		return nil, false, err
	}
	p, err := trial.NewProvider(found.Path, quiet(out))
	if err != nil {
		return nil, false, err
	}
	m, ok := p.(clusters.Maker)
	if !ok {
		say(out, "provider %s makes no clusters: there is none of ours", p.Name())
	}
	return m, ok, nil
}

// deleteClusters deletes Seatrial's clusters, or only the named one. It returns how many it found, and the deleted.
func deleteClusters(
	ctx context.Context, one string, force bool, out io.Writer,
) (found int, deleted []string, err error) {
	deleted = []string{} // For JSON.
	p, ok, err := maker(ctx, out)
	if !ok {
		return 0, deleted, err
	}
	owned, err := p.List(ctx)
	if err != nil {
		return 0, deleted, fmt.Errorf("list clusters: %w", err)
	}
	var errs []error
	for _, c := range owned {
		if one != "" && c.Name != one {
			continue
		}
		found++
		if !c.Ours {
			say(out, "cluster %s was not made by Seatrial: skipped", c.Name)
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
		deleted = append(deleted, c.Name)
		if len(c.Nodes) == 0 {
			say(out, "removed what cluster %s left on this host", c.Name)
			continue
		}
		say(out, "deleted cluster %s of run %s", c.Name, c.RunID)
	}
	return found, deleted, errors.Join(errs...)
}

// mayDelete returns an error for a cluster with a running trial.
func mayDelete(ctx context.Context, p clusters.Provider, name string, force bool) error {
	if force {
		return nil
	}
	holder, used, err := trial.Used(ctx, p, name)
	if err == nil && used {
		err = &lock.TakenError{Cluster: name, Holder: holder}
	}
	if err != nil {
		return fmt.Errorf("%w; --force deletes it anyway", err)
	}
	return nil
}
