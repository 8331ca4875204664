package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// flowSilence is how long a flow must stay unacknowledged to be dead. The first lost byte is sent again after 0.2 s,
// 0.6 s, 1.4 s and 3 s: four losses in a row.
const flowSilence = 3 * time.Second

// flow is an established connection that the agent on a node watches.
type flow struct {
	path path
	watch
}

// watch returns the states of a flow as the agent reports them.
type watch interface {
	Next(ctx context.Context) (probe.FlowReport, error)
	Stop() error
}

// openFlow opens a flow from an end to an address and returns once bytes were acknowledged. The watch outlives ctx:
// call Stop. On the node it ends after life at the latest.
func openFlow(ctx context.Context, from end, to netip.AddrPort, life time.Duration) (*flow, error) {
	said, err := from.agent().Flow(ctx, to, flowSilence, life)
	if err != nil {
		return nil, fmt.Errorf("from %s: %w", from.name, err)
	}
	return &flow{path{from: from.name, to: to}, said}, nil
}

// flowsDead waits until all flows are dead, or reset if resets are sent.
func flowsDead(ctx context.Context, flows []*flow, bound time.Duration, resets bool) (facts []fault.Fact, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, bound, fmt.Errorf("bytes are still acknowledged after %s", bound))
	defer cancel()
	for _, f := range flows {
		seen, err := f.dead(ctx, resets)
		if err != nil {
			return facts, err
		}
		facts = append(facts, seen...)
	}
	return facts, nil
}

// dead waits until the flow is dead, or reset if resets are sent.
func (f *flow) dead(ctx context.Context, resets bool) ([]fault.Fact, error) {
	r, err := f.Next(ctx)
	switch {
	case err != nil:
		return nil, fmt.Errorf("wait for the established flow %s to go dead: %w", f.path, err)
	case resets && r.State == probe.FlowClosed && r.Reset:
		return fault.Seen(history.At(r.At), "the established flow %s was reset", f.path), nil
	case r.State != probe.FlowDead:
		return nil, fmt.Errorf("the established flow %s did not go dead: it is %s: %s", f.path, r.State, r.Error)
	}
	return fault.Seen(history.Between(r.LastAck, r.At),
		"the established flow %s went dead: %d bytes unacknowledged for %s", f.path, r.Pending,
		r.At.Sub(r.LastAck).Round(100*time.Millisecond)), nil
}

// errStillOpen ends a watch in which the flow's state did not change.
var errStillOpen = errors.New("it is open")

// flowsLive checks that no flow changes its state for longer than it takes to find one dead.
func flowsLive(ctx context.Context, flows []*flow, now func() history.Time) (facts []fault.Fact, err error) {
	begin := now()
	ctx, cancel := context.WithTimeoutCause(ctx, flowSilence+time.Second, errStillOpen)
	defer cancel()
	for _, f := range flows {
		r, err := f.Next(ctx)
		switch {
		case err == nil:
			return facts, fmt.Errorf("the established flow %s did not go on: it is %s: %s", f.path, r.State, r.Error)
		case !errors.Is(err, errStillOpen):
			return facts, fmt.Errorf("watch the established flow %s: %w", f.path, err)
		}
		facts = append(facts,
			fault.Seen(history.Between(begin, now()), "the established flow %s goes on", f.path)...)
	}
	return facts, nil
}
