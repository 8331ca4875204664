// Package trialtest runs trials inside a test suite of yours: on a kind cluster that it makes, or on one of yours. Its
// promise: Result.Err is nil for PASS only, and a cluster of yours is not touched unless Options names its context.
//
// It works with any test library. Setup, Finish, Passes and Judged are for sigs.k8s.io/e2e-framework; package
// ginkgotest is for Ginkgo. See examples/e2e-framework and examples/ginkgo.
package trialtest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/e2e-framework/klient/conf"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/e2e/trial"
)

// Options describe the trials of a suite and their cluster. Only Scenarios is required.
type Options struct {
	Scenarios []string // Names of scenarios and cases, see `seatrial list scenarios`.
	Workload  string   // File that describes a StatefulSet of yours (docs/workloads.md); empty for Seatrial's own.
	Seed      uint64   // Of the plans; 0 draws one. The same seed gives the same plans.

	Cluster string // Name of the kind cluster; "seatrial-test" when empty.
	Keep    bool   // Use the kind cluster of that name if it exists, and keep it.

	// Kubeconfig or Context select an existing cluster instead, which is never made or deleted.
	Kubeconfig string // "" for kubectl's own rules.
	Context    string // "" for the current one.
	YesContext string // Confirms that the cluster of this context may be broken; it must be that of the cluster.

	Runs     string    // Parent of the run directories; $ARTIFACTS/runs or runs when empty.
	Progress io.Writer // One line as each step begins and ends; nil discards them.
}

// existing reports whether an existing cluster is used.
func (o Options) existing() bool { return o.Kubeconfig != "" || o.Context != "" }

// Plans makes the plans of all scenarios and validates them. Nothing is touched, and no cluster is needed. The error
// names the field and the fix.
func (o Options) Plans() ([]plan.Plan, error) {
	if len(o.Scenarios) == 0 {
		return nil, errors.New("trialtest: Options.Scenarios is empty; see `seatrial list scenarios`")
	}
	seed := cmp.Or(o.Seed, 1+uint64(time.Now().UnixMilli()%999_999)) // Short enough to type.
	parts := trial.AllParts()
	var plans []plan.Plan
	for _, name := range o.Scenarios {
		scenario, ok := parts.Named(name)
		if !ok {
			return nil, fmt.Errorf("trialtest: Options.Scenarios: %q is not known%s", name, nearest(name, parts))
		}
		p := plan.Make(scenario, seed)
		if o.Workload != "" {
			data, err := os.ReadFile(o.Workload)
			if err == nil {
				p, err = trial.PutWorkload(parts, p, data, filepath.Dir(o.Workload))
			}
			if err != nil {
				return nil, fmt.Errorf("trialtest: Options.Workload %q with scenario %q: %w", o.Workload, name, err)
			}
		}
		if err := o.validate(parts, p); err != nil {
			return nil, fmt.Errorf("trialtest: the plan of %q is not legal: %w", name, err)
		}
		plans = append(plans, p)
	}
	return plans, nil
}

func (o Options) validate(parts trial.Parts, p plan.Plan) error {
	if o.existing() {
		return trial.ValidateExisting(parts, p, false)
	}
	return trial.ValidateHere(parts, p, o.Keep)
}

