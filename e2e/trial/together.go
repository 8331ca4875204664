package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/seatrial/seatrial/chaos/plan"
)

// together runs sequences of steps in parallel. The first error stops the others; they heal their faults before it
// returns.
func (c *runner) together(ctx context.Context, s plan.Step, in enclosing) error {
	before, err := c.enclose(ctx)
	if err != nil {
		return err
	}
	before.open = in.open // Faults outlast the enclosing fault, not this step.
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	var mu sync.Mutex
	var errs []error // The first failure comes first.
	var group sync.WaitGroup
	for i, steps := range s.Branches {
		group.Go(func() {
			if err := c.inOrder(ctx, steps, before); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
				end(fmt.Errorf("parallel sequence %d failed", i+1)) // Only the first cause counts.
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// outlasting collects how to end the faults that outlast the enclosing one. Parallel sequences add to it.
type outlasting struct {
	mu   sync.Mutex
	ends []func(context.Context) error
}

func (o *outlasting) add(end func(context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends = append(o.ends, end)
}

// end ends the faults, the last one first.
func (o *outlasting) end(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	var errs []error
	for _, end := range slices.Backward(o.ends) {
		errs = append(errs, end(ctx))
	}
	o.ends = nil
	return errors.Join(errs...)
}

// activeFaults lists the resources held by running faults. The plan has its victims on different nodes; if their pods
// are on one node by now, the second fault could contradict the first.
type activeFaults struct {
	mu   sync.Mutex
	held []activeFault
}

type activeFault struct {
	step       int
	name, node string
	parts      []plan.Part
}

// take registers a fault, or returns an error that names the running fault it contradicts.
func (h *activeFaults) take(want activeFault) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, have := range h.held {
		if why := plan.Clash(have.parts, want.parts, have.node == want.node); why != "" {
			return nil, fmt.Errorf("fault %q of step %d is active on node %q: %s", have.name, have.step, have.node,
				why)
		}
	}
	h.held = append(h.held, want)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held = slices.DeleteFunc(h.held, func(have activeFault) bool { return have.step == want.step })
	}, nil
}

// lockedWriter is a writer for several goroutines; every write is a whole line.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *lockedWriter) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
