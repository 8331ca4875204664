package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/lock"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

type runFlags struct {
	cluster  clusterFlags
	seed     uint64
	planFile string
	workload string
	runs     string
	output   string
	keep     bool
	verbose  bool
	events   bool

	ran func(*rundir.Dir) error // Called after the trial with its run directory, unless nil.
}

func newRun() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run SCENARIO | --plan FILE",
		Short: "Run a scenario on a real cluster and judge it",
		Long: `Run makes what is missing (container engine, images, cluster), executes the plan, judges the record and
deletes the cluster unless --keep is given. The exit code is the verdict: 0 PASS, 1 FAIL, 2 UNKNOWN.
With --kubeconfig or --context it uses an existing cluster and does not delete it; it prints the plan and which nodes
and pods it touches, for how long and how that is undone, and touches nothing unless --yes-context names that context.`,
		Example: "  seatrial run smoke\n  seatrial run smoke --seed 42 --keep\n  seatrial run --plan plan.json\n" +
			"  seatrial run smoke --workload workload.yaml --kubeconfig ~/.kube/config",
		Args: atMost("SCENARIO"),

		ValidArgsFunction: complete("scenarios", "cases"),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := f.plan(args)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), p, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	seedFlag(cmd, &f.seed)
	f.register(cmd)
	f.registerWorkload(cmd)
	cmd.Flags().StringVar(&f.planFile, "plan", "", "run the plan, or the Chaos Mesh manifests, in this file")
	return cmd
}

// register adds the flags of all commands that run plans.
func (f *runFlags) register(cmd *cobra.Command) {
	f.cluster.register(cmd)
	cmd.Flags().StringVar(&f.runs, "runs", defaultRunsDir(),
		"parent of the run directories ($ARTIFACTS/runs if that is set)")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "keep the cluster; --reuse uses it again")
	cmd.Flags().BoolVarP(&f.verbose, "verbose", "v", false, "write debug detail to harness.log")
	f.registerEvents(cmd)
	outputFlag(cmd, &f.output, "run directories")
}

func (f *runFlags) registerWorkload(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.workload, "workload", "",
		"try the StatefulSet of yours that this file describes, see docs/workloads.md")
}

func (f *runFlags) registerEvents(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.events, "events", false,
		"record faults as Kubernetes Events of the nodes and pods that they hurt")
}

// defaultRunsDir honours $ARTIFACTS, as Prow and others set it.
func defaultRunsDir() string {
	if dir := os.Getenv("ARTIFACTS"); dir != "" {
		return dir + "/runs"
	}
	return "runs"
}

// plan makes or reads the plan; it touches nothing.
func (f *runFlags) plan(args []string) (plan.Plan, error) {
	switch {
	case f.planFile == "" && len(args) == 0:
		return plan.Plan{}, badArguments("SCENARIO is missing; see `seatrial list scenarios`")
	case f.planFile != "" && len(args) > 0:
		return plan.Plan{}, badArguments("--plan contains scenario and seed; give it alone")
	}
	var p plan.Plan
	var err error
	if f.planFile == "" {
		p, err = makePlan(args[0], f.seed)
	} else {
		p, err = readPlan(f.planFile, f.seed)
	}
	if err != nil || f.workload == "" {
		return p, err
	}
	return putWorkload(p, f.workload)
}

func (f *runFlags) run(ctx context.Context, p plan.Plan, stdout, stderr io.Writer) error {
	if err := f.validate(p); err != nil {
		return f.illegal(err)
	}
	if err := f.check(); err != nil {
		return err
	}
	if err := p.Render(stderr); err != nil {
		return fmt.Errorf("print plan: %w", err)
	}
	if f.cluster.access.given() {
		if err := writeTouched(ctx, plainly{stderr}, p, f.cluster.access); err != nil {
			return err
		}
	}
	m, err := f.cluster.options(ctx, stderr, p)
	if err != nil {
		return err
	}
	if err := f.lookAt(ctx, p); err != nil {
		return err
	}
	place, err := prepare(ctx, m)
	if err != nil {
		return err
	}
	if err := trial.ValidateOn(ctx, trial.AllParts(), p, place.Cluster); err != nil {
		f.leave(ctx, place, "run "+p.Scenario, stderr)
		return cannot(err)
	}
	out, err := f.trial(ctx, place, p, "", true, stderr)
	f.leave(ctx, place, "run "+p.Scenario, stderr)
	if f.ran != nil && out.Dir != nil {
		if err := f.ran(out.Dir); err != nil {
			say(stderr, "error: %s", visible(err.Error()))
		}
	}
	if err != nil {
		return f.concludeHurt(out, err, stdout, stderr)
	}
	return f.conclude(out, stdout)
}

// check holds the flags against each other, and looks whether a run can be kept, before a plan is shown.
func (f *runFlags) check() error {
	if err := f.cluster.check(); err != nil {
		return err
	}
	return folderToWrite("--runs", f.runs)
}

// validate returns an error for a plan that the cluster of the flags cannot carry out. Nothing is touched.
func (f *runFlags) validate(p plan.Plan) error {
	parts := trial.AllParts()
	if f.cluster.access.given() {
		return trial.ValidateExisting(parts, p, f.cluster.access.nodeHook != "")
	}
	return trial.ValidateHere(parts, p, f.cluster.reuse)
}