func nearest(name string, parts trial.Parts) string {
	var known []string
	for _, c := range parts.All() {
		known = append(known, c.Name)
	}
	if near, ok := plan.Nearest(name, known); ok {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; see `seatrial list scenarios`"
}

// Cluster is a cluster that is ready for the trials of a suite.
type Cluster struct {
	place   *trial.Place
	options Options
	plans   []plan.Plan // In the order of Options.Scenarios.
	others  bool        // The caller of On leaves the place.
}

// Open validates the plans of all scenarios, then makes what is missing: container engine, images, cluster. That takes
// a minute, and 30 minutes if images must be built. Close must follow.
func Open(ctx context.Context, o Options) (*Cluster, error) {
	plans, err := o.Plans()
	if err != nil {
		return nil, err
	}
	m := trial.OptionsFor(plans...)
	m.ClusterName, m.Reuse = cmp.Or(o.Cluster, "seatrial-test"), o.Keep
	m.KubernetesVersion, m.ImageSource = cmp.Or(plans[0].Kubernetes, offline.DefaultKubernetesVersion), "auto"
	m.Upgrades, m.Progress = plans[0].Upgrades(), o.progress()
	m.Log = slog.New(slog.NewTextHandler(m.Progress, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if o.existing() {
		if err := o.reach(ctx, &m, plans); err != nil {
			return nil, fmt.Errorf("trialtest: %w", err)
		}
	} else {
		engine, err := offline.Tool{Progress: m.Progress, Log: m.Log}.EnsureEngine(ctx)
		if err != nil {
			return nil, fmt.Errorf("trialtest: find a container engine: %w", err)
		}
		m.Engine = engine.Path
	}
	place, err := trial.Prepare(ctx, m)
	if err != nil {
		return nil, fmt.Errorf("trialtest: %w", err)
	}
	return &Cluster{place: place, options: o, plans: plans}, nil
}

// runsAtMost is how often the faults of each plan may be carried out on an existing cluster.
const runsAtMost = 100

// reach completes the options of an existing cluster. It only reads.
func (o Options) reach(ctx context.Context, m *trial.ClusterOptions, plans []plan.Plan) error {
	m.Access = &trial.Access{Kubeconfig: o.Kubeconfig, Log: m.Log}
	name, err := trial.ContextName(*m.Access, o.Context)
	if err != nil {
		return fmt.Errorf("Options.Kubeconfig, Options.Context: %w", err)
	}
	if o.YesContext != name {
		return fmt.Errorf("nothing was touched: Options.YesContext is %q, and the context is %q; set it to that name "+
			"if its cluster may be broken", o.YesContext, name)
	}
	m.ClusterName = name
	m.Bound(trial.AllParts(), runsAtMost, plans...)
	config, err := conf.NewWithContextName(cmp.Or(o.Kubeconfig, conf.ResolveKubeConfigFile()), name)
	if err != nil {
		return fmt.Errorf("read the kubeconfig of context %q: %w", name, err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a client of context %q: %w", name, err)
	}
	for _, p := range plans {
		if p.Workload.External == nil {
			continue
		}
		if _, err := exec.LookPath(p.Workload.External.Command[0]); err != nil {
			return fmt.Errorf("the data client of Options.Workload: %w", err)
		}
		if err := trial.LookAt(ctx, kube, p); err != nil {
			return fmt.Errorf("look at the workload of Options.Workload: %w", err)
		}
	}
	return nil
}

// On returns a Cluster on a place that the caller prepared and leaves; Close does nothing. Options that select a
// cluster are not used.
func On(place *trial.Place, o Options) (*Cluster, error) {
	plans, err := o.Plans()
	if err != nil {
		return nil, err
	}
	return &Cluster{place: place, options: o, plans: plans, others: true}, nil
}

func (o Options) progress() io.Writer {
	if o.Progress == nil {
		return io.Discard
	}
	return o.Progress
}

func (o Options) runs() string {
	if o.Runs != "" {
		return o.Runs
	}
	return filepath.Join(os.Getenv("ARTIFACTS"), "runs")
}

// ClientConfig returns the configuration of a client of the cluster.
func (c *Cluster) ClientConfig(ctx context.Context) (*rest.Config, error) {
	return c.place.ClientConfig(ctx)
}

// Status says in a few lines where the running trial stands; it is "" if none runs.
func (c *Cluster) Status() string { return c.place.Status() }

// Run runs a scenario of Options and judges it. The error says why there is no verdict; a verdict that is not PASS is
// no error: see Result.Err.
func (c *Cluster) Run(ctx context.Context, scenario string) (Result, error) {
	i := slices.Index(c.options.Scenarios, scenario)
	if i < 0 {
		return Result{}, fmt.Errorf("trialtest: run %q: it is not in Options.Scenarios", scenario)
	}
	p := c.plans[i]
	if err := trial.ValidateOn(ctx, trial.AllParts(), p, c.place.Cluster); err != nil {
		return Result{}, fmt.Errorf("trialtest: run %q: %w", scenario, err)
	}
	command := []string{"seatrial", "run", scenario, "--seed", fmt.Sprint(p.Seed)}
	if c.options.Workload != "" {
		command = append(command, "--workload", c.options.Workload)
	}
	out, err := c.place.Run(ctx, trial.RunOptions{
		Plan: p, RunsDir: c.options.runs(), Progress: c.options.progress(), Header: report.Run{CommandLine: command},
	})
	if err == nil && out.Interrupted && out.Report.Verdict != check.Fail {
		err = fmt.Errorf("interrupted; its record so far: %s", out.Dir.Path())
	}
	if err != nil {
		return Result{}, fmt.Errorf("trialtest: run %q: %w", scenario, err)
	}
	return Judge(out.Dir.Path())
}

// Close deletes the cluster if Open made it and it is not kept, and unlocks it. It ignores the end of ctx.
func (c *Cluster) Close(ctx context.Context) error {
	switch {
	case c.others:
		return nil
	case c.options.Keep:
		return c.place.Release(ctx)
	}
	return c.place.Leave(ctx)
}

// Result is the judgement of a run.
type Result struct {
	check.Report        // Verdict, and the result of each check.
	Dir          string // The run directory; report.html there shows the run.
	Text         string // The report.
}

// Err is nil if the verdict is PASS. Otherwise its text is the report, which ends with the verdict, the reason, and the
// command that repeats the plan.
func (r Result) Err() error {
	if r.Verdict == check.Pass {
		return nil
	}
	return fmt.Errorf("trial %s: %s\n%s", r.Dir, cmp.Or(r.Verdict, check.Unknown), strings.TrimRight(r.Text, "\n"))
}

// Judge judges a saved run again. It needs no cluster and writes nothing.
func Judge(dir string) (Result, error) {
	run, err := rundir.Open(dir)
	if err != nil {
		return Result{}, fmt.Errorf("trialtest: %w", err)
	}
	judged, err := trial.Judge(run, trial.AllParts().Checks)
	if err != nil {
		return Result{}, fmt.Errorf("trialtest: judge %q: %w", dir, err)
	}
	var text bytes.Buffer
	if err := report.WriteText(&text, judged, report.Options{}); err != nil {
		return Result{}, fmt.Errorf("trialtest: judge %q: %w", dir, err)
	}
	return Result{Report: judged.Report, Dir: dir, Text: text.String()}, nil
}
