package network

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
)

// TestTheLastWordOnAFlowCounts has the word on a flow come at the very end of its watch: it is not said to go on.
func TestTheLastWordOnAFlowCounts(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errStillOpen)
	closed := make(chan struct{})
	close(closed)
	for range 50 { // What is ready at the same time is chosen by chance.
		f := &flow{reports: make(chan probe.FlowReport, 1), ended: closed}
		f.reports <- probe.FlowReport{State: probe.FlowDead, Error: "no word"}
		if err := f.lives(over); err == nil || !strings.Contains(err.Error(), "did not go on: it is dead") {
			t.Fatalf("a flow that went dead: got %v", err)
		}
		broken := &flow{reports: make(chan probe.FlowReport), ended: closed, err: errors.New("no agent")}
		if err := broken.lives(over); err == nil || !strings.Contains(err.Error(), "no agent") {
			t.Fatalf("a watch that has ended: got %v", err)
		}
	}
}

// TestFlowsAreWatchedTogether takes as long for many flows as for one.
func TestFlowsAreWatchedTogether(t *testing.T) {
	over, cancel := context.WithCancelCause(t.Context())
	cancel(errStillOpen)
	open := func() *flow { return &flow{reports: make(chan probe.FlowReport), ended: make(chan struct{})} }
	facts, err := flowsLive(over, []*flow{open(), open(), open()}, func() history.Time { return 1 })
	if err != nil || len(facts) != 3 {
		t.Errorf("got %v, %v", facts, err)
	}
	dead := open()
	dead.reports = make(chan probe.FlowReport, 1)
	dead.reports <- probe.FlowReport{State: probe.FlowDead}
	facts, err = flowsLive(over, []*flow{open(), dead}, func() history.Time { return 1 })
	if err == nil || len(facts) != 1 {
		t.Errorf("one of them is dead: got %v, %v", facts, err)
	}
}