// lookAt compares an existing cluster, and an external workload on it, with the plan before anything is put there.
func (f *runFlags) lookAt(ctx context.Context, p plan.Plan) error {
	if x := p.Workload.External; x != nil {
		if _, err := exec.LookPath(x.Command[0]); err != nil {
			return badArguments("the plan cannot be carried out:\n  workload.external.command[0]: %w; name a program",
				err)
		}
	}
	if !f.cluster.access.given() {
		return nil
	}
	kube, err := f.cluster.access.client()
	if err != nil {
		return err
	}
	err = trial.Steady(ctx, kube, p, f.cluster.yes,
		trial.Access{FaultNodes: f.cluster.faultNodes, NodeSelector: f.cluster.access.nodes})
	if _, taken := errors.AsType[*lock.TakenError](err); taken {
		return badArguments("nothing was touched: %w", err)
	}
	if err == nil {
		err = trial.LookAt(ctx, kube, p)
	}
	return cannot(err)
}

// writeTouched writes what a plan touches, on the existing cluster that is named, if one is. It only reads: a cluster
// that cannot be read is no error.
func writeTouched(ctx context.Context, w io.Writer, p plan.Plan, a accessFlags) error {
	var at *trial.Surroundings
	if a.given() {
		kube, err := a.client()
		if err != nil {
			return err
		}
		if at, err = trial.ReadSurroundings(ctx, kube, a.nodes); err != nil {
			say(w, "  the cluster was not read: %v", err)
		}
	}
	return trial.WriteTouched(w, trial.AllParts(), p, at)
}

// cannot turns errors of fields of a plan into bad arguments.
func cannot(err error) error {
	if _, ok := errors.AsType[plan.FieldErrors](err); ok {
		return illegal("the plan cannot be carried out:", err)
	}
	return err // The cluster could not be asked, or there is no error.
}

// concludeHurt reports a trial whose harness failed. It is judged anyway, but never succeeds.
func (f *runFlags) concludeHurt(out trial.Outcome, hurt error, stdout, stderr io.Writer) error {
	if out.Dir == nil {
		return hurt
	}
	err := f.conclude(out, stdout)
	if exit, ok := errors.AsType[*exitError](err); ok && exit.err == nil {
		say(stderr, "error: %s", visible(hurt.Error()))
		return err
	}
	return hurt
}

// leave deletes the cluster, or says how to reuse it.
func (f *runFlags) leave(ctx context.Context, place *trial.Place, command string, stderr io.Writer) {
	name := place.Cluster.Name()
	if f.keep && !f.cluster.access.given() {
		if err := place.Release(ctx); err != nil {
			say(stderr, "the cluster stays locked for up to a minute: %v", err)
		}
		say(stderr, "cluster %s is kept; `seatrial %s --cluster %s --reuse` reuses it, "+
			"`seatrial clean --cluster %s` deletes it", name, command, name, name)
		if file := place.Kubeconfig(); file != "" {
			say(stderr, "to look at it: kubectl --kubeconfig %s --context kind-%s get pods -A", file, name)
		}
	} else if err := place.Leave(ctx); err != nil {
		say(stderr, "could not leave the cluster: %v; `seatrial clean` tries again", err)
	}
}

// conclude prints the report, whose text ends with the verdict, and returns its exit code.
func (f *runFlags) conclude(out trial.Outcome, stdout io.Writer) error {
	j, err := trial.Judge(out.Dir, trial.AllParts().Checks)
	if err != nil {
		return err
	}
	if f.output == "text" {
		err = tellGitHub(j, stdout, os.Getenv)
	}
	if err := errors.Join(err, writeJudged(stdout, j, out.Dir.Path(), f.output, false)); err != nil {
		return err
	}
	if out.Interrupted && j.Report.Verdict != check.Fail {
		err := fmt.Errorf("the trial was interrupted; its record so far: %s", out.Dir.Path())
		return &exitError{code: exitHarness, err: err}
	}
	return verdictExit(j.Report.Verdict)
}

// tellGitHub adds the summary of a run to the page of a job of GitHub Actions, and a note for each check that failed.
// Elsewhere it does nothing.
func tellGitHub(j report.Judged, stdout io.Writer, getenv func(string) string) error {
	if getenv("GITHUB_ACTIONS") != "true" {
		return nil
	}
	// Text and properties are escaped differently (actions/toolkit, packages/core/src/command.ts).
	text := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	for _, r := range j.Report.Results {
		if len(r.Findings) > 0 {
			fmt.Fprintf(stdout, "::error title=%s::%s\n", property.Replace("Seatrial: "+r.Check),
				text.Replace(visible(r.Findings[0].Sentence)))
		}
	}
	name := getenv("GITHUB_STEP_SUMMARY")
	if name == "" {
		return nil
	}
	var summary bytes.Buffer
	if err := report.WriteSummary(&summary, j); err != nil {
		return err
	}
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the summary of the job: %w", err)
	}
	_, err = fmt.Fprintf(file, "```text\n%s```\n", strings.ReplaceAll(summary.String(), "```", "` ` `"))
	return errors.Join(err, file.Close())
}

// trial runs a plan. Unit is that of a night, and empty elsewhere; last says that the cluster is left next.
func (f *runFlags) trial(
	ctx context.Context, place *trial.Place, p plan.Plan, unit string, last bool, stderr io.Writer,
) (trial.Outcome, error) {
	b := readBuild()
	o := trial.RunOptions{
		Plan: p, RunsDir: f.runs, Progress: plainly{stderr}, Last: last && !f.keep, Events: f.events,
		Header: report.Run{CommandLine: os.Args, Commit: b.Commit, Dirty: b.Dirty, Scenario: p.Scenario, Seed: p.Seed,
			Unit: unit},
	}
	if f.verbose {
		o.Debug = slog.LevelDebug
	}
	if n, ok := stderr.(*narrator); ok {
		n.expect(nightly.Estimate(p))
		defer n.expect(0)
	}
	return place.Run(ctx, o)
}
