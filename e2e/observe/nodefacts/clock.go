package nodefacts

import (
	"context"
	"sync"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	// mostDrift bounds the drift between two clocks: 500 ppm each, the most that the kernel lets NTP slew one
	// (adjtimex(2)).
	mostDrift = 1000e-6
	// measureEvery keeps the error by drift below that of most connections.
	measureEvery = 5 * time.Second
)

// clock converts times of a node's boot clock to the harness's. All files of the node share it, so that one boot has
// one clock in all of them.
type clock struct {
	cluster clusters.Cluster
	node    clusters.Node

	mu    sync.Mutex
	last  reading
	boots map[string]*boot
}

// reading is one measurement. A machine that is paused meanwhile has read its clock before that or after.
type reading struct {
	clusters.NodeClock
	since, at history.Time // When it began and ended, on the node's clock.
}

// boot is the clock of one boot. Times that identify a process or the boot are always converted by the first reading.
// A machine that was paused as a whole has a clock that stood still: there the next of its parts begins.
type boot struct {
	first reading
	parts []part
}

// part is a time in which a clock never stood still, from one reading to another.
type part struct{ from, last reading }

// measure measures the node's clock.
func (c *clock) measure(ctx context.Context) error {
	begin := bootclock.Now()
	measured, err := clusters.BootClock(ctx, c.cluster, c.node)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = reading{measured, begin.Add(-measured.Offset), bootclock.Now().Add(-measured.Offset)}
	return nil
}

// keep measures at intervals until ctx ends. If one fails, the error of the last one grows.
func (c *clock) keep(ctx context.Context) {
	tick := time.NewTicker(measureEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = c.measure(ctx) // The reader of a file logs why a node does not answer.
		}
	}
}

// same reports whether next is of the same boot as r: it began before r was read.
func (r reading) same(next reading) bool {
	return next.Offset-next.Error <= time.Duration(r.at.Add(r.Offset))
}

// agrees reports whether the clock never stood still between r and next.
func (r reading) agrees(next reading) bool {
	return max(r.Offset, next.Offset)-min(r.Offset, next.Offset) <= r.errorAt(next.at)+next.Error
}

// errorAt is the error of the reading at another time of the same boot.
func (r reading) errorAt(t history.Time) time.Duration {
	return r.Error + time.Duration(mostDrift*float64(max(t, r.at)-min(t, r.at)))
}

// span converts a span.
func (r reading) span(s history.Span) history.Span {
	return history.Span{
		NotBefore: s.NotBefore.Add(r.Offset - r.errorAt(s.NotBefore)),
		NotAfter:  s.NotAfter.Add(r.Offset + r.errorAt(s.NotAfter)),
	}
}

// read adds a reading, unless it is of another boot.
func (b *boot) read(next reading) {
	last := &b.parts[len(b.parts)-1].last
	switch {
	case !last.same(next):
	case last.agrees(next):
		*last = next
	default:
		b.parts = append(b.parts, part{next, next})
	}
}

// span converts a span. A time between two parts may be of either.
func (b *boot) span(s history.Span) history.Span {
	at := func(t history.Time) history.Span {
		var span history.Span
		for i, p := range b.parts {
			switch here := p.last.span(history.At(t)); {
			case i+1 < len(b.parts) && t >= b.parts[i+1].from.at: // It is later.
			case span == history.Span{}:
				span = here
			case t > b.parts[i-1].last.since:
				span.NotBefore, span.NotAfter = min(span.NotBefore, here.NotBefore), max(span.NotAfter, here.NotAfter)
			}
		}
		return span
	}
	return history.Span{NotBefore: at(s.NotBefore).NotBefore, NotAfter: at(s.NotAfter).NotAfter}
}

// of returns the clock of a boot, with its last reading. The caller holds the lock.
func (c *clock) of(named string) *boot {
	b := c.boots[named]
	if b == nil {
		b = &boot{c.last, []part{{c.last, c.last}}}
		c.boots[named] = b
	}
	b.read(c.last)
	return b
}

// convert converts a fact to the harness's clock. Named is its boot; own is the field of the fact that names it, or
// nil.
func (c *clock) convert(e *history.Event, named string, own *string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.of(named)
	if b.first.NodeClock == (clusters.NodeClock{}) {
		return // One kernel, one clock.
	}
	start := func(t history.Time) history.Time { return b.first.span(history.At(t)).NotBefore }
	e.Span = b.span(e.Span)
	if e.Process != nil {
		e.Process.Start = start(e.Process.Start)
	}
	if e.Holding != nil && e.Holding.Start != 0 {
		e.Holding.Start = start(e.Holding.Start)
	}
	if own == nil || *own == "" {
		return
	}
	if at, ok := history.ParseBoot(*own); ok && e.Observer != nil && e.Observer.State == history.ObserverOn {
		booted := b.first.span(history.At(at))
		e.Observer.Booted = &booted
	}
	*own = "node clock " + *own // A name of the boot, no longer a time.
}
