// Package trial is the main path: a plan, carried out once on one cluster, recorded, and judged from disk. The
// command line and the Ginkgo specs both call it.
//
// It imports everything below it; registry.go alone names the concrete faults, workloads, checks and scenarios.
package trial

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/observe/apiwatch"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/fixtures"
)

// Outcome is the result of a trial. Report is the judgement of the run directory. Interrupted is set if the context
// ended before the plan. Clean is set if the cluster is as it was: the workload and its volumes are removed, and check
// residue-audit passed.
type Outcome struct {
	Dir         *rundir.Dir
	Report      check.Report
	Interrupted bool
	Clean       bool
}

// Bounds of the phases after the plan, when the trial's context may have ended.
const (
	healBound     = time.Minute
	removeBound   = 2 * time.Minute
	evidenceBound = 2 * time.Minute
	drainBound    = 30 * time.Second
)

// RunOptions describe one trial.
type RunOptions struct {
	Plan     plan.Plan
	RunsDir  string     // The run directory is made below it.
	Header   report.Run // Command line and commit; Run fills in the rest.
	Progress io.Writer  // One line for each begin and end.
	Debug    slog.Level
	Last     bool // Leave is next: the workload may stay, if the cluster is deleted then.
	Events   bool // Record faults as Kubernetes Events, see announcer.
}

type runner struct {
	RunOptions
	*Place

	RunID      string // Owner mark of everything the trial makes; see NewRunID.
	Parts      Parts
	Watchdog   undo.Watchdog // Undoes what no node can, when the harness cannot.
	dir        *rundir.Dir
	rec        *feed
	log        *slog.Logger
	logFile    *os.File
	kube       kubernetes.Interface
	dynamic    dynamic.Interface
	nodes      []clusters.Node
	storage    fixtures.Storage
	workload   fixtures.Workload
	data       fixtures.Data // Of the workload, nil without.
	tailer     *nodefacts.Tailer
	api        *apiwatch.Watcher
	watches    []func() // End what is asked again and again.
	journal    *os.File
	before     []history.Event // Leak scans before the first fault.
	began      history.Time
	stepsBegan history.Time           // When the first step of the plan began.
	revision   atomic.Pointer[string] // The revision of the pod template that was requested last.
	active     activeFaults
	removed    bool // Workload and volumes.
	open       openPhases
}

// Run carries out a plan and judges the record: start the observers, deploy the workload, show the steady state, run
// the steps under load, heal, settle, read everything back, keep evidence, close the history, judge from disk. A trial
// that was cut short is not an error: its verdict says so, even if the disk was full. An error means that the
// cluster's kubeconfig could not be read, or that the run directory could not be written or read; Outcome.Dir is set if
// there is one.
func (p *Place) Run(ctx context.Context, o RunOptions) (Outcome, error) {
	kubeconfig, err := p.Cluster.Kubeconfig(ctx)
	if err != nil {
		return Outcome{}, fmt.Errorf("read kubeconfig of cluster %q: %w", p.Cluster.Name(), err)
	}
	c, err := p.begin(o, kubeconfig)
	if err != nil {
		return Outcome{}, err
	}
	p.running.Store(c)
	defer p.running.Store(nil)
	runErr := c.carryOut(ctx)
	if runErr != nil {
		c.log.Error("the trial was cut short", "err", runErr)
		fmt.Fprintf(c.Progress, "  the trial was cut short: %v\n", runErr)
	}
	endErr := c.end(ctx)
	out := Outcome{Dir: c.dir, Interrupted: ctx.Err() != nil}
	var judged sync.WaitGroup
	judged.Go(func() { out.Report, err = JudgeAndWrite(c.dir, c.Parts.Checks) })
	c.remove(context.WithoutCancel(ctx))
	judged.Wait()
	endErr = errors.Join(endErr, c.logFile.Close())
	err = errors.Join(err, c.dir.WriteJSON(rundir.ProwEnd,
		c.Header.ProwFinished(out.Report.Verdict, time.Now(),
			out.Interrupted || errors.Join(runErr, endErr, err) != nil)))
	out.Clean = c.removed && out.Report.Of(check.ResidueAudit().Name).Verdict == check.Pass
	if c.Header.CutShort != "" && out.Report.Verdict == check.Pass { // The verdict may not be on disk.
		err = errors.Join(err, errors.New(c.Header.CutShort))
	}
	return out, errors.Join(err, endErr)
}

