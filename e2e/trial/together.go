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

// together carries sequences of steps out beside each other. The first error in one of them ends the others, which heal
// what they hurt before this returns.
func (c *carrier) together(ctx context.Context, s plan.Step, in enclosing) error {
	before, err := c.enclose(ctx)
	if err != nil {
		return err
	}
	before.open = in.open // What outlasts, outlasts a fault.
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	errs := make([]error, len(s.Branches))
	var first sync.Once
	var group sync.WaitGroup
	var failed int
	for i, steps := range s.Branches {
		group.Go(func() {
			if errs[i] = c.inOrder(ctx, steps, before); errs[i] == nil {
				return
			}
			first.Do(func() {
				failed = i
				end(fmt.Errorf("sequence %d beside it went wrong", i+1))
			})
		})
	}
	group.Wait()
	errs[0], errs[failed] = errs[failed], errs[0] // What went wrong first is what a reader has to know first.
	return errors.Join(errs...)
}

// outlasting are the ends of the faults that outlast the one around them. Sequences beside each other add to it.
type outlasting struct {
	mu   sync.Mutex
	ends []func(context.Context) error
}

func (o *outlasting) add(end func(context.Context) error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ends = append(o.ends, end)
}

// end ends them, the last one first.
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

// hands are what the faults that are in force have in their hands. On paper two victims are on two nodes; where their
// pods have come to the same one, what the plan means to do there cannot be done.
type hands struct {
	mu   sync.Mutex
	held []holding
}

// holding is a fault in force.
type holding struct {
	step       int
	name, node string
	parts      []plan.Part
}

// take lets a fault begin, or says which other one it would contradict. Nothing is touched then.
func (h *hands) take(want holding) (release func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, have := range h.held {
		if why := plan.Clash(have.parts, want.parts, have.node == want.node); why != "" {
			return nil, fmt.Errorf("fault %q of step %d is in force on node %q: %s", have.name, have.step, have.node,
				why)
		}
	}
	h.held = append(h.held, want)
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held = slices.DeleteFunc(h.held, func(have holding) bool { return have.step == want.step })
	}, nil
}

// oneByOne is a writer for several goroutines, each of whose writes is a whole line.
type oneByOne struct {
	mu sync.Mutex
	w  io.Writer
}

func (o *oneByOne) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.w.Write(p)
}
