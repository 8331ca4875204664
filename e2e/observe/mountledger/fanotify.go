package mountledger

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/history"
)

// fanotifyWatcher takes the kernel's mount events. An event carries nothing but the mount's unique id, so each is
// looked up at once, before anything else is done with it: a mount may live for microseconds.
type fanotifyWatcher struct {
	fd    int
	stop  alarm
	early map[uint64]bool // The mounts of the listing whose attach events may still be queued.

	found   chan struct{} // Holds one token when there is something in seen, or a reader failed.
	woken   chan struct{}
	once    sync.Once // Closes woken.
	readers sync.WaitGroup

	mu      sync.Mutex // Held from a read until what was read is looked up: one reader at a time, in order.
	stat    *statter
	buf     []byte
	events  []mountEvent
	seen    []sighting
	emptyAt history.Time // The queue was seen empty by a read that began then.
	err     error        // Why a reader ended.
}

// sighting is an event and what could be learnt of its mount at once.
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
		fd: fd, stop: stop, found: make(chan struct{}, 1), woken: make(chan struct{}),
		stat: newStatter(), buf: make([]byte, 64<<10), emptyAt: begin,
	}
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

// first lists the mounts. The mark is set already, so a mount that comes meanwhile is listed, queued, or both.
func (w *fanotifyWatcher) first() (batch, error) {
	begin := bootclock.Now()
	ids, err := listMounts()
	if err != nil {
		return batch{}, err
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
			m.Identity, err = identify(m.Identity)
		}
		m.MountID = id
		if err != nil {
			m.Unknown = true
			found = append(found, lossFact(history.Between(begin, now), fmt.Sprintf("mount %d was there: %v", id, err)))
		}
		w.early[id] = true
		found = append(found, mountFact(history.MountPresent, m, history.At(now)))
	}
	return batch{events: found, seenUpTo: begin}, nil
}

// next takes over what the readers have seen. When the time is up it looks once itself, so that it can say up to when
// nothing was missed.
func (w *fanotifyWatcher) next(timeout time.Duration) (batch, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-w.found:
	case <-w.woken:
		w.drain()
	case <-timer.C:
		w.drain()
	}
	w.mu.Lock()
	seen, upTo, err := w.seen, w.emptyAt, w.err
	w.seen = nil
	w.mu.Unlock()
	if err != nil {
		return batch{}, err
	}
	return w.report(seen, upTo)
}

// report turns sightings into facts. A mount that was moved is attached again under the id it had.
func (w *fanotifyWatcher) report(seen []sighting, upTo history.Time) (batch, error) {
	out := batch{events: make([]history.Event, 0, len(seen)), seenUpTo: upTo}
	for _, s := range seen {
		switch {
		case s.overflow:
			out.events = append(out.events, lossFact(s.span, "the kernel's queue of mount events overflowed"))
			again, err := w.first()
			if err != nil {
				return out, err
			}
			out.events = append(out.events, again.events...)
		case !s.attach:
			delete(w.early, s.id)
			out.events = append(out.events, mountFact(history.MountDetach, history.Mount{MountID: s.id}, s.span))
		case w.early[s.id] && !s.detach:
			delete(w.early, s.id) // It was listed as present.
		default:
			if s.err == nil {
				s.mount.Identity, s.err = identify(s.mount.Identity)
			}
			s.mount.MountID = s.id
			s.mount.Unknown = s.err != nil
			out.events = append(out.events, mountFact(history.MountAttach, s.mount, s.span))
			if s.err != nil {
				detail := fmt.Sprintf("mount %d appeared and could not be identified: %v", s.id, s.err)
				out.events = append(out.events, lossFact(s.span, detail))
			}
		}
	}
	return out, nil
}
