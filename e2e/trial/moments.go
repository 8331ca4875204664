package trial

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// awaitMoment waits for a moment on the API watch, and tells how long after the fact it was seen. What the same object
// was by base already is none.
func (c *carrier) awaitMoment(ctx context.Context, a plan.Await, base enclosing) error {
	pod := c.podName(a.Ordinal)
	of := func(s sighting) bool { return s.resource == pods && s.name == pod }
	if a.For == plan.AwaitClaimGone {
		// The controller names a claim <template>-<pod>.
		of = func(s sighting) bool { return s.resource == claims && strings.HasSuffix(s.name, "-"+pod) }
	}
	begun := base.pods[pod]
	is := func(s sighting) bool {
		already := s.uid == begun.uid && begun.is(a.For, c.revision)
		return s.span.NotAfter >= base.since && s.is(a.For, c.revision) && !already
	}
	for {
		s, ok, moved := c.rec.sight(of, is)
		if ok {
			late := s.at.Sub(s.span.NotAfter)
			c.log.Info("moment seen", "what", a.For, "name", s.name, "uid", s.uid, "node", s.node, "late", late)
			fmt.Fprintf(c.Progress, "%8s  %s: %s\n", c.sinceBegin(s.at), a.For, s)
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return fmt.Errorf("await %q of %s: not seen since %s, last seen: %s: %w", a.For, pod,
				c.sinceBegin(base.since), s, context.Cause(ctx))
		}
	}
}

// awaitStill waits until no pod has stirred for so long, from now on.
func (c *carrier) awaitStill(ctx context.Context, lasting time.Duration) error {
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
