package trial

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// asked is the revision of the pod template that was last asked for.
func (c *runner) asked() string {
	if name := c.revision.Load(); name != nil {
		return *name
	}
	return plan.RevisionFirst
}

// awaitMoment waits for a moment on the API watch. What the same object was by base already is none.
func (c *runner) awaitMoment(ctx context.Context, a plan.Await, base enclosing) (coming, error) {
	pod := c.podName(a.Ordinal)
	of := func(s sighting) bool { return s.resource == pods && s.name == pod }
	if a.For == plan.AwaitClaimGone {
		// The controller names a claim <template>-<pod>.
		of = func(s sighting) bool { return s.resource == claims && strings.HasSuffix(s.name, "-"+pod) }
	}
	begun := base.pods[pod]
	is := func(s sighting) bool {
		already := s.uid == begun.uid && begun.is(a.For, c.asked())
		return s.span.NotAfter >= base.since && s.is(a.For, c.asked()) && !already
	}
	var s sighting
	err := c.until(ctx, fmt.Sprintf("%q of %s", a.For, pod), base.since, func() (ok bool, seen string) {
		s, ok = c.rec.nthSight(a.Count, of, is)
		return ok, s.String()
	})
	return coming{s.span, s.at, fmt.Sprintf("%s: %s", a.For, s)}, err
}

// awaitCall waits for a CSI call.
func (c *runner) awaitCall(ctx context.Context, a plan.Await, pod string, in enclosing) (coming, error) {
	v, err := c.volume(ctx, pod)
	if err != nil {
		return coming{}, err
	}
	end := a.For == plan.AwaitCSIEnd
	is := func(e arrival) bool {
		call := e.CSI
		return call.RPC == a.RPC && call.Volume == v.handle && call.End == end && e.Span.NotAfter >= in.since &&
			(!end || call.Code == "OK")
	}
	var e arrival
	what := fmt.Sprintf("%s of volume %q", a.RPC, v.handle)
	err = c.until(ctx, what, in.since, func() (ok bool, seen string) {
		e, ok = nth(c.rec.calls, a.Count, is)
		return ok, fmt.Sprintf("%d calls of any kind", len(c.rec.calls))
	})
	if err != nil {
		return coming{}, err
	}
	word := "began"
	if end {
		word = "ended"
	}
	return coming{e.Span, e.at, fmt.Sprintf("%s on %s %s", a.RPC, e.CSI.Node, word)}, nil
}

// awaitMount waits until a volume is mounted on a node, or a mount of it ends.
func (c *runner) awaitMount(ctx context.Context, a plan.Await, pod string, base enclosing) (coming, error) {
	v, err := c.volume(ctx, pod)
	if err != nil {
		return coming{}, err
	}
	var m mounting
	is := func(m mounting) bool {
		return m.attach == (a.For == plan.AwaitMount) && m.span.NotAfter >= base.since && v.at(m.path, a.Place)
	}
	err = c.until(ctx, fmt.Sprintf("a %s of PersistentVolume %q", a.For, v.pv), base.since, func() (ok bool, s string) {
		m, ok = nth(c.rec.mounts, a.Count, is)
		return ok, fmt.Sprintf("%d mounts and unmounts of any volume", len(c.rec.mounts))
	})
	return coming{m.span, m.at, fmt.Sprintf("%s of %s on %s, at %s", a.For, v.pv, m.node, m.path)}, err
}

// awaitObject waits until an object comes to match.
func (c *runner) awaitObject(ctx context.Context, s plan.Step, base enclosing) (coming, error) {
	var r rise
	what := s.Await.Object.String()
	err := c.until(ctx, what, base.since, func() (ok bool, seen string) {
		r, ok = nth(c.rec.rises, s.Await.Count, func(r rise) bool {
			return r.step == s.N && r.span.NotAfter >= base.since
		})
		return ok, c.rec.matching(s.N)
	})
	return coming{r.span, r.at, fmt.Sprintf("%s: %s", what, r.name)}, err
}

// matching says how many objects match what a step awaits. The caller holds the lock.
func (f *feed) matching(step int) string {
	of, matching := 0, 0
	for key, holds := range f.matched {
		if key.step == step {
			of++
		}
		if key.step == step && holds {
			matching++
		}
	}
	return fmt.Sprintf("%d such objects, of which %d are so, and were before", of, matching)
}

// awaitCommits waits until so many inserts were acknowledged since a moment.
func (c *runner) awaitCommits(ctx context.Context, a plan.Await, base enclosing) (coming, error) {
	var last commit
	seen, next := 0, 0 // How many count, of those before the next one to be looked at.
	err := c.until(ctx, fmt.Sprintf("%d commits", a.Commits), base.since, func() (bool, string) {
		for ; next < len(c.rec.commits) && seen < a.Commits; next++ {
			if last = c.rec.commits[next]; last.span.NotAfter >= base.since {
				seen++
			}
		}
		return seen >= a.Commits, fmt.Sprintf("%d since then", seen)
	})
	return coming{last.span, last.at, fmt.Sprintf("commit %d since %s", a.Commits, c.sinceBegin(base.since))}, err
}

// awaitFault waits until the fault of another step has come to a stage.
func (c *runner) awaitFault(ctx context.Context, a plan.Await) (coming, error) {
	stage := history.FaultStage(a.Stage)
	if stage == "" {
		stage = history.StageConfirmed
	}
	var e arrival
	failure, failed := "", false
	what := fmt.Sprintf("stage %q of the fault of step %d", stage, a.Step)
	err := c.until(ctx, what, c.stepsBegan, func() (ok bool, seen string) {
		e, ok = nth(c.rec.stages, 0, func(e arrival) bool { return e.Fault.Step == a.Step && e.Fault.Stage == stage })
		if !ok {
			failure, failed = c.rec.faultFailed(a.Step)
		}
		return ok || failed, "not that it has begun"
	})
	if failed {
		return coming{}, fmt.Errorf("await %s: it failed: %s", what, failure)
	}
	if err != nil {
		return coming{}, err
	}
	return coming{e.Span, e.at, fmt.Sprintf("the fault of step %d, %s on %s, is %s", a.Step, e.Fault.Name, e.Fault.Node,
		stage)}, nil
}

// awaitStill waits until no pod has stirred for so long, from now on.
func (c *runner) awaitStill(ctx context.Context, lasting time.Duration) error {
	begin := bootclock.Now()
	for {
		stirred, moved := c.rec.lastStir()
		rest := lasting - bootclock.Now().Sub(max(begin, stirred))
		if rest <= 0 {
			return nil
		}
		timer := time.NewTimer(rest)
		select {
		case <-timer.C:
		case <-moved:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("await that no pod stirs for %s: the last did at %s: %w", lasting, c.sinceBegin(stirred),
				context.Cause(ctx))
		}
		timer.Stop()
	}
}
