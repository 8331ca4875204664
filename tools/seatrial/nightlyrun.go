package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/nightly"
	"github.com/seatrial/seatrial/e2e/trial"
)

// nightRunner carries units out, one after another on one cluster as long as that has the right number of workers and
// is shown to be clean.
type nightRunner struct {
	options trial.ClusterOptions

	kubernetes string // The version of the night.
	flags      runFlags
	stderr     io.Writer

	place    *trial.Place
	making   time.Duration // How long the last cluster took, or one usually does.
	failed   int           // Clusters in a row that could not be made.
	trials   int
	clusters int
}

// ahead is how long a trial of the unit has to wait for its cluster.
func (n *nightRunner) ahead(u nightly.Unit) time.Duration {
	if n.fits(u) {
		return 0
	}
	return n.making
}

// fits reports whether there is a cluster with the workers, the version and the images to upgrade to of a unit.
func (n *nightRunner) fits(u nightly.Unit) bool {
	upgrades := u.Plan.Upgrades()
	return n.place != nil && n.options.Workers == u.Workers && n.options.KubernetesVersion == n.version(u) &&
		(len(upgrades) == 0 || slices.Equal(n.options.Upgrades, upgrades))
}

// version is that of the unit's cluster: the night's, unless its plan begins with another one.
func (n *nightRunner) version(u nightly.Unit) string { return cmp.Or(u.Plan.Kubernetes, n.kubernetes) }

// run carries a unit out once.
func (n *nightRunner) run(ctx context.Context, u nightly.Unit) (nightly.Attempt, error) {
	if err := n.flags.validate(u.Plan); err != nil {
		return nightly.Attempt{}, &nightly.CannotError{Why: "cannot be carried out here: " + err.Error()}
	}
	if !n.fits(u) {
		n.leave(ctx)
	}
	begin := time.Now()
	if n.place == nil {
		if err := n.make(ctx, u); err != nil {
			const most = 3
			if n.failed++; n.failed == most {
				return nightly.Attempt{}, fmt.Errorf("no cluster could be made %d times in a row: %w", most, err)
			}
			if ctx.Err() != nil {
				return nightly.Attempt{}, fmt.Errorf("%s, seed %d: %w", u.Name, u.Seed, err)
			}
			return lostAttempt("no cluster", err, "", begin, time.Since(begin)), nil
		}
		n.failed, n.making = 0, time.Since(begin)
		begin = time.Now()
	}
	var fields plan.FieldErrors
	if err := trial.ValidateOn(ctx, trial.AllParts(), u.Plan, n.place.Cluster); errors.As(err, &fields) {
		return nightly.Attempt{}, &nightly.CannotError{Why: "cannot be carried out here: " + err.Error()}
	}
	header := n.flags.header(u.Plan)
	header.Unit = u.ID
	out, err := n.place.Run(ctx, trial.RunOptions{
		Plan: u.Plan, RunsDir: n.flags.runs, Header: header, Progress: plainly{n.stderr},
		Debug: n.flags.level(),
	})
	n.trials++
	a, counts := outcomeOf(u, out, err, begin, time.Since(begin))
	if err != nil || !out.Clean || len(u.Plan.Upgrades()) > 0 {
		say(n.stderr, "the cluster is not shown to be as it was: the next trial gets a new one")
		n.leave(ctx)
	}
	if !counts {
		return a, fmt.Errorf("%s, seed %d was interrupted: %w", u.Name, u.Seed, errors.Join(context.Cause(ctx), err))
	}
	return a, nil
}

// outcomeOf returns the attempt that a trial is. One that was interrupted counts only if it is conclusive; of one whose
// harness failed only a FAIL is believed.
func outcomeOf(
	u nightly.Unit, out trial.Outcome, harness error, began time.Time, took time.Duration,
) (a nightly.Attempt, counts bool) {
	run, conclusive := "", false
	if out.Dir != nil {
		run = runOf(out.Dir)
		conclusive = nightly.Conclusive(u.Case, out.Report) && (harness == nil || out.Report.Verdict == check.Fail)
	}
	switch {
	case conclusive || harness == nil && !out.Interrupted:
		return attemptOf(u, out.Report, began, took, run), true
	case out.Interrupted:
		return a, false
	}
	return lostAttempt("the harness failed", harness, run, began, took), true
}

// lostAttempt is an attempt without a verdict of its own.
func lostAttempt(what string, err error, run string, began time.Time, took time.Duration) nightly.Attempt {
	return nightly.Attempt{
		Verdict: check.Unknown, Trial: check.Unknown, Why: fmt.Sprintf("%s: %v", what, err), Run: run,
		Started: began.UTC().Round(0), Seconds: took.Round(100 * time.Millisecond).Seconds(),
	}
}

// make makes a cluster for a unit. One of that name that is there was left by a process that was killed: nothing
// shows that it is clean, so it is deleted.
func (n *nightRunner) make(ctx context.Context, u nightly.Unit) error {
	if _, err := deleteClusters(ctx, n.options.ClusterName, false, n.stderr); err != nil {
		return err
	}
	n.options.Workers, n.options.KubernetesVersion = u.Workers, n.version(u)
	n.options.Upgrades = u.Plan.Upgrades()
	place, err := prepare(ctx, n.options)
	if err != nil {
		return err
	}
	n.place = place
	n.clusters++
	return nil
}

// leave deletes the cluster.
func (n *nightRunner) leave(ctx context.Context) {
	if n.place != nil {
		n.flags.leave(ctx, n.place, "", n.stderr)
		n.place = nil
	}
}
