package mountledger

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

const (
	// mostReaders bounds the number of reading threads: each event wakes them all.
	mostReaders = 8
	// mostAtOnce bounds what is taken over at once, in events, and mostBatches what waits for that, in reads.
	mostAtOnce  = 1024
	mostBatches = 1024
	// lookEvery is how often the first reader looks although nothing woke it. The span of a mount begins with the last
	// look, so this bounds its length on an idle node.
	lookEvery = 100 * time.Millisecond
	forever   = time.Hour
	// mostFew and alone say what a reader puts itself: so few events at most, and so long after those before them.
	mostFew = 4
	alone   = 300 * time.Microsecond
)

// startReaders starts a reading thread on every processor, ahead of ordinary threads. The kernel queues an event while
// the mounting thread is still in its system call, and wakes the readers: the one on the same processor then runs
// before that thread gets back to its program and can unmount again.
func (w *fanotifyWatcher) startReaders(log *slog.Logger) {
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		allowed.Set(0)
	}
	most := min(allowed.Count(), mostReaders)
	for cpu, started := 0, 0; started < most; cpu++ {
		if !allowed.IsSet(cpu) {
			continue
		}
		look := forever
		if started == 0 {
			look = lookEvery
		}
		started++
		w.readers.Go(func() { w.readOn(cpu, look, log) })
	}
}

func (w *fanotifyWatcher) readOn(cpu int, look time.Duration, log *slog.Logger) {
	runtime.LockOSThread() // Never unlocked: the thread ends with this goroutine, and its priority with it.
	var only unix.CPUSet
	only.Set(cpu)
	if err := errors.Join(unix.SchedSetaffinity(0, &only), raisePriority()); err != nil {
		log.Warn("a reader of mount events is no better than any other thread", "processor", cpu, "error", err)
	}
	for {
		ready, err := pollFor(w.fd, unix.POLLIN, w.stop, look)
		if err == nil && !ready && w.stop.rung() {
			return
		}
		if err == nil {
			var few []sighting
			if few, err = w.drain(); few != nil {
				err = errors.Join(err, w.putAtOnce(few))
			}
		}
		if err != nil {
			w.failed <- fmt.Errorf("read mount events: %w", err)
			return
		}
	}
}

// drain reads what is queued, looks every new mount up and hands it on. What it returns is for putAtOnce.
func (w *fanotifyWatcher) drain() ([]sighting, error) {
	w.reading.Lock()
	defer w.reading.Unlock()
	for len(w.seen) < mostAtOnce {
		asked := bootclock.Now()
		n, err := unix.Read(w.fd, w.buf)
		switch {
		case errors.Is(err, unix.EAGAIN):
			few := w.takeFew(asked)
			if few != nil || w.handOn() {
				w.emptyAt.Store(int64(asked))
			}
			return few, nil
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		}
		if err := w.lookUp(w.buf[:n]); err != nil {
			return nil, err
		}
	}
	w.handOn()
	return nil, nil
}

func (w *fanotifyWatcher) lookUp(buf []byte) (err error) {
	span := history.Between(history.Time(w.emptyAt.Load()), bootclock.Now())
	w.events, err = parseEvents(buf, w.events[:0])
	for _, e := range w.events {
		s := sighting{mountEvent: e, span: span}
		if e.attach {
			s.mount, s.err = w.stat.stat(e.id)
		}
		w.seen = append(w.seen, s)
	}
	return err
}

// handOn puts what was seen into out. Where that is full it stays, to be handed on by a later drain.
func (w *fanotifyWatcher) handOn() bool {
	if len(w.seen) == 0 {
		return true
	}
	w.waiting.Add(1)
	select {
	case w.out <- w.seen:
		w.seen = nil
		return true
	default:
		w.waiting.Add(-1)
		return false
	}
}

// takeFew takes what was just seen when it came alone, and then holds putting for putAtOnce. On an idle machine the
// wake-up of next takes longer than all else on the way of a mount to its record; in a burst it does not, and this
// thread has better things to do.
func (w *fanotifyWatcher) takeFew(asked history.Time) []sighting {
	if len(w.seen) == 0 {
		return nil
	}
	before := w.seenAt
	w.seenAt = asked
	if len(w.seen) > mostFew || asked.Sub(before) < alone || w.waiting.Load() > 0 || !w.putting.TryLock() {
		return nil
	}
	if w.put == nil || slices.ContainsFunc(w.seen, func(s sighting) bool { return s.overflow }) {
		w.putting.Unlock()
		return nil
	}
	few := w.seen
	w.seen = nil
	return few
}

// putAtOnce puts what takeFew took. Other readers may go on meanwhile: what they see comes after it, since they neither
// get the lock nor does next put what they hand on without it.
func (w *fanotifyWatcher) putAtOnce(few []sighting) error {
	defer w.putting.Unlock()
	return w.report(few)
}
