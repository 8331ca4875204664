package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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

// fits tells whether there is a cluster with the workers and the version that a unit wants.
func (n *nightRunner) fits(u nightly.Unit) bool {
	return n.place != nil && n.options.Workers == u.Workers && n.options.KubernetesVersion == n.version(u)
}

// version is that of the unit's cluster: the night's, unless its plan begins with another one.
func (n *nightRunner) version(u nightly.Unit) string { return cmp.Or(u.Plan.Kubernetes, n.kubernetes) }

// run carries a unit out once.
func (n *nightRunner) run(ctx context.Context, u nightly.Unit) (nightly.Attempt, error) {
	parts := trial.AllParts()
	err := trial.ValidateHere(parts, u.Plan)
	if err == nil {
		err = trial.ValidateNew(parts, u.Plan)
	}
	if err != nil {
		return nightly.Attempt{}, &nightly.CannotError{Why: "cannot be carried out here: " + err.Error()}
	}
	if !n.fits(u) {
		n.leave(ctx)
	}
	begin := time.Now()
	lost := func(what string, err error) (nightly.Attempt, error) {
		if ctx.Err() != nil {
			return nightly.Attempt{}, fmt.Errorf("%s, seed %d: %w", u.Name, u.Seed, err)
		}
		return nightly.Attempt{Verdict: check.Unknown, Trial: check.Unknown, Why: fmt.Sprintf("%s: %v", what, err),
			Started: begin.UTC().Round(0), Seconds: time.Since(begin).Round(100 * time.Millisecond).Seconds()}, nil
	}
	if n.place == nil {
		if err := n.make(ctx, u); err != nil {
			const most = 3
			if n.failed++; n.failed == most {
				return nightly.Attempt{}, fmt.Errorf("no cluster could be made %d times in a row: %w", most, err)
			}
			return lost("no cluster", err)
		}
		n.failed, n.making = 0, time.Since(begin)
		begin = time.Now()
	}
	var fields plan.FieldErrors
	if err := trial.ValidateOn(ctx, parts, u.Plan, n.place.Cluster); errors.As(err, &fields) {
		return nightly.Attempt{}, &nightly.CannotError{Why: "cannot be carried out here: " + err.Error()}
	}
	header := n.flags.header(u.Plan)
	header.Unit = u.ID
	out, err := n.place.Run(ctx, trial.RunOptions{
		Plan: u.Plan, RunsDir: n.flags.runs, Header: header, Progress: plainly{n.stderr},
		Debug: n.flags.level(),
	})
	n.trials++
	took := time.Since(begin)
	if err != nil {
		n.leave(ctx)
		return lost("the harness failed", err)
	}
	if out.Interrupted && out.Report.Verdict != check.Fail {
		return nightly.Attempt{}, fmt.Errorf("%s, seed %d was interrupted: %w", u.Name, u.Seed, context.Cause(ctx))
	}
	if !out.Clean || len(u.Plan.Upgrades()) > 0 {
		say(n.stderr, "something may be left on the cluster, or it was upgraded: the next trial gets a new one")
		n.leave(ctx)
	}
	return attemptOf(u, out.Report, begin, took, runOf(out.Dir)), nil
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
