package mountledger

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/history"
)

// mostReaders bounds the number of reading threads: each event wakes them all.
const mostReaders = 8

// startReaders starts a reading thread on every processor, ahead of ordinary threads. The kernel queues an event while
// the mounting thread is still in its system call, and wakes the readers: the one on the same processor then runs
// before that thread gets back to its program and can unmount again.
func (w *fanotifyWatcher) startReaders(log *slog.Logger) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		allowed.Set(0)
	}
	started := 0
	for cpu := 0; started < min(allowed.Count(), mostReaders); cpu++ {
		if allowed.IsSet(cpu) {
			started++
			w.readers.Go(func() { w.readOn(cpu, log) })
		}
	}
}

func (w *fanotifyWatcher) readOn(cpu int, log *slog.Logger) {
	runtime.LockOSThread() // Never unlocked: the thread ends with this goroutine, and its priority with it.
	var only unix.CPUSet
	only.Set(cpu)
	if err := errors.Join(unix.SchedSetaffinity(0, &only), raisePriority()); err != nil {
		log.Warn("a reader of mount events is no better than any other thread", "processor", cpu, "error", err)
	}
	for {
		if stopped, err := w.awaitEvent(); stopped || err != nil {
			w.fail(err)
			return
		}
		w.drain()
	}
}

func (w *fanotifyWatcher) awaitEvent() (stopped bool, err error) {
	const forever = time.Hour
	ready, err := pollFor(w.fd, unix.POLLIN, w.stop, forever)
	return !ready && w.stop.rung(), err
}

func (w *fanotifyWatcher) fail(err error) {
	if err == nil {
		return
	}
	w.mu.Lock()
	w.err = errors.Join(w.err, err)
	w.mu.Unlock()
	signal(w.found)
}

// mostAtOnce bounds what is seen and not yet taken over by next, in events; what is beyond stays queued.
const mostAtOnce = 1024

// drain reads what is queued and looks every new mount up.
func (w *fanotifyWatcher) drain() {
	w.mu.Lock()
	defer w.mu.Unlock()
	before := len(w.seen)
	for w.err == nil && len(w.seen) < mostAtOnce {
		asked := bootclock.Now()
		n, err := unix.Read(w.fd, w.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			w.emptyAt = asked
			if len(w.seen) > before {
				signal(w.found)
			}
			return
		case errors.Is(err, unix.EINTR):
		case err != nil:
			w.err = fmt.Errorf("read mount events: %w", err)
		default:
			w.lookUp(w.buf[:n])
		}
	}
	signal(w.found)
}

func (w *fanotifyWatcher) lookUp(buf []byte) {
	span := history.Between(w.emptyAt, bootclock.Now())
	w.events, w.err = parseEvents(buf, w.events[:0])
	for _, e := range w.events {
		s := sighting{mountEvent: e, span: span}
		if e.attach {
			s.mount, s.err = w.stat.stat(e.id)
		}
		w.seen = append(w.seen, s)
	}
}
