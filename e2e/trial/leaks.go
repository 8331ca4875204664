package trial

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/leaks"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/chaos/undo/apileaks"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	// lookBound is how long one look at all nodes and the API may take.
	lookBound = time.Minute
	// goneBound is how long what is left may take to go by itself: a unit that is just stopping, a volume that is being
	// detached.
	goneBound = 20 * time.Second
	lookAgain = 4 * time.Second
)

// lookBefore looks for what was there before the trial hurt anything.
func (c *runner) lookBefore(ctx context.Context) {
	c.before = c.look(ctx, history.Before)
	c.keepLooks(c.before)
}

// lookAfter looks for what the trial leaves, and again while something is left that may go by itself. The last look is
// what counts. It looks although ctx has ended.
func (c *runner) lookAfter(ctx context.Context) {
	if c.kube == nil || len(c.before) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), goneBound+lookBound)
	defer cancel()
	var now []history.Event
	var left []string
	err := await.Until(ctx, "nothing to be left of the trial", lookAgain, goneBound,
		func(context.Context) (bool, string, error) {
			now = c.look(ctx, history.After)
			left = leftOf(c.before, now)
			return len(left) == 0, strings.Join(left, "; "), nil
		})
	c.keepLooks(now)
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
	for _, e := range after {
		i := slices.IndexFunc(before, func(b history.Event) bool { return b.Residue.Node == e.Residue.Node })
		if i < 0 || before[i].Residue.Error != "" || e.Residue.Error != "" {
			continue
		}
		for _, t := range history.Left(before[i].Residue.Things, e.Residue.Things) {
			place := e.Residue.Node
			if place == "" {
				place = "the API"
			}
			all = append(all, place+": "+t.String())
		}
	}
	return all
}

func (c *runner) keepLooks(looks []history.Event) {
	for _, e := range looks {
		c.rec.Record(e)
	}
}

// look looks at the API and at every node, all at once. What could not be looked at is said in the fact.
func (c *runner) look(ctx context.Context, when history.When) []history.Event {
	ctx, cancel := context.WithTimeout(ctx, lookBound)
	defer cancel()
	looks := make([]history.Event, len(c.nodes)+1)
	names := make([]string, len(c.nodes))
	var group sync.WaitGroup
	one := func(at int, node string, do func(*history.Residue) error) {
		group.Go(func() {
			r := &history.Residue{When: when, Run: c.RunID, Node: node, Things: []history.Thing{}}
			begin := bootclock.Now()
			if err := do(r); err != nil {
				r.Error = err.Error()
			}
			looks[at] = history.Event{Kind: history.KindResidue, Source: "trial",
				Span: history.Between(begin, bootclock.Now()), Residue: r}
		})
	}
	for i, n := range c.nodes {
		names[i] = n.Name()
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
	return looks
}

// healAll undoes whatever of this run is left on any node. After steps that went well there is nothing to undo: what
// is found then was left behind by a fault that said it was healed.
func (c *runner) healAll(ctx context.Context) error {
	reports, err := undo.Cluster(ctx, c.nodes, undo.Of(c.RunID, 0))
	if c.Watchdog != nil && err == nil { // After an error, they are what may still bring a node back.
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
