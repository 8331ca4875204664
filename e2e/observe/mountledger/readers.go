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
	// mostAtOnce bounds what next takes at once, in events, and mostBatches what waits in out, in reads.
	mostAtOnce  = 1024
	mostBatches = 1024
	// lookEvery is how often the first reader reads without being woken. The span of a mount begins with the last read
	// that found nothing, so this bounds its length on an idle node.
	lookEvery = 100 * time.Millisecond
	forever   = time.Hour
	// A reader itself puts at most mostFew events, at least alone after those before them.
	mostFew = 4
	alone   = 300 * time.Microsecond
)

// startReaders starts a reading thread on every processor, with priority over ordinary threads. The kernel queues an
// event and wakes the readers while the mounting thread is still in its system call: the reader on the same processor
// runs before that thread returns to its program and can unmount again.
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
		ready, rung, err := pollFor(w.fd, unix.POLLIN, w.stop, look)
		if err == nil && !ready && rung {
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

// drain reads the queue, looks up every new mount and hands it on. What it returns is for putAtOnce.
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

// handOn moves what was seen into out. If that is full, a later drain does.
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

// takeFew takes what was just seen if it came alone, and then holds putting for putAtOnce. On an idle machine, waking
// next would take longer than everything else between a mount and its record. In a burst it does not, and this thread
// must read on.
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

// putAtOnce puts what takeFew took. What other readers see meanwhile is put later: they do not get the lock, and next
// needs it too.
func (w *fanotifyWatcher) putAtOnce(few []sighting) error {
	defer w.putting.Unlock()
	return w.report(few)
}

// raisePriority gives the calling thread priority over ordinary ones: real-time scheduling, or the lowest nice value if
// the kernel's group scheduling gives this control group no real-time budget.
func raisePriority() error {
	attr := unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	fifoErr := unix.SchedSetAttr(0, &attr, 0)
	if fifoErr == nil {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20); err != nil {
		return fmt.Errorf("raise priority: %w", errors.Join(fifoErr, err))
	}
	return nil
}
