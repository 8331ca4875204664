// Package mountledger records, on a node, every mount that appears in or vanishes from the node's mount namespace,
// every process of given names that starts or ends, and every volume that a container has mounted in a mount namespace
// of its own.
//
// Its promise: what it missed of the node's mounts, or saw and could not identify, is a fact in the ledger. It runs on
// the nodes, so it imports the standard library, golang.org/x/sys/unix, moby/sys/mountinfo and the facts only.
//
// It does not see what a container mounted and unmounted between two reads of its namespace, file systems used through
// a descriptor that was never attached anywhere, and raw use of a block device.
package mountledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/observe/ledgerfile"
)

// The ledger's observers, by their names in facts.
const (
	ObserverMounts    = "mounts"
	ObserverProcesses = "processes"
	ObserverHoldings  = "holdings"
)

// Observers returns all of them.
func Observers() []string { return []string{ObserverMounts, ObserverProcesses, ObserverHoldings} }

// NothingRan is in the detail of an on fact if none of the programs of Config.Before ran when the ledger had begun:
// it saw whatever they mounted later.
const NothingRan = "before"

const (
	beatEvery = time.Second
	scanEvery = 200 * time.Millisecond
)

// Processors is the GOMAXPROCS for a program that only keeps a ledger: enough that a reader of mount events that wakes
// up finds one of the runtime's processors free, even if threads that wait for the kernel hold others.
func Processors() int { return runtime.NumCPU() + mostReaders + 4 }

// Config says what a ledger watches.
type Config struct {
	Node      string
	Boot      string   // As probe.Boot.Name gives it.
	Processes []string // Names of the programs whose processes are recorded.
	Before    []string // Programs that should not run yet when the ledger begins: the runtime and the kubelet.
	Method    Method   // Empty means MethodAuto.
	// Last is the end of an earlier ledger in the same file, zero if there is none. If its boot is this one, the time
	// since then is recorded as a gap.
	Last ledgerfile.Last
	Log  *slog.Logger
}

// Sink takes facts in their order, and keeps them before it returns. It is safe for concurrent use.
type Sink interface {
	Put(events []history.Event)
}

// Run keeps the ledger until ctx ends or watching fails. It calls ready once, when the sink has the first listing and
// every later change will follow.
func Run(ctx context.Context, cfg Config, sink Sink, ready func() error) error {
	if cfg.Node == "" || cfg.Boot == "" {
		return fmt.Errorf("keep the ledger: node is %q and boot is %q, want both", cfg.Node, cfg.Boot)
	}
	if cfg.Method == "" {
		cfg.Method = MethodAuto
	}
	l := &ledger{cfg: cfg, sink: sink}
	group, ctx := errgroup.WithContext(ctx)
	begun := make(chan struct{}, 3)
	group.Go(func() error { return l.watchMounts(ctx, begun) })
	group.Go(func() error { return l.watchProcesses(ctx, begun) })
	group.Go(func() error { return l.watchHoldings(ctx, begun) })
	group.Go(func() error {
		for range cap(begun) {
			select {
			case <-begun:
			case <-ctx.Done():
				return nil
			}
		}
		return ready()
	})
	return group.Wait()
}

type ledger struct {
	cfg  Config
	sink Sink
}

// put sets source, node and boot of facts, and puts them.
func (l *ledger) put(events ...history.Event) {
	for i := range events {
		e := &events[i]
		e.Source = "ledger/" + l.cfg.Node
		switch {
		case e.Mount != nil:
			e.Mount.Node, e.Mount.Boot = l.cfg.Node, l.cfg.Boot
		case e.Process != nil:
			e.Process.Node = l.cfg.Node
		case e.Holding != nil:
			e.Holding.Node, e.Holding.Boot = l.cfg.Node, l.cfg.Boot
		case e.Observer != nil:
			e.Observer.Node, e.Observer.Boot = l.cfg.Node, l.cfg.Boot
		}
	}
	l.sink.Put(events)
}

func (l *ledger) say(name string, state history.ObserverState, span history.Span, detail string) {
	l.put(history.Event{
		Kind: history.KindObserver, Span: span,
		Observer: &history.Observer{Name: name, State: state, Detail: detail},
	})
}

// begin records that the observer is on since the given moment, and the gap before it in the same boot.
func (l *ledger) begin(name string, from history.Time, detail string) {
	if last := l.cfg.Last; last.Boot == l.cfg.Boot {
		l.say(name, history.ObserverGap, history.Between(last.At, from), "the ledger did not run")
	}
	l.say(name, history.ObserverOn, history.At(from), detail)
}

// lookAgain calls look at that interval after the first look, which began at from, and records a beat once a second,
// until ctx ends.
func (l *ledger) lookAgain(
	ctx context.Context, name string, from history.Time, every time.Duration, look func(begin history.Time) error,
) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	looked, nextBeat := from, from.Add(beatEvery)
	for {
		select {
		case <-ctx.Done():
			l.say(name, history.ObserverOff, history.Between(looked, bootclock.Now()), "stopped")
			return nil
		case <-ticker.C:
		}
		looked = bootclock.Now()
		if err := look(looked); err != nil {
			return err
		}
		if looked >= nextBeat {
			l.say(name, history.ObserverBeat, history.Between(looked, bootclock.Now()), "")
			nextBeat = looked.Add(beatEvery)
		}
	}
}

func (l *ledger) watchMounts(ctx context.Context, begun chan<- struct{}) (err error) {
	w, method, why, err := newWatcher(l.cfg.Method, l.cfg.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	woken := make(chan struct{})
	stopWaking := context.AfterFunc(ctx, func() { w.wake(); close(woken) })
	defer func() {
		if !stopWaking() {
			<-woken // A wake that has begun must not meet a closed descriptor.
		}
	}()
	found, seen, err := w.first()
	if err != nil {
		return err
	}
	l.begin(ObserverMounts, seen, l.describeBegin(method, why))
	l.put(found...)
	w.deliver(l.put)
	begun <- struct{}{}
	nextBeat := bootclock.Now().Add(beatEvery)
	for ctx.Err() == nil {
		if seen, err = w.next(nextBeat.Sub(bootclock.Now())); err != nil {
			return err
		}
		if now := bootclock.Now(); now >= nextBeat {
			l.say(ObserverMounts, history.ObserverBeat, history.Between(seen, now), "")
			nextBeat = now.Add(beatEvery)
		}
	}
	w.deliver(nil)
	l.say(ObserverMounts, history.ObserverOff, history.Between(seen, bootclock.Now()), "stopped")
	return nil
}

// describeBegin returns the detail of the on fact: the method, and whether the runtime or the kubelet already ran.
func (l *ledger) describeBegin(method Method, why string) string {
	detail := string(method)
	if why != "" {
		detail += " (" + why + ")"
	}
	if len(l.cfg.Before) == 0 {
		return detail
	}
	running, err := probe.List(l.cfg.Before...)
	switch {
	case err != nil:
		return fmt.Sprintf("%s; what ran already is not known: %v", detail, err)
	case len(running) == 0:
		return fmt.Sprintf("%s; %s %s: none of them ran yet", detail, NothingRan, strings.Join(l.cfg.Before, ", "))
	}
	var names []string
	for _, p := range running {
		names = append(names, fmt.Sprintf("%s (pid %d)", p.Name, p.PID))
	}
	return fmt.Sprintf("%s; after %s", detail, strings.Join(names, ", "))
}
