package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/fixtures"
)

// Request is one trial to be carried out on a cluster that is ready.
type Request struct {
	Parts    Parts
	Plan     plan.Plan
	RunID    string // Owner mark of all that the trial makes; see NewRunID.
	Cluster  clusters.Cluster
	Image    string        // Reference of the database image, present on every node.
	Agent    string        // Path of the node agent's binary.
	Watchdog undo.Watchdog // Brings back nodes that faults take away, when the harness cannot.
	CacheDir string        // Where builds are kept; below the user's cache directory when empty.
	RunsDir  string        // The run directory is made below it.
	Header   report.Run
	Progress io.Writer // One line for each thing that begins and ends.
	Last     bool      // The cluster is deleted right after: the workload need not be removed from it.
	Debug    slog.Level
}

// Outcome is what a trial came to. Report is the judgement of what is on disk; Interrupted is set when the context
// ended before the plan did.
type Outcome struct {
	Dir         *rundir.Dir
	Report      check.Report
	Interrupted bool
}

// The bounds of what comes after the plan. Each is of its own: the trial's context may have ended by then.
const (
	healBound     = time.Minute
	removeBound   = 2 * time.Minute
	evidenceBound = 2 * time.Minute
	drainBound    = 30 * time.Second
)

// carrier is one trial on its way.
type carrier struct {
	Request
	dir      *rundir.Dir
	rec      *feed
	log      *slog.Logger
	logFile  *os.File
	kube     kubernetes.Interface
	nodes    []clusters.Node
	storage  fixtures.Storage
	workload fixtures.Workload
	watchers *watchers
	journal  *os.File
	before   []history.Event // The looks for residue before anything was hurt.
	began    history.Time
	sailed   history.Time           // When the first step of the plan began.
	revision atomic.Pointer[string] // Of the pod template: the name that was last asked for.
	hands    hands
}

// Execute carries a plan out and judges the record: observers on, workload made, steady state shown, steps carried out
// under load, everything healed, settled and read back, evidence kept, history closed, verdict from disk. A trial that
// could not go its whole way is not an error: its verdict says so, also when the disk was full. An error is a run
// directory in which not even that could be written, or that could not be read; Outcome.Dir is set if there is one.
func Execute(ctx context.Context, req Request) (Outcome, error) {
	c, err := begin(req)
	if err != nil {
		return Outcome{}, err
	}
	wayErr := c.goTheWay(ctx)
	if wayErr != nil {
		c.log.Error("trial did not go its whole way", "err", wayErr)
		fmt.Fprintf(c.Progress, "  the trial was cut short: %v\n", wayErr)
	}
	endErr := c.end(ctx)
	out := Outcome{Dir: c.dir, Interrupted: ctx.Err() != nil}
	out.Report, err = JudgeAndWrite(c.dir, req.Parts.Checks)
	if c.Header.CutShort != "" && out.Report.Verdict == check.Pass { // What there is may not be there for long.
		err = errors.Join(err, errors.New(c.Header.CutShort))
	}
	return out, errors.Join(err, endErr)
}

// goTheWay is the trial from the first observer to the last look.
func (c *carrier) goTheWay(ctx context.Context) error {
	if err := c.phase(ctx, history.PhaseSetup, "observers on, workload made", c.setUp); err != nil {
		return err
	}
	steady := func(ctx context.Context) error {
		if err := c.workload.StartLoad(ctx); err != nil {
			return err
		}
		err := c.workload.Settle(ctx)
		c.lookBefore(ctx)
		return err
	}
	if err := c.phase(ctx, history.PhaseSteady, "every instance ready and writable", steady); err != nil {
		return errors.Join(err, c.stopLoad(ctx))
	}
	stepsErr := c.phase(ctx, history.PhaseLoad, "the plan's steps, under load", c.steps)
	// What was hurt is healed and read back although a step went wrong: the proof of a violation may be in it.
	healErr := c.heal(ctx)
	settleErr := c.phase(ctx, history.PhaseSettle, "ready and writable again", c.workload.Settle)
	stopErr := c.stopLoad(ctx)
	auditErr := c.phase(ctx, history.PhaseAudit, "every row read back", c.workload.Audit)
	c.lookAfter(ctx)
	endErr := c.phase(ctx, history.PhaseEnd, "ended, and every file system and data file looked over", c.inspect)
	return errors.Join(stepsErr, healErr, settleErr, stopErr, auditErr, endErr)
}

