package mountledger

import (
	"context"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// processKey identifies a process of the node: a pid is used again, but not with the same start.
type processKey struct {
	pid   int
	start history.Time
}

// watchProcesses lists the configured processes at intervals and records what changed.
func (l *ledger) watchProcesses(ctx context.Context, begun chan<- struct{}) error {
	scan := bootclock.Now()
	known, err := l.compareProcesses(nil, scan, history.ProcessPresent)
	if err != nil {
		return err
	}
	begun <- struct{}{}
	return l.lookAgain(ctx, ObserverProcesses, scan, scanEvery, func(begin history.Time) (err error) {
		known, err = l.compareProcesses(known, scan, history.ProcessStarted)
		scan = begin
		return err
	})
}

// compareProcesses lists the processes and records those that known lacks, under the given action, and those that are
// gone. Changes happened after the previous listing began, at before.
func (l *ledger) compareProcesses(known map[processKey]probe.Process, before history.Time, action history.ProcessAction,
) (map[processKey]probe.Process, error) {
	running, err := probe.List(l.cfg.Processes...)
	if err != nil {
		return known, err
	}
	span := history.Between(before, bootclock.Now())
	if action == history.ProcessPresent {
		l.begin(ObserverProcesses, span.NotBefore, "")
	}
	next := make(map[processKey]probe.Process, len(running))
	var events []history.Event
	for _, p := range running {
		key := processKey{p.PID, p.Start}
		if old, ok := known[key]; ok && old.Name == p.Name {
			next[key] = old
			continue
		}
		next[key] = p
		events = append(events, processFact(action, p, span))
	}
	var gone []history.Event
	for key, p := range known {
		if _, ok := next[key]; !ok {
			gone = append(gone, processFact(history.ProcessGone, p, span))
		}
	}
	if events = append(gone, events...); len(events) > 0 {
		l.put(events...)
	}
	return next, nil
}

func processFact(action history.ProcessAction, p probe.Process, span history.Span) history.Event {
	return history.Event{
		Kind: history.KindProcess, Span: span,
		Process: &history.Process{Action: action, Name: p.Name, PID: p.PID, Start: p.Start, PodUID: p.PodUID},
	}
}
