package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/trial"
)

// reproduceFlags are the flags of reproduce.
type reproduceFlags struct {
	run   runFlags
	times int
}

func newReproduce() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce CASE...",
		Short: "Reproduce reported bugs on a real cluster",
		Long: `Reproduce runs cases and looks for the finding of each; another failure is not a reproduction. A control
is a case with something that prevents the bug: its checks must pass. Cases with the same plan share their runs.
The exit code is 0 if every run had the predicted outcome, 1 if one did not, 2 if one could not be judged.`,
		Example: "  seatrial list cases\n  seatrial reproduce k8s-121937 --times 5",
		Args:    cobra.ArbitraryArgs,

		ValidArgsFunction: complete("cases"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return badArguments("CASE is missing; see `seatrial list cases`")
			}
			if f.times < 1 || f.times > 100 {
				return badArguments("--times is %d: use 1 to 100", f.times)
			}
			found, err := casesNamed(args)
			if err != nil {
				return err
			}
			return f.reproduce(cmd.Context(), batches(found), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.run.register(cmd)
	cmd.Flags().IntVar(&f.times, "times", 1, "attempts for each case; each volume of a run is one")
	return cmd
}

func (f *reproduceFlags) reproduce(ctx context.Context, all []*batch, stdout, stderr io.Writer) error {
	seed, err := seedOrNew(f.run.seed)
	if err != nil {
		return err
	}
	wish := plan.Plan{}
	for _, v := range all {
		p := plan.Make(v.cases[0], seed)
		if err := trial.ValidateHere(trial.AllParts(), p); err != nil {
			return badArguments("the plan of %s is not legal:\n%w", p.Scenario, err)
		}
		if err := p.Render(stderr); err != nil {
			return fmt.Errorf("print plan: %w", err)
		}
		wish.Workers = max(wish.Workers, p.Workers)
		if p.Workload.StorageName() == plan.StorageSharedDisk { // The only storage with programs to build.
			wish.Workload.Storage = plan.StorageSharedDisk
		}
	}
	m, err := f.run.cluster.options(ctx, wish, stderr)
	if err != nil {
		return err
	}
	place, err := prepare(ctx, m)
	if err != nil {
		return err
	}
	var runErr error
	for i, v := range all {
		if runErr = f.repeat(ctx, place, v, seed, i == len(all)-1, stderr); runErr != nil {
			break
		}
	}
	var names []string
	for _, v := range all {
		names = append(names, v.cases[0].Name)
	}
	f.run.leave(ctx, place, "reproduce "+strings.Join(names, " "), stderr)
	writeBatches(stdout, all)
	if runErr != nil {
		return runErr
	}
	return batchesExit(all)
}

// repeat runs a plan as often as asked; it stops at the first run that fails to execute.
func (f *reproduceFlags) repeat(
	ctx context.Context, place *trial.Place, v *batch, seed uint64, last bool, stderr io.Writer,
) error {
	runs := v.runsFor(f.times)
	for i := range runs {
		p := plan.Make(v.cases[0], seed+uint64(i))
		out, err := place.Run(ctx, trial.RunOptions{
			Plan: p, RunsDir: f.run.runs, Header: f.run.header(p), Progress: plainly{stderr}, Debug: f.run.level(),
			Last: last && !f.run.keep && i == runs-1,
		})
		if err != nil {
			return err
		}
		a := attempt{seed: p.Seed, report: out.Report, dir: out.Dir.Path()}
		v.runs = append(v.runs, a)
		for _, c := range v.cases {
			say(stderr, "%s, run %d of %d: %s", c.Name, i+1, runs, a.line(c))
		}
		if out.Interrupted {
			return fmt.Errorf("interrupted after %d of %d runs of %s", len(v.runs), runs, p.Scenario)
		}
		if v.enough(f.times) {
			break
		}
	}
	return nil
}
