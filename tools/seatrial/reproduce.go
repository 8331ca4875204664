package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/trial"
)

type reproduceFlags struct {
	run      runFlags
	caseFile string
	times    int
}

func newReproduce() *cobra.Command {
	var f reproduceFlags
	cmd := &cobra.Command{
		Use:   "reproduce CASE... | --case FILE",
		Short: "Reproduce reported bugs on a real cluster",
		Long: `Reproduce runs cases and looks for the finding of each; another failure is not a reproduction. A control
is a case with something that prevents the bug: its checks must pass. Cases with the same plan share their runs.
With --case it runs a case of yours, from a file (docs/plans.md).
The exit code is 0 if every run had the predicted outcome, 1 if one did not, 2 if one could not be judged.`,
		Example: "  seatrial list cases\n  seatrial reproduce k8s-121937 --times 5\n" +
			"  seatrial reproduce --case case.yaml",
		Args: cobra.ArbitraryArgs,

		ValidArgsFunction: complete("cases"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.times < 1 || f.times > plan.MaxTimes {
				return badArguments("--times is %d: use 1 to %d", f.times, plan.MaxTimes)
			}
			found, err := f.cases(args, cmd.Flags().Changed("times"))
			if err != nil {
				return err
			}
			return f.reproduce(cmd.Context(), batches(found), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	seedFlag(cmd, &f.run.seed)
	f.run.register(cmd)
	cmd.Flags().IntVar(&f.times, "times", 1, "attempts for each case (default of --case: the file's); "+
		"each volume of a run is one")
	cmd.Flags().StringVar(&f.caseFile, "case", "", "run the case in this file, YAML or JSON")
	f.run.registerWorkload(cmd)
	return cmd
}

// cases returns the cases of those names, or that of the file, which also has times and seed unless flags have.
func (f *reproduceFlags) cases(names []string, times bool) ([]plan.Case, error) {
	switch {
	case f.caseFile == "" && len(names) == 0:
		return nil, badArguments("CASE is missing; see `seatrial list cases`")
	case f.caseFile == "" && f.run.workload != "":
		return nil, badArguments("--workload goes with --case: the cases of Seatrial are about workloads of its own")
	case f.caseFile == "":
		return casesNamed(names)
	case len(names) > 0:
		return nil, badArguments("--case and %q: give one of them", names[0])
	}
	c, err := readCase(f.caseFile, f.run.workload)
	if err != nil {
		return nil, err
	}
	if !times {
		f.times = c.Times
	}
	f.run.seed = cmp.Or(f.run.seed, c.Plan.Seed)
	return []plan.Case{c.Case}, nil
}

// readCase reads and checks a case, with the workload of another file unless that is empty; it touches nothing.
func readCase(name, workload string) (plan.CaseFile, error) {
	data, err := readFile(os.Stdin, name)
	if err != nil {
		return plan.CaseFile{}, badArguments("--case %w", err)
	}
	c, err := trial.ReadCase(trial.AllParts(), data)
	if err != nil {
		return c, inFile("--case", name, illegal("the case cannot be run:", err))
	}
	if workload == "" {
		return c, nil
	}
	put, err := putWorkload(plan.Make(c.Case, 1), workload)
	build := c.Build
	c.Build = func(r *rand.Rand) plan.Plan {
		p := build(r)
		p.Workload = put.Workload
		return p
	}
	return c, err
}

func (f *reproduceFlags) reproduce(ctx context.Context, all []*batch, stdout, stderr io.Writer) error {
	seed, err := seedOrNew(f.run.seed)
	if err != nil {
		return err
	}
	if err := f.run.check(); err != nil {
		return err
	}
	var plans []plan.Plan
	for _, v := range all {
		p := plan.Make(v.cases[0], seed)
		if len(p.Upgrades()) > 0 && (len(all) > 1 || f.run.cluster.reuse && f.times > 1) {
			return badArguments("%s upgrades its cluster: reproduce it alone, and without --reuse more than once",
				p.Scenario)
		}
		if err := f.run.validate(p); err != nil {
			return inFile("--case", f.caseFile, illegal("the plan of "+p.Scenario+" is not legal:", err))
		}
		if err := p.Render(stderr); err != nil {
			return fmt.Errorf("print plan: %w", err)
		}
		plans = append(plans, p)
	}
	f.run.cluster.times = f.times
	m, err := f.run.cluster.options(ctx, stderr, plans...)
	if err != nil {
		return err
	}
	for _, p := range plans {
		if err := f.run.lookAt(ctx, p); err != nil {
			return err
		}
	}
	place, err := prepare(ctx, m)
	if err != nil {
		return err
	}
	var runErr error
	for i := 0; i < len(all) && runErr == nil; i++ {
		runErr = cannot(trial.ValidateOn(ctx, trial.AllParts(), plans[i], place.Cluster))
		if runErr == nil {
			place, runErr = f.repeat(ctx, place, m, all[i], seed, i == len(all)-1, stderr)
		}
	}
	f.run.leave(ctx, place, f.command(all), stderr)
	if err := errors.Join(runErr, writeBatches(stdout, all, f.run.output)); err != nil {
		return err
	}
	return batchesExit(all)
}

// command runs the same cases again.
func (f *reproduceFlags) command(all []*batch) string {
	if f.caseFile != "" {
		command := "reproduce --case " + f.caseFile
		if f.run.workload != "" {
			command += " --workload " + f.run.workload
		}
		return command
	}
	command := "reproduce"
	for _, v := range all {
		command += " " + v.cases[0].Name
	}
	return command
}

// repeat runs a plan as often as asked; it stops at the first run that fails to execute. A plan that upgrades gets a
// new cluster each time: the returned place is the last one.
func (f *reproduceFlags) repeat(
	ctx context.Context, place *trial.Place, m trial.ClusterOptions, v *batch, seed uint64, last bool, stderr io.Writer,
) (*trial.Place, error) {
	runs := v.runsFor(f.times)
	for i := range runs {
		p := plan.Make(v.cases[0], seed+uint64(i))
		if i > 0 && len(p.Upgrades()) > 0 {
			if err := place.Leave(ctx); err != nil {
				return place, err
			}
			next, err := prepare(ctx, m)
			if err != nil {
				return place, err
			}
			place = next
		}
		out, err := f.run.trial(ctx, place, p, "", last && i == runs-1, stderr)
		if err != nil {
			return place, err
		}
		a := attempt{Seed: p.Seed, Report: out.Report, Dir: out.Dir.Path()}
		v.runs = append(v.runs, a)
		for _, c := range v.cases {
			say(stderr, "%s, run %d of %d: %s", c.Name, i+1, runs, a.line(c))
		}
		if out.Interrupted {
			return place, fmt.Errorf("interrupted after %d of %d runs of %s", len(v.runs), runs, p.Scenario)
		}
		if v.enough(f.times) {
			break
		}
	}
	return place, nil
}

// batch is a plan and the cases that share its runs.
type batch struct {
	cases []plan.Case
	runs  []attempt
}

func batches(all []plan.Case) []*batch {
	var out []*batch
	for _, c := range all {
		i := slices.IndexFunc(out, func(v *batch) bool { return samePlan(v.cases[0], c) })
		if i < 0 {
			out = append(out, &batch{})
			i = len(out) - 1
		}
		out[i].cases = append(out[i].cases, c)
	}
	return out
}

// runsFor returns the most runs needed to give every case so many attempts. A run of a race is one attempt.
func (v *batch) runsFor(attempts int) int {
	runs := 1
	for _, c := range v.cases {
		if c.Race {
			runs = max(runs, attempts)
		}
		runs = max(runs, (attempts+volumes(c)-1)/volumes(c))
	}
	return runs
}

// enough reports whether every case had so many attempts, and every race was reproduced at least once.
func (v *batch) enough(attempts int) bool {
	return !slices.ContainsFunc(v.cases, func(c plan.Case) bool {
		return len(v.runs)*volumes(c) < attempts || c.Race && v.good(c) == 0
	})
}

// good counts the volumes of all runs with the outcome that the case predicts.
func (v *batch) good(c plan.Case) int {
	sum := 0
	for _, a := range v.runs {
		sum += a.good(c)
	}
	return sum
}

// samePlan compares two plans without their names.
func samePlan(a, b plan.Case) bool {
	pa, pb := plan.Make(a, 1), plan.Make(b, 1)
	pb.Scenario = pa.Scenario
	return reflect.DeepEqual(pa, pb)
}

// attempt is the outcome of one run.
type attempt struct {
	Seed   uint64       `json:"seed"`
	Dir    string       `json:"dir"`
	Report check.Report `json:"report"`
}

// rate is how often a case had the outcome that it predicts.
type rate struct {
	Case    string    `json:"case"`
	Control bool      `json:"control"`
	Good    int       `json:"good"`
	Of      int       `json:"of"`
	Runs    []attempt `json:"runs"`
}

func volumes(c plan.Case) int { return max(1, c.Volumes) }

// good counts the volumes with the outcome that the case predicts. All checks of a control must pass; UNKNOWN shows
// nothing. With several volumes, only those that were checked one by one count.
func (a attempt) good(c plan.Case) int {
	switch {
	case !c.Control:
		return min(len(a.Report.Shows(c.Finding)), volumes(c))
	case a.Report.Holds(c) && volumes(c) > 1:
		return min(a.Report.Looked(c), volumes(c))
	case a.Report.Holds(c):
		return 1
	}
	return 0
}

func (a attempt) line(c plan.Case) string {
	shown := a.Report.Shows(c.Finding)
	if broken := a.Report.Broken(c); c.Control && len(shown) == 0 && len(broken) > 0 {
		return fmt.Sprintf("seed %d, verdict %s: the finding is absent, but these checks did not pass: %s (%s)", a.Seed,
			a.Report.Verdict, strings.Join(broken, ", "), a.Dir)
	}
	if len(shown) == 0 {
		return fmt.Sprintf("seed %d, verdict %s: the finding is absent (%s)", a.Seed, a.Report.Verdict, a.Dir)
	}
	more := ""
	if len(shown) > 1 {
		more = fmt.Sprintf(" And %d more.", len(shown)-1)
	}
	return fmt.Sprintf("seed %d, verdict %s: %s%s (%s)", a.Seed, a.Report.Verdict, shown[0].Sentence, more, a.Dir)
}

// writeBatches reports the runs of every case; the last line of each is its rate.
func writeBatches(w io.Writer, all []*batch, output string) error {
	var rates []rate
	var dirs []string
	var text strings.Builder
	for _, v := range all {
		for _, a := range v.runs {
			dirs = append(dirs, a.Dir)
		}
		for _, c := range v.cases {
			say(&text, "%s: %s\n%s", c.Name, cmp.Or(c.Report, "a case of yours"), cmp.Or(c.Summary, "No summary."))
			for i, a := range v.runs {
				say(&text, "  run %d: %s", i+1, a.line(c))
			}
			what := "reproduced"
			if c.Control {
				what = "prevented"
			}
			r := rate{c.Name, c.Control, v.good(c), len(v.runs) * volumes(c), v.runs}
			say(&text, "%s: %s %d of %d", c.Name, what, r.Good, r.Of)
			rates = append(rates, r)
		}
	}
	return writeAs(w, output, rates, dirs, written(w, &text))
}

// batchesExit is nil if every run had the predicted outcome, and every race was reproduced on at least one volume.
func batchesExit(all []*batch) error {
	verdicts := []check.Verdict{check.Pass}
	for _, v := range all {
		for _, c := range v.cases {
			for _, a := range v.runs {
				switch {
				case a.good(c) == volumes(c), c.Race && v.good(c) > 0:
				case a.Report.Verdict == check.Unknown:
					verdicts = append(verdicts, check.Unknown)
				default:
					verdicts = append(verdicts, check.Fail)
				}
			}
		}
	}
	return verdictExit(check.Worst(verdicts...))
}

func casesNamed(names []string) ([]plan.Case, error) {
	parts := trial.AllParts()
	var out []plan.Case
	for _, name := range names {
		c, ok := parts.Case(name)
		if !ok {
			return nil, badArguments("case %q is not known%s; see `seatrial list cases`", name,
				didYouMean(name, namesOf("cases")))
		}
		out = append(out, c)
	}
	return out, nil
}
