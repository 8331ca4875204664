// Package nodefacts installs the agent on nodes, which records mounts, processes and held volumes there, and reads the
// files of the agent and the CSI driver on each node into the history of a trial.
//
// Its promise: every line of a node's file becomes one fact, once and in its order, on the harness's clock, whatever
// happens to the node meanwhile; a time for which that is not certain is recorded as a gap.
package nodefacts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	firstPause = 100 * time.Millisecond // Between two attempts to reach a node; doubled up to lastPause.
	lastPause  = 2 * time.Second
	// silence is the time without a byte after which a connection is closed: a writer beats every second.
	silence = 10 * time.Second
	// standstill is the time without a byte after which the node may have been paused: its clock is measured again. A
	// shorter pause is seen within measureEvery.
	standstill = 1500 * time.Millisecond
	// drainBound bounds how long Stop waits for one node.
	drainBound = 10 * time.Second
)

// Config says which facts are read.
type Config struct {
	Cluster  clusters.Cluster // Measures the boot clocks of its nodes.
	Nodes    []clusters.Node
	CSI      bool // The nodes run the CSI driver: read its calls too.
	Recorder history.Recorder
	Log      *slog.Logger
}

// Tailer reads the files of the nodes.
type Tailer struct {
	stop    context.CancelFunc
	readers []*reader
	wait    sync.WaitGroup
}

// Start begins to read every file of every node from its begin, and waits for files that do not exist yet. Reading ends
// with Stop, or with ctx; what is unread then is recorded as a gap.
func Start(ctx context.Context, cfg Config) *Tailer {
	ctx, stop := context.WithCancel(ctx)
	t := &Tailer{stop: stop}
	oneKernel := slices.Contains(cfg.Cluster.Capabilities().Can, clusters.OneKernel)
	for _, node := range cfg.Nodes {
		c := &clock{cluster: cfg.Cluster, node: node, boots: map[string]*boot{}}
		if !oneKernel {
			t.wait.Go(func() { c.keep(ctx) })
		}
		for _, f := range files() {
			if f.csi && !cfg.CSI || f.controlPlane && node.Role() != clusters.RoleControlPlane {
				continue
			}
			r := newReader(cfg, f, node, c)
			t.readers = append(t.readers, r)
			t.wait.Go(func() { r.run(ctx) })
		}
	}
	return t
}

// Stop reads every file up to this moment and ends. A file that could not be read so far within ten seconds, or before
// ctx ended, gets a gap on record.
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

// reader reads one file of one node.
type reader struct {
	file     file
	node     clusters.Node
	clock    *clock
	recorder history.Recorder
	log      *slog.Logger
	in       lines
	named    string // The boot that a fact named last. A process fact names none and is of this one.

	mu    sync.Mutex
	seen  history.Time  // The file's writer saw everything up to then.
	boot  string        // The boot in its last observer fact.
	moved chan struct{} // Closed and replaced whenever seen moves.
}

func newReader(cfg Config, f file, node clusters.Node, c *clock) *reader {
	r := &reader{
		file: f, node: node, clock: c, recorder: cfg.Recorder,
		log:  cfg.Log.With("node", node.Name(), "file", f.path),
		seen: bootclock.Now(), moved: make(chan struct{}),
	}
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
		r.log.Debug("it is read again", "offset", r.in.offset, "pause", pause, "error", err)
		if await.For(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, lastPause)
	}
}

// errSilent is the error of a connection that was silent for too long.
var errSilent = errors.New("the file was silent")

// follow reads from the offset on until the connection ends, falls silent, or ctx ends.
func (r *reader) follow(ctx context.Context) error {
	// The agent follows the file while its standard input is open. To cut the command off costs a search of the node's
	// processes.
	alive, end := io.Pipe()
	running, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cancel(nil)
	endInput := func() { _ = end.Close() } // The close of such a pipe never fails.
	defer context.AfterFunc(running, endInput)()
	defer context.AfterFunc(ctx, func() {
		endInput()
		time.AfterFunc(lastPause, func() { cancel(ctx.Err()) })
	})()
	quiet := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer quiet.Stop()
	last := time.Now()
	err := r.tail(running, clusters.Command{
		Argv:  []string{clusters.AgentPath, "tail", "--follow", "--from", r.from(), r.file.path},
		Stdin: alive,
		Stdout: writerFunc(func(p []byte) (int, error) {
			quiet.Reset(silence)
			before := last
			if last = time.Now(); last.Sub(before) > standstill {
				if err := r.clock.measure(running); err != nil {
					return 0, err
				}
			}
			return r.in.Write(p)
		}),
	})
	endInput()
	if cause := context.Cause(running); errors.Is(cause, errSilent) {
		return cause
	}
	return err
}

func (r *reader) from() string { return strconv.FormatInt(r.in.from(), 10) }

// tail runs a command that writes the file's lines. A reboot of the node ends it, so the clock is measured before each.
func (r *reader) tail(ctx context.Context, cmd clusters.Command) error {
	if err := r.clock.measure(ctx); err != nil {
		return err
	}
	if _, err := r.node.Exec(ctx, cmd); err != nil {
		return fmt.Errorf("read %s of node %q: %w", r.file.name, r.node.Name(), err)
	}
	return nil
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// take records one line.
func (r *reader) take(offset int64, line []byte) {
	if len(line) == 0 {
		return // A writer ends a line that a crash left without an end.
	}
	e, boot, err := r.file.decode(r.node.Name(), line)
	if err != nil {
		r.lose(offset, err)
		return
	}
	if boot != nil {
		r.named = *boot
	}
	r.clock.convert(&e, r.named, boot)
	r.recorder.Record(e)
	if e.Observer == nil || e.Observer.Name != r.file.observer {
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

// lose records a line of the file that cannot be read.
func (r *reader) lose(offset int64, why error) {
	const mostDetail = 300 // The reason may quote the line.
	detail := fmt.Sprintf("what %s holds at offset %d cannot be read: %v", r.file.name, offset, why)
	seen, _ := r.progress()
	span := history.Between(seen, bootclock.Now())
	for _, observer := range append([]string{r.file.observer}, r.file.others...) {
		r.say(observer, history.ObserverLoss, span, detail[:min(len(detail), mostDetail)])
	}
}

func (r *reader) progress() (history.Time, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen, r.moved
}

func (r *reader) say(observer string, state history.ObserverState, span history.Span, detail string) {
	r.mu.Lock()
	boot := r.boot
	r.mu.Unlock()
	r.recorder.Record(history.Event{
		Kind: history.KindObserver, Source: "tail/" + r.node.Name(), Span: span,
		Observer: &history.Observer{
			Name: observer, Node: r.node.Name(), Boot: boot, State: state, Detail: detail,
		},
	})
}

// awaitSeen waits until the writer has seen everything up to the given moment.
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

// finish reads the rest of the file, and records a gap if that does not reach the given moment.
func (r *reader) finish(ctx context.Context, until history.Time) {
	var err error
	if seen, _ := r.progress(); seen < until {
		// A short read may still find the end of the file of a node that was stopped.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastPause)
		defer cancel()
		err = r.tail(ctx, clusters.Command{
			Argv: []string{clusters.AgentPath, "tail", "--from", r.from(), r.file.path}, Stdout: &r.in,
		})
		r.in.again()
	}
	if seen, _ := r.progress(); seen < until {
		detail := r.file.name + " has not said that it saw everything up to the end"
		if err != nil {
			detail += ": " + err.Error()
		}
		r.say(r.file.observer, history.ObserverGap, history.Between(seen, bootclock.Now()), detail)
	}
}
