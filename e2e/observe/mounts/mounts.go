package mounts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/history"
	"github.com/seatrial/seatrial/e2e/observe/install"
)

const (
	firstPause = 100 * time.Millisecond // Between two attempts to reach a node; doubled up to lastPause.
	lastPause  = 2 * time.Second
	// silence bounds the time without a byte after which a connection is given up: a ledger beats every second.
	silence = 10 * time.Second
	// drainBound bounds how long Stop waits for one node.
	drainBound = 10 * time.Second
	// observerName is what the ledger calls the observer of mounts.
	observerName = "mounts"
)

// Tailer reads the ledgers of nodes.
type Tailer struct {
	stop    context.CancelFunc
	readers []*reader
	wait    sync.WaitGroup
}

// Start begins to read the ledger of every node, from its begin. It goes on until Stop, or until ctx ends; what ctx
// cuts off is recorded as a gap.
func Start(ctx context.Context, nodes []clusters.Node, recorder history.Recorder, log *slog.Logger) *Tailer {
	ctx, stop := context.WithCancel(ctx)
	t := &Tailer{stop: stop}
	for _, node := range nodes {
		r := newReader(node, recorder, log.With("node", node.Name()))
		t.readers = append(t.readers, r)
		t.wait.Go(func() { r.run(ctx) })
	}
	return t
}

// Stop reads every ledger up to this moment and ends. A node whose ledger could not be read so far within ten seconds,
// or before ctx ended, gets a gap on record.
func (t *Tailer) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainBound)
	defer cancel()
	now := bootclock.Now()
	var drains sync.WaitGroup
	for _, r := range t.readers {
		drains.Go(func() { r.awaitSeen(ctx, now) })
	}
	drains.Wait()
	t.stop()
	t.wait.Wait()
	for _, r := range t.readers {
		drains.Go(func() { r.finish(ctx, now) })
	}
	drains.Wait()
}

// reader reads the ledger of one node.
type reader struct {
	node     clusters.Node
	recorder history.Recorder
	log      *slog.Logger
	in       lines

	mu    sync.Mutex
	seen  history.Time  // The ledger has said that it saw everything up to then.
	boot  string        // The boot it last spoke of.
	moved chan struct{} // Closed and made anew whenever seen moves.
}

func newReader(node clusters.Node, recorder history.Recorder, log *slog.Logger) *reader {
	r := &reader{node: node, recorder: recorder, log: log, seen: bootclock.Now(), moved: make(chan struct{})}
	r.in.line, r.in.broken = r.take, r.lose
	return r
}

func (r *reader) run(ctx context.Context) {
	pause := firstPause
	for {
		before := r.in.offset
		err := r.follow(ctx)
		r.in.again()
		if ctx.Err() != nil {
			return
		}
		if r.in.offset > before {
			pause = firstPause
		}
		r.log.Debug("the ledger is read again", "offset", r.in.offset, "pause", pause, "error", err)
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		pause = min(2*pause, lastPause)
	}
}

// errSilent is why a connection that said nothing was given up.
var errSilent = errors.New("the ledger was silent")

// follow reads from the offset on until the connection ends, falls silent, or ctx ends.
func (r *reader) follow(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	// The agent follows for as long as its standard input is open.
	alive, end := io.Pipe()
	stop := context.AfterFunc(ctx, func() { _ = end.Close() }) // The close of such a pipe never fails.
	defer stop()
	err := r.tail(ctx, clusters.Command{
		Argv:   []string{install.AgentPath, "tail", "--follow", "--from", r.from(), install.LedgerPath},
		Stdin:  alive,
		Stdout: writerFunc(func(p []byte) (int, error) { quiet.Reset(silence); return r.in.Write(p) }),
	})
	_ = end.Close() // The close of such a pipe never fails.
	if cause := context.Cause(ctx); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

func (r *reader) from() string { return strconv.FormatInt(r.in.offset, 10) }

func (r *reader) tail(ctx context.Context, cmd clusters.Command) error {
	if _, err := r.node.Exec(ctx, cmd); err != nil {
		return fmt.Errorf("read ledger of node %q: %w", r.node.Name(), err)
	}
	return nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// take records one line.
func (r *reader) take(offset int64, line []byte) {
	if len(line) == 0 {
		return // The ledger ends a line that a crash has torn.
	}
	e, err := decode(r.node.Name(), line)
	if err != nil {
		r.lose(offset, err)
		return
	}
	r.recorder.Record(e)
	if e.Observer == nil || e.Observer.Name != observerName {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.boot = e.Observer.Boot
	if e.Observer.State == history.ObserverBeat && e.Span.NotBefore > r.seen {
		r.seen = e.Span.NotBefore
		close(r.moved)
		r.moved = make(chan struct{})
	}
}

// lose records that something is in the ledger and cannot be read.
func (r *reader) lose(offset int64, why error) {
	const mostDetail = 300 // The reason may quote the line, and that comes from the node.
	detail := fmt.Sprintf("what the ledger holds at offset %d cannot be read: %v", offset, why)
	seen, _ := r.progress()
	r.say(history.ObserverLoss, history.Between(seen, bootclock.Now()), detail[:min(len(detail), mostDetail)])
}

func (r *reader) progress() (history.Time, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen, r.moved
}

func (r *reader) say(state history.ObserverState, span history.Span, detail string) {
	r.mu.Lock()
	boot := r.boot
	r.mu.Unlock()
	r.recorder.Record(history.Event{
		Kind: history.KindObserver, Source: "tail/" + r.node.Name(), Span: span,
		Observer: &history.Observer{Name: observerName, Node: r.node.Name(), Boot: boot, State: state, Detail: detail},
	})
}

// awaitSeen waits until the ledger has said that it saw everything up to the given moment.
func (r *reader) awaitSeen(ctx context.Context, until history.Time) {
	for {
		seen, moved := r.progress()
		if seen >= until {
			return
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return
		}
	}
}

// finish reads what the ledger holds now, and records a gap when that does not reach the given moment.
func (r *reader) finish(ctx context.Context, until history.Time) {
	var err error
	if seen, _ := r.progress(); seen < until {
		// The time for waiting is over; one short look may still find the end of a node that was stopped.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPause)
		defer cancel()
		err = r.tail(ctx, clusters.Command{
			Argv: []string{install.AgentPath, "tail", "--from", r.from(), install.LedgerPath}, Stdout: &r.in,
		})
		r.in.again()
	}
	if seen, _ := r.progress(); seen < until {
		detail := "the ledger has not said that it saw everything up to the end"
		if err != nil {
			detail += ": " + err.Error()
		}
		r.say(history.ObserverGap, history.Between(seen, bootclock.Now()), detail)
	}
}
