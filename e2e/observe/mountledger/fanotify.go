package mountledger

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// fanotifyWatcher reads the kernel's mount events. An event has nothing but the mount's unique id, so each mount is
// looked up at once: it may live for microseconds.
type fanotifyWatcher struct {
	fd   int
	stop alarm

	out     chan []sighting // From the readers, in the kernel's order.
	failed  chan error      // Why a reader ended.
	woken   chan struct{}   // Closed by wake.
	once    sync.Once
	readers sync.WaitGroup
	upTo    history.Time // What next returned last.

	// putting is held while sightings become facts and are put, so that they keep their order.
	putting sync.Mutex
	put     func(...history.Event) // Nil until deliver.
	early   map[uint64]bool        // The mounts of the listing whose attach events may still be queued.

	// emptyAt is when a read began that found the queue empty. Everything before it is in out, put, or about to be put
	// by a reader that holds putting.
	emptyAt atomic.Int64
	waiting atomic.Int64 // How many batches went into out and are not put.

	// The rest is for the readers alone, one at a time. A thread of ordinary priority must not hold this lock: if it
	// waited for a processor, no reader could look up mounts that are about to go.
	reading sync.Mutex
	stat    *statter
	buf     []byte
	events  []mountEvent
	seen    []sighting   // Not in out yet.
	seenAt  history.Time // When the last read that found something was done.
}

// sighting is an event and its mount, looked up at once.
type sighting struct {
	mountEvent
	mount history.Mount
	err   error
	span  history.Span
}

func newFanotify(log *slog.Logger) (*fanotifyWatcher, error) {
	const flags = unix.FAN_CLASS_NOTIF | unix.FAN_CLOEXEC | unix.FAN_NONBLOCK | unix.FAN_UNLIMITED_QUEUE |
		unix.FAN_REPORT_MNT
	begin := bootclock.Now()
	fd, err := unix.FanotifyInit(flags, 0)
	if err != nil {
		return nil, fmt.Errorf("take mount events (Linux 6.15 and later): %w", err)
	}
	stop, err := markNamespace(fd)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	w := &fanotifyWatcher{
		fd: fd, stop: stop, out: make(chan []sighting, mostBatches), failed: make(chan error, mostReaders),
		woken: make(chan struct{}), upTo: begin, stat: newStatter(), buf: make([]byte, 64<<10),
	}
	w.emptyAt.Store(int64(begin))
	w.startReaders(log)
	return w, nil
}

func markNamespace(fd int) (alarm, error) {
	// thread-self, because a test's thread may have a mount namespace that its process does not.
	ns, err := unix.Open("/proc/thread-self/ns/mnt", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return alarm{}, fmt.Errorf("open mount namespace: %w", err)
	}
	const events = unix.FAN_MNT_ATTACH | unix.FAN_MNT_DETACH
	err = unix.FanotifyMark(fd, unix.FAN_MARK_ADD|unix.FAN_MARK_MNTNS, events, ns, "")
	if err = errors.Join(err, unix.Close(ns)); err != nil {
		return alarm{}, fmt.Errorf("mark mount namespace: %w", err)
	}
	return newAlarm()
}

func (w *fanotifyWatcher) wake() { w.once.Do(func() { close(w.woken) }) }

func (w *fanotifyWatcher) close() error {
	w.stop.ring()
	w.readers.Wait()
	return errors.Join(unix.Close(w.fd), unix.Close(w.stop.fd))
}

// first lists the mounts. The mark is set already, so a mount that appears meanwhile is listed, queued, or both.
func (w *fanotifyWatcher) first() ([]history.Event, history.Time, error) {
	begin := bootclock.Now()
	ids, err := listMounts(0)
	if err != nil {
		return nil, 0, err
	}
	w.early = make(map[uint64]bool, len(ids))
	stat := newStatter()
	var found []history.Event
	for _, id := range ids {
		m, err := stat.stat(id)
		if errors.Is(err, errGone) {
			continue // Its detach event is queued.
		}
		now := bootclock.Now()
		if err == nil {
			m.Identity, err = identifyMount(m, id, unix.STATX_MNT_ID_UNIQUE)
		}
		m.MountID = id
		if err != nil {
			m.Unknown = true
			found = append(found, lossFact(history.Between(begin, now), fmt.Sprintf("mount %d was there: %v", id, err)))
		}
		w.early[id] = true
		found = append(found, mountFact(history.MountPresent, m, history.At(now)))
	}
	return found, begin, nil
}

// deliver sets where facts are put from now on; nil means nowhere.
func (w *fanotifyWatcher) deliver(put func(...history.Event)) {
	w.putting.Lock()
	defer w.putting.Unlock()
	w.put = put
}

// next puts what the readers have seen and not put themselves.
func (w *fanotifyWatcher) next(timeout time.Duration) (history.Time, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	var seen []sighting
	select {
	case seen = <-w.out:
		defer w.waiting.Add(-1)
	case <-w.woken:
	case <-timer.C:
	case err := <-w.failed:
		return w.upTo, err
	}
	w.putting.Lock()
	defer w.putting.Unlock()
	emptyAt := history.Time(w.emptyAt.Load()) // Read before out: what came earlier is in it, or put.
	for len(seen) < mostAtOnce {
		select {
		case more := <-w.out:
			defer w.waiting.Add(-1)
			seen = append(seen, more...)
			continue
		default:
			w.upTo = emptyAt
		}
		break
	}
	return w.upTo, w.report(seen)
}

// report turns sightings into facts and puts them; putting is held. A mount that was moved is attached again under the
// id it had.
func (w *fanotifyWatcher) report(seen []sighting) error {
	events := make([]history.Event, 0, len(seen))
	for _, s := range seen {
		if s.overflow {
			events = append(events, lossFact(s.span, "the kernel's queue of mount events overflowed"))
			again, _, err := w.first()
			events = append(events, again...)
			if err != nil {
				w.put(events...)
				return err
			}
			continue
		}
		events = append(events, w.facts(s)...)
	}
	if len(events) > 0 {
		w.put(events...)
	}
	return nil
}

// facts returns the facts of a sighting.
func (w *fanotifyWatcher) facts(s sighting) []history.Event {
	switch {
	case !s.attach:
		delete(w.early, s.id)
		return []history.Event{mountFact(history.MountDetach, history.Mount{MountID: s.id}, s.span)}
	case w.early[s.id] && !s.detach:
		delete(w.early, s.id) // It was listed as present.
		return nil
	}
	if s.err == nil {
		s.mount.Identity, s.err = identifyMount(s.mount, s.id, unix.STATX_MNT_ID_UNIQUE)
	}
	s.mount.MountID = s.id
	s.mount.Unknown = s.err != nil
	events := []history.Event{mountFact(history.MountAttach, s.mount, s.span)}
	if s.err != nil {
		detail := fmt.Sprintf("mount %d appeared and could not be identified: %v", s.id, s.err)
		events = append(events, lossFact(s.span, detail))
	}
	return events
}
