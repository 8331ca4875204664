package trial

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/leaks"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/chaos/undo/apileaks"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	scanBound = time.Minute // Of one scan of all nodes and the API.
	// goneBound is how long leftovers may take to go by themselves: a unit that is stopping, a volume that is being
	// detached.
	goneBound = 20 * time.Second
	scanEvery = 4 * time.Second
)

// scanBefore records what exists before the trial hurts anything.
func (c *runner) scanBefore(ctx context.Context) {
	c.before = c.scan(ctx, history.Before)
	c.keep(c.before)
}

// scanAfter records what the trial leaves. It scans again while something is left that may go by itself, and keeps the
// last scan. It ignores the end of ctx.
func (c *runner) scanAfter(ctx context.Context) {
	if c.kube == nil || len(c.before) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneBound+scanBound)
	defer cancel()
	var now []history.Event
	var left []string
	err := await.Until(ctx, "nothing to be left of the trial", scanEvery, goneBound,
		func(context.Context) (bool, string, error) {
			now = c.scan(ctx, history.After)
			left = leftOf(c.before, now)
			return len(left) == 0, strings.Join(left, "; "), nil
		})
	c.keep(now)
	if err != nil {
		c.log.Warn("residue", "err", err)
	}
	for _, what := range left {
		fmt.Fprintf(c.Progress, "  left after the trial: %s\n", what)
	}
}

// leftOf lists what is left, with its place.
func leftOf(before, after []history.Event) []string {
	var all []string
	for i, e := range after { // Both are in the order of the nodes.
		was, is := before[i].Residue, e.Residue
		if was.Error != "" || is.Error != "" {
			continue
		}
		for _, t := range history.Left(was.Things, is.Things) {
			all = append(all, cmp.Or(is.Node, "the API")+": "+t.String())
		}
	}
	return all
}

func (c *runner) keep(scans []history.Event) {
	for _, e := range scans {
		c.rec.Record(e)
	}
}

// scan scans the API and every node in parallel. A fact says if its scan failed.
func (c *runner) scan(ctx context.Context, when history.When) []history.Event {
	ctx, cancel := context.WithTimeout(ctx, scanBound)
	defer cancel()
	scans := make([]history.Event, len(c.nodes)+1)
	var names []string
	var group sync.WaitGroup
	one := func(at int, node string, do func(*history.Residue) error) {
		group.Go(func() {
			r := &history.Residue{When: when, Run: c.RunID, Node: node, Things: []history.Thing{}}
			begin := bootclock.Now()
			if err := do(r); err != nil {
				r.Error = err.Error()
			}
			scans[at] = history.Event{Kind: history.KindResidue, Source: "trial",
				Span: history.Between(begin, bootclock.Now()), Residue: r}
		})
	}
	for i, n := range c.nodes {
		names = append(names, n.Name())
		one(i+1, n.Name(), func(r *history.Residue) error {
			report, err := leaks.Of(ctx, n)
			if err == nil {
				r.Things, r.Blind = report.Things, report.Blind
			}
			return err
		})
	}
	one(0, "", func(r *history.Residue) (err error) {
		r.Things, err = apileaks.Look(ctx, c.kube, names)
		return err
	})
	group.Wait()
	return scans
}

// healAll undoes what this run left on any node. After steps without an error there is nothing to undo: what is found
// was left behind by a fault that reported it was healed.
func (c *runner) healAll(ctx context.Context) error {
	reports, err := fault.HealCluster(ctx, c.Cluster, c.nodes, c.kube, undo.Of(c.RunID, 0))
	if c.Watchdog != nil && err == nil { // After an error, the watchdogs may still bring a node back.
		var armed []string
		if armed, err = c.Watchdog.Release(ctx, undo.Of(c.RunID, 0)); err == nil && len(armed) > 0 {
			err = fmt.Errorf("left behind by a healed fault: undo timers beside the cluster: %q", armed)
		}
	}
	for _, r := range reports {
		if r.Nothing() {
			continue
		}
		c.log.Warn("left behind", "node", r.Node, "what", r.String())
		if err == nil {
			err = fmt.Errorf("heal node %q: found left behind by a healed fault: %s", r.Node, r)
		}
	}
	return err
}