// carryOut runs all phases, from the first observer to the last inspection.
func (c *runner) carryOut(ctx context.Context) error {
	if err := c.phase(ctx, history.PhaseSetup, "observers on, workload made", c.setUp); err != nil {
		return err
	}
	steady := func(ctx context.Context) error {
		if err := c.workload.StartLoad(ctx); err != nil {
			return err
		}
		err := c.workload.Settle(ctx)
		c.scanBefore(ctx)
		return err
	}
	if err := c.phase(ctx, history.PhaseSteady, "every instance ready and writable", steady); err != nil {
		return errors.Join(err, c.stopLoad(ctx))
	}
	stepsErr := c.phase(ctx, history.PhaseLoad, "the plan's steps, under load", c.steps)
	// Heal and read back even if a step failed: the proof of a violation may be there.
	healErr := c.heal(ctx)
	settleErr := c.phase(ctx, history.PhaseSettle, "ready and writable again", c.workload.Settle)
	stopErr := c.stopLoad(ctx)
	auditErr := c.phase(ctx, history.PhaseAudit, "every row read back", c.workload.Audit)
	c.scanAfter(ctx)
	// If an instance does not stop, the file systems that are still mounted are skipped.
	endErr := c.phase(ctx, history.PhaseEnd, "ended, and every file system and data file looked over",
		func(ctx context.Context) error { return c.storage.Inspect(ctx, c.workload.End) })
	return errors.Join(stepsErr, healErr, settleErr, stopErr, auditErr, endErr)
}

// heal ignores the end of ctx: a fault must not outlive an interrupted trial.
func (c *runner) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healBound)
	defer cancel()
	return c.phase(ctx, history.PhaseHeal, "no fault left on any node", c.healAll)
}

// begin makes the run directory and writes what is known before anything is touched.
func (p *Place) begin(o RunOptions, kubeconfig []byte) (c *runner, err error) {
	now := time.Now()
	watchdogs, err := undo.WatchdogDir()
	if err != nil {
		return nil, err
	}
	o.Plan.Audit, o.Plan.DataFiles = true, true
	o.Last = o.Last && p.ours
	o.Progress = &lockedWriter{w: o.Progress}
	o.Header.Schema = report.RunSchemaVersion
	o.Header.RunID = NewRunID(now)
	o.Header.Started = now.UTC()
	o.Header.Scenario, o.Header.Seed = o.Plan.Scenario, o.Plan.Seed
	o.Header.NodeImageSource = p.images.Source
	o.Header.Versions = versionsOf(p.images)
	o.Header.Host = hostFacts(p.options.Engine)
	hook := "" // The program that has power over the nodes of an existing cluster.
	if p.options.Access != nil {
		hook = p.options.Access.NodeHook
	}
	c = &runner{
		RunOptions: o, Place: p, RunID: o.Header.RunID, Parts: AllParts(),
		Watchdog: undo.HostWatchdog{
			Argv: []string{p.Program, OutsideCommand}, Dir: watchdogs, Engine: p.options.Engine, Hook: hook,
			Cluster: p.options.ClusterName, Kubeconfig: kubeconfig,
		},
	}
	if c.dir, err = rundir.Create(o.RunsDir, o.Plan.Scenario, o.Plan.Seed, now); err != nil {
		return nil, err
	}
	err = errors.Join(c.dir.WriteJSON(rundir.RunFile, o.Header), c.dir.WriteJSON(rundir.PlanFile, o.Plan),
		c.dir.WriteJSON(rundir.ProwStart, o.Header.ProwStarted()))
	if err != nil {
		return nil, errors.Join(err, c.dir.Discard())
	}
	if c.logFile, err = c.dir.OpenAppend(rundir.LogFile); err != nil {
		return nil, err
	}
	c.log = slog.New(slog.NewJSONHandler(c.logFile, &slog.HandlerOptions{Level: o.Debug}))
	rec, err := c.dir.RecordHistory()
	if err != nil {
		return nil, errors.Join(err, c.logFile.Close())
	}
	c.rec, c.began = newFeed(rec, o.Plan), bootclock.Now()
	if c.journal, err = c.dir.OpenAppend(rundir.JournalFile); err != nil {
		return nil, errors.Join(err, c.logFile.Close(), rec.Close())
	}
	if err := c.recordPlan(); err != nil {
		return nil, errors.Join(err, c.logFile.Close(), rec.Close(), c.journal.Close())
	}
	fmt.Fprintf(c.Progress, "run directory: %s\n", c.dir.Path())
	return c, nil
}

