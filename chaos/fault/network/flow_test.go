package network

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// said is a watch that says one thing, or fails, or says nothing as long as it is listened to.
type said struct {
	report *probe.FlowReport
	err    error
}

func (s said) Next(ctx context.Context) (probe.FlowReport, error) {
	switch {
	case s.report != nil:
		return *s.report, nil
	case s.err != nil:
		return probe.FlowReport{}, s.err
	}
	<-ctx.Done()
	return probe.FlowReport{}, context.Cause(ctx)
}

func (s said) Stop() error { return nil }

// TestFlowsAreWatchedTogether takes as long for many flows as for one.
func TestFlowsAreWatchedTogether(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errStillOpen)
	open, dead := &flow{watch: said{}}, &flow{watch: said{report: &probe.FlowReport{State: probe.FlowDead}}}
	now := func() history.Time { return 1 }
	facts, err := flowsLive(over, []*flow{open, open, open}, now)
	if err != nil || len(facts) != 3 {
		t.Errorf("got %v, %v", facts, err)
	}
	facts, err = flowsLive(over, []*flow{open, dead}, now)
	if err == nil || !strings.Contains(err.Error(), "did not go on: it is dead") || len(facts) != 1 {
		t.Errorf("one of them is dead: got %v, %v", facts, err)
	}
	broken := &flow{watch: said{err: errors.New("no agent")}}
	if _, err := flowsLive(over, []*flow{broken}, now); err == nil || !strings.Contains(err.Error(), "no agent") {
		t.Errorf("a watch that has ended: got %v", err)
	}
}