// inspect ends the instances and has the file systems that they leave looked over. Of instances that do not end, those
// are looked over which nobody has mounted.
func (c *carrier) inspect(ctx context.Context) error {
	return errors.Join(c.workload.End(ctx), c.storage.Inspect(ctx))
}

// heal heals although ctx has ended: a fault must not outlive the trial that was given up.
func (c *carrier) heal(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healBound)
	defer cancel()
	return c.phase(ctx, history.PhaseHeal, "nothing of ours left on any node", c.healAll)
}

// begin makes the run directory and everything in it that is known before anything is touched.
func begin(req Request) (*carrier, error) {
	req.Plan.Audit, req.Plan.DataFiles = true, true
	dir, err := rundir.Create(req.RunsDir, req.Plan.Scenario, req.Plan.Seed, time.Now())
	if err != nil {
		return nil, err
	}
	err = errors.Join(dir.WriteJSON(rundir.RunFile, req.Header), dir.WriteJSON(rundir.PlanFile, req.Plan))
	if err != nil {
		return nil, err
	}
	logFile, err := dir.OpenAppend(rundir.LogFile)
	if err != nil {
		return nil, err
	}
	rec, err := dir.RecordHistory()
	if err != nil {
		return nil, errors.Join(err, logFile.Close())
	}
	journal, err := dir.OpenAppend(rundir.JournalFile)
	if err != nil {
		return nil, errors.Join(err, logFile.Close(), rec.Close())
	}
	c := &carrier{Request: req, dir: dir, rec: newFeed(rec, req.Plan), logFile: logFile, journal: journal,
		began: bootclock.Now()}
	c.Progress = &oneByOne{w: req.Progress}
	c.log = slog.New(slog.NewJSONHandler(logFile, &slog.HandlerOptions{Level: req.Debug}))
	if err := c.recordPlan(); err != nil {
		return nil, errors.Join(err, logFile.Close(), rec.Close(), journal.Close())
	}
	fmt.Fprintf(c.Progress, "run directory: %s\n", dir.Path())
	return c, nil
}

// end keeps the evidence, removes what the trial made, and closes the history. It works although ctx has ended.
func (c *carrier) end(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	c.bounded(ctx, evidenceBound, "keep evidence", c.keepEvidence)
	c.bounded(ctx, drainBound, "stop observers", c.stopObservers)
	c.record(history.KindPhase, history.At(bootclock.Now()), func(e *history.Event) {
		e.Phase = &history.Phase{Name: history.PhaseDone, End: true}
	})
	closeErr := c.closeRecord()
	if c.workload != nil && !c.Last {
		begin := bootclock.Now()
		removed := c.bounded(ctx, removeBound, "remove workload", c.workload.Remove)
		if c.bounded(ctx, removeBound, "remove volumes", c.storage.Remove) && removed {
			end := bootclock.Now()
			fmt.Fprintf(c.Progress, "%8s  no pod, claim or volume of the trial is left, after %.1f s\n",
				c.sinceBegin(end), end.Sub(begin).Seconds())
		}
	}
	return errors.Join(closeErr, c.logFile.Close())
}

// closeRecord closes history and journal. Why the record broke off, if it did, is told in run.json: the history has no
// room for it. The room that was kept is for that and for what comes of the judgement.
func (c *carrier) closeRecord() error {
	broken := errors.Join(c.rec.Close(), c.journal.Close())
	freed := c.dir.FreeReserve()
	if broken == nil {
		return freed
	}
	c.Header.CutShort = strings.ReplaceAll(broken.Error(), "\n", "; ")
	fmt.Fprintf(c.Progress, "  the record of the trial broke off: %s\n", c.Header.CutShort)
	if err := errors.Join(freed, c.dir.WriteJSON(rundir.RunFile, c.Header)); err != nil {
		return errors.Join(broken, err)
	}
	return nil
}

// bounded does something that must not keep the trial from its end: an error is told and recorded, not returned. It
// reports whether there was none.
func (c *carrier) bounded(ctx context.Context, bound time.Duration, what string, do func(context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	err := do(ctx)
	if err != nil {
		c.log.Error(what, "err", err)
		fmt.Fprintf(c.Progress, "  could not %s: %v\n", what, err)
	}
	return err == nil
}
