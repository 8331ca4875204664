package trial

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// openPhases are the phases and steps that have begun and not ended, the outermost first.
type openPhases struct {
	mu   sync.Mutex
	list []*openPhase
}

type openPhase struct {
	what  string
	since history.Time
}

// add adds a phase; closed removes it.
func (o *openPhases) add(p openPhase) (closed func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, &p)
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.list = slices.DeleteFunc(o.list, func(q *openPhase) bool { return q == &p })
	}
}

// Status says in a few lines where the running trial stands: its phase and step, the active faults, and what the
// workload acknowledged. It is "" if no trial runs. It may be called at any time.
func (p *Place) Status() string {
	c := p.running.Load()
	if c == nil {
		return ""
	}
	return c.status(bootclock.Now())
}

func (c *runner) status(now history.Time) string {
	since := func(t history.Time) string { return now.Sub(t).Round(100 * time.Millisecond).String() }
	var b strings.Builder
	fmt.Fprintf(&b, "trial %s, seed %d, since %s: %s\n", c.Plan.Scenario, c.Plan.Seed, since(c.began), c.dir.Path())
	c.open.mu.Lock()
	for _, p := range c.open.list {
		fmt.Fprintf(&b, "  %s, since %s\n", p.what, since(p.since))
	}
	c.open.mu.Unlock()
	c.active.mu.Lock()
	for _, f := range c.active.held {
		fmt.Fprintf(&b, "  fault %s of step %d holds node %q\n", f.name, f.step, f.node)
	}
	c.active.mu.Unlock()
	if acked, last := c.rec.total(); acked > 0 {
		fmt.Fprintf(&b, "  %d operations acknowledged, the last %s ago\n", acked, since(last))
	}
	return b.String()
}
