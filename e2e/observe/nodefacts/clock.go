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

// reading is one measurement.
type reading struct {
	clusters.NodeClock
	at history.Time // On the node's clock.
}

// boot is the clock of one boot. Times that identify a process or the boot are always converted by the first reading.
type boot struct{ first, last reading }

// measure measures the node's clock.
func (c *clock) measure(ctx context.Context) error {
	measured, err := clusters.BootClock(ctx, c.cluster, c.node)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = reading{measured, bootclock.Now().Add(-measured.Offset)}
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

// same reports whether next is of the same boot as r: a reboot sets the clock back.
func (r reading) same(next reading) bool {
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

// of returns the clock of a boot, with its last reading.
func (c *clock) of(named string) boot {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.boots[named]
	if b == nil {
		b = &boot{c.last, c.last}
		c.boots[named] = b
	}
	if b.last.same(c.last) {
		b.last = c.last
	}
	return *b
}

// convert converts a fact to the harness's clock. Named is its boot; own is the field of the fact that names it, or
// nil.
func (c *clock) convert(e *history.Event, named string, own *string) {
	b := c.of(named)
	if b.first.NodeClock == (clusters.NodeClock{}) {
		return // One kernel, one clock.
	}
	start := func(t history.Time) history.Time { return b.first.span(history.At(t)).NotBefore }
	e.Span = b.last.span(e.Span)
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
