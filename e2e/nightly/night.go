package nightly

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/seatrial/seatrial/e2e/check"
)

// Night carries units out until its time is over.
type Night struct {
	List  List                            // The shard's part.
	Soak  func(round int) ([]Unit, error) // The units of a round with new seeds, from 1; none ends it.
	Known []Result                        // Of any commit and version.
	Keep  func(Result) error              // Stores a result durably. One call at a time.
	Lanes []Lane                          // At work at the same time.
	Now   func() time.Time
	Until time.Time
	Tell  func(format string, args ...any)

	mu     sync.Mutex
	byID   map[string]Result
	latest map[string]Result // By the name of the unit: the result with the last attempt.
}

// Lane carries out one trial after another, on clusters of its own.
type Lane interface {
	// Run carries out one trial. The error is a CannotError where there can be none.
	Run(context.Context, Unit) (Attempt, error)
	// Ahead is the time to make a cluster before a trial of the unit.
	Ahead(Unit) time.Duration
}

// CannotError says why a unit cannot be carried out here.
type CannotError struct{ Why string }

func (e *CannotError) Error() string { return e.Why }

// Sleep carries out the units of the list that have no verdict yet, and then rounds of new seeds. An error means that a
// trial could not start or a result not be kept; the next night continues from the results kept so far.
func (n *Night) Sleep(ctx context.Context) error {
	n.byID, n.latest = map[string]Result{}, map[string]Result{}
	for _, r := range n.Known {
		n.learn(r)
	}
	if _, err := n.all(ctx, n.List.Units); err != nil {
		return err
	}
	for round := 1; ; round++ {
		units, err := n.Soak(round)
		if err != nil || len(units) == 0 {
			return err
		}
		open := slices.ContainsFunc(units, func(u Unit) bool { return !n.byID[u.ID].Done() })
		begun, err := n.all(ctx, units)
		if err != nil || open && begun == 0 {
			return err
		}
	}
}

func (n *Night) learn(r Result) {
	if r.Build == n.List.Build {
		n.byID[r.ID] = r
	}
	if last, ok := n.latest[r.Name]; len(r.Attempts) > 0 && (!ok || !r.Last().Before(last.Last())) {
		n.latest[r.Name] = r
	}
}

// all has the lanes carry out the units that have no verdict yet, and returns how many were begun. After an error no
// other unit is begun.
func (n *Night) all(ctx context.Context, units []Unit) (begun int, err error) {
	queue := n.Order(units)
	var errs []error
	var lanes sync.WaitGroup
	for _, lane := range n.Lanes {
		lanes.Go(func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			for len(queue) > 0 && len(errs) == 0 {
				u := queue[0]
				queue = queue[1:]
				one, err := n.one(ctx, lane, u)
				if err != nil {
					errs = append(errs, err)
				}
				if one {
					begun++
				}
			}
		})
	}
	lanes.Wait()
	return begun, errors.Join(errs...)
}

// Order sorts units: first what was not as expected when it last ran, then what has not run for the longest time on any
// commit; among equals those together that can share a cluster, the shortest first.
func (n *Night) Order(units []Unit) []Unit {
	calm := func(u Unit) int {
		if last, ok := n.latest[u.Name]; ok && last.Verdict() != check.Pass {
			return 0
		}
		return 1
	}
	order := slices.Clone(units)
	slices.SortFunc(order, func(a, b Unit) int {
		return cmp.Or(cmp.Compare(calm(a), calm(b)), n.latest[a.Name].Last().Compare(n.latest[b.Name].Last()),
			cmp.Compare(a.Workers, b.Workers), cmp.Compare(n.version(a), n.version(b)),
			slices.Compare(a.Plan.FeatureGates, b.Plan.FeatureGates),
			slices.Compare(a.Plan.Upgrades(), b.Plan.Upgrades()),
			cmp.Compare(a.Estimate, b.Estimate), cmp.Compare(a.Name, b.Name))
	})
	return order
}

// version is the one of a unit's cluster.
func (n *Night) version(u Unit) string { return cmp.Or(u.Plan.Kubernetes, n.List.Kubernetes) }

// takes returns the longest attempt in the last result of the unit, or the estimate from its plan.
func (n *Night) takes(u Unit) time.Duration { return cmp.Or(n.latest[u.Name].Took(), u.Estimate.D()) }

// one has a lane carry out a unit until its verdict is known, and reports whether a trial was begun. It begins and ends
// with the lock, which is free during a trial.
func (n *Night) one(ctx context.Context, lane Lane, u Unit) (begun bool, err error) {
	r, ok := n.byID[u.ID]
	if !ok {
		r = Result{Unit: u, Build: n.List.Build}
	}
	for !r.Done() {
		if err := ctx.Err(); err != nil {
			return begun, context.Cause(ctx)
		}
		need, left := n.takes(u)+lane.Ahead(u), n.Until.Sub(n.Now())
		if need > left {
			return begun, n.not(&r, fmt.Sprintf("budget: about %s needed, %s left", need.Round(time.Second),
				max(left, 0).Round(time.Second)))
		}
		n.mu.Unlock()
		a, err := lane.Run(ctx, u)
		n.mu.Lock()
		if cannot, ok := errors.AsType[*CannotError](err); ok {
			return begun, n.not(&r, cannot.Why)
		}
		if err != nil {
			return begun, err
		}
		begun = true
		r.Attempts, r.NotRun = append(r.Attempts, a), ""
		if err := n.Keep(r); err != nil {
			return begun, fmt.Errorf("keep the result of %s: %w", u.Title(), err)
		}
		n.learn(r)
		why := ""
		if a.Verdict != check.Pass {
			why = ": " + a.Why
		}
		n.Tell("%s, attempt %d: %s (expected: %s)%s", u.Title(), len(r.Attempts), a.Trial, u.Expect, why)
	}
	return begun, nil
}

// not keeps the reason why there is no attempt, or no further one. Nothing is kept of a unit outside the list that has
// no attempt.
func (n *Night) not(r *Result, why string) error {
	listed := slices.ContainsFunc(n.List.Units, func(u Unit) bool { return u.ID == r.ID })
	if !listed && len(r.Attempts) == 0 {
		return nil
	}
	r.NotRun = why
	n.Tell("%s is not run: %s", r.Title(), why)
	if err := n.Keep(*r); err != nil {
		return fmt.Errorf("keep why %s did not run: %w", r.Title(), err)
	}
	n.learn(*r)
	return nil
}
