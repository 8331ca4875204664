package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
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
		Use:   "reproduce CASE",
		Short: "Bring a reported bug about on a real kind cluster, and say whether it was the one",
		Long: `Reproduce carries a case out, once or more often, and looks for the finding that the case is known by: another
failure is another matter. A control differs from a case in what prevents it: there the finding must not appear.
The exit code is 0 when every run came out as the case says, 1 when one did not, 2 when one could not be judged.`,
		Example: "  seatrial list cases\n  seatrial reproduce k8s-121937 --times 5",
		Args:    exactly("CASE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			parts := trial.AllParts()
			c, ok := parts.Case(args[0])
			if !ok {
				var names []string
				for _, known := range parts.Cases {
					names = append(names, known.Name)
				}
				return badArguments("case %q is not known%s; see `seatrial list cases`",
					args[0], didYouMean(args[0], names))
			}
			if f.times < 1 || f.times > 100 {
				return badArguments("--times is %d: use 1 to 100", f.times)
			}
			return f.reproduce(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.run.register(cmd)
	cmd.Flags().IntVar(&f.times, "times", 1, "how often the case is carried out, each time with the next seed")
	return cmd
}

// attempt is what one run of a case came to.
type attempt struct {
	seed    uint64
	verdict check.Verdict
	finding check.Finding
	found   bool
	dir     string
}

// asSaid tells whether the run came out as the case says. A control that is Unknown has shown nothing.
func (a attempt) asSaid(c plan.Case) bool {
	if c.Control {
		return !a.found && a.verdict == check.Pass
	}
	return a.found
}

func (f *reproduceFlags) reproduce(ctx context.Context, c plan.Case, stdout, stderr io.Writer) error {
	seed, err := seedOrNew(f.run.seed)
	if err != nil {
		return err
	}
	first := plan.Make(c.Scenario, seed)
	if err := trial.Validate(trial.AllParts(), first); err != nil {
		return badArguments("the plan is not legal:\n%w", err)
	}
	if err := first.Render(stderr); err != nil {
		return fmt.Errorf("print plan: %w", err)
	}
	m, err := f.run.moorings.moorings(ctx, first, stderr)
	if err != nil {
		return err
	}
	place, err := trial.Moor(ctx, m)
	if err != nil {
		return err
	}
	attempts, sailErr := f.sail(ctx, place, c, seed, stderr)
	f.run.leave(ctx, place, "reproduce "+c.Name, stderr)
	writeAttempts(stdout, c, attempts)
	if sailErr != nil {
		return sailErr
	}
	return attemptsExit(c, attempts)
}

// sail carries the case out as often as asked for, or until one run could not be carried out at all.
func (f *reproduceFlags) sail(
	ctx context.Context, place *trial.Place, c plan.Case, seed uint64, stderr io.Writer,
) ([]attempt, error) {
	var done []attempt
	for i := range f.times {
		p := plan.Make(c.Scenario, seed+uint64(i))
		out, err := place.Sail(ctx, trial.Orders{
			Plan: p, RunsDir: f.run.runs, Header: f.run.header(p), Progress: stderr, Debug: f.run.level(),
			Last: !f.run.keep && i == f.times-1,
		})
		if err != nil {
			return done, err
		}
		a := attempt{seed: p.Seed, verdict: out.Report.Verdict, dir: out.Dir.Path()}
		a.finding, a.found = out.Report.Shows(c.Finding)
		done = append(done, a)
		say(stderr, "run %d of %d: %s", i+1, f.times, a.line())
		if out.Interrupted {
			return done, fmt.Errorf("interrupted after %d of %d runs", len(done), f.times)
		}
	}
	return done, nil
}

func (a attempt) line() string {
	if !a.found {
		return fmt.Sprintf("seed %d, %s, not found (%s)", a.seed, a.verdict, a.dir)
	}
	return fmt.Sprintf("seed %d, %s: %s (%s)", a.seed, a.verdict, a.finding.Sentence, a.dir)
}

// writeAttempts ends with the rate, as the last line.
func writeAttempts(w io.Writer, c plan.Case, attempts []attempt) {
	say(w, "%s: %s", c.Name, c.Report)
	say(w, "%s", c.Summary)
	good := 0
	for i, a := range attempts {
		say(w, "  run %d: %s", i+1, a.line())
		if a.asSaid(c) {
			good++
		}
	}
	what := "reproduced"
	if c.Control {
		what = "prevented"
	}
	say(w, "%s: %s %d of %d", c.Name, what, good, len(attempts))
}

func attemptsExit(c plan.Case, attempts []attempt) error {
	verdicts := []check.Verdict{check.Pass}
	for _, a := range attempts {
		switch {
		case a.asSaid(c):
		case a.verdict == check.Unknown:
			verdicts = append(verdicts, check.Unknown)
		default:
			verdicts = append(verdicts, check.Fail)
		}
	}
	return verdictExit(check.Worst(verdicts...))
}