// end keeps the evidence and closes the history. It ignores the end of ctx.
func (c *runner) end(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	c.rec.events.stop()
	var kept sync.WaitGroup
	kept.Go(func() { c.bounded(ctx, evidenceBound, "keep evidence", c.keepEvidence) })
	c.stopObservers(ctx)
	c.record(history.KindPhase, history.At(bootclock.Now()), func(e *history.Event) {
		e.Phase = &history.Phase{Name: history.PhaseDone, End: true}
	})
	kept.Wait()
	return c.closeRecord()
}

func (c *runner) remove(ctx context.Context) {
	if c.workload == nil || c.Last {
		return
	}
	begin := bootclock.Now()
	removed := c.bounded(ctx, removeBound, "remove workload", c.workload.Remove)
	c.removed = c.bounded(ctx, removeBound, "remove volumes", c.storage.Remove) && removed
	if c.removed {
		end := bootclock.Now()
		fmt.Fprintf(c.Progress, "%8s  no pod, claim or volume of the trial is left, after %.1f s\n",
			c.sinceBegin(end), end.Sub(begin).Seconds())
	}
}

// closeRecord closes history and journal. If the record is truncated, run.json gets the reason: the disk may have been
// full, and reserved space is freed for that and for the verdict.
func (c *runner) closeRecord() error {
	broken := errors.Join(c.rec.Close(), c.journal.Close())
	freed := c.dir.FreeReserve()
	if broken == nil {
		return freed
	}
	c.Header.CutShort = strings.ReplaceAll(broken.Error(), "\n", "; ")
	fmt.Fprintf(c.Progress, "  the record of the trial is truncated: %s\n", c.Header.CutShort)
	if err := errors.Join(freed, c.dir.WriteJSON(rundir.RunFile, c.Header)); err != nil {
		return errors.Join(broken, err)
	}
	return nil
}

// bounded does something that must not stop the end of the trial: it prints and logs an error, and reports success.
func (c *runner) bounded(ctx context.Context, bound time.Duration, what string, do func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := do(ctx)
	if err != nil {
		c.log.Error(what, "err", err)
		fmt.Fprintf(c.Progress, "  could not %s: %v\n", what, err)
	}
	return err == nil
}

func (c *runner) phase(
	ctx context.Context, name history.PhaseName, what string, do func(context.Context) error,
) error {
	return c.recorded(ctx, history.Phase{Name: name, Detail: what}, do)
}

// recorded runs a phase or a step, and records and prints its begin and end.
func (c *runner) recorded(ctx context.Context, p history.Phase, do func(context.Context) error) error {
	begin := bootclock.Now()
	c.record(history.KindPhase, history.At(begin), func(e *history.Event) { e.Phase = &p })
	label := string(p.Name)
	if p.Step > 0 {
		label = fmt.Sprintf("step %d", p.Step)
	}
	fmt.Fprintf(c.Progress, "%8s  %-8s %s\n", c.sinceBegin(begin), label, p.Detail)
	closed := c.open.add(openPhase{what: label + ": " + p.Detail, since: begin})
	err := ctx.Err()
	if err == nil {
		err = do(ctx)
	}
	closed()
	if err == nil {
		err = c.rec.Err() // Without a record the rest of the trial is pointless.
	}
	end := bootclock.Now()
	last := p
	last.End = true
	if err != nil {
		err = fmt.Errorf("%s: %w", label, err)
		last.Error = err.Error()
	}
	c.record(history.KindPhase, history.At(end), func(e *history.Event) { e.Phase = &last })
	c.log.Info("phase", "name", label, "what", p.Detail, "took", end.Sub(begin), "err", last.Error)
	state := "done"
	if err != nil {
		state = "FAILED"
	}
	fmt.Fprintf(c.Progress, "%8s  %-8s %s after %.1f s\n", c.sinceBegin(end), label, state, end.Sub(begin).Seconds())
	return err
}

func (c *runner) sinceBegin(t history.Time) string {
	return fmt.Sprintf("%.1f s", t.Sub(c.began).Round(100*time.Millisecond).Seconds())
}

func (c *runner) record(kind history.Kind, span history.Span, fill func(*history.Event)) {
	e := history.Event{Kind: kind, Source: "trial", Span: span}
	fill(&e)
	c.rec.Record(e)
}

// recordPlan makes the plan the first fact: the history is the only input of the checks.
func (c *runner) recordPlan() error {
	raw, err := json.Marshal(c.Plan)
	if err != nil {
		return fmt.Errorf("encode plan: %w", err)
	}
	c.record(history.KindPlan, history.At(c.began), func(e *history.Event) { e.Plan = raw })
	return c.rec.Err()
}
