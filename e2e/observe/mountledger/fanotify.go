package mountledger

import (
	"errors"
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/e2e/history"
)

// fanotifyWatcher takes the kernel's mount events. An event carries nothing but the mount's unique id, so each is
// looked up at once, before anything else is done with it: a mount may live for microseconds.
type fanotifyWatcher struct {
	fd     int
	stop   alarm
	stat   *statter
	buf    []byte
	events []mountEvent
	// early are the mounts of the listing; their attach events may still be queued.
	early   map[uint64]bool
	emptyAt history.Time
}

func newFanotify() (*fanotifyWatcher, error) {
	const flags = unix.FAN_CLASS_NOTIF | unix.FAN_CLOEXEC | unix.FAN_NONBLOCK | unix.FAN_UNLIMITED_QUEUE | unix.FAN_REPORT_MNT
	fd, err := unix.FanotifyInit(flags, 0)
	if err != nil {
		return nil, fmt.Errorf("take mount events (Linux 6.15 and later): %w", err)
	}
	stop, err := markNamespace(fd)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &fanotifyWatcher{fd: fd, stop: stop, stat: newStatter(), buf: make([]byte, 64<<10)}, nil
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

func (w *fanotifyWatcher) wake() { w.stop.ring() }

func (w *fanotifyWatcher) close() error { return errors.Join(unix.Close(w.fd), unix.Close(w.stop.fd)) }

// first lists the mounts. The mark is set already, so a mount that comes meanwhile is listed, queued, or both.
func (w *fanotifyWatcher) first() (batch, error) {
	begin := bootclock.Now()
	ids, err := listMounts()
	if err != nil {
		return batch{}, err
	}
	w.early = make(map[uint64]bool, len(ids))
	w.emptyAt = begin
	var found []history.Event
	for _, id := range ids {
		m, err := w.stat.stat(id)
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

// sighting is an event and what could be learnt of its mount at once.
type sighting struct {
	mountEvent
	mount history.Mount
	err   error
	span  history.Span
}

func (w *fanotifyWatcher) next(timeout time.Duration) (batch, error) {
	if _, err := pollFor(w.fd, unix.POLLIN, w.stop, timeout); err != nil {
		return batch{}, fmt.Errorf("wait for mount events: %w", err)
	}
	var seen []sighting
	for {
		asked := bootclock.Now()
		n, err := unix.Read(w.fd, w.buf)
		if errors.Is(err, unix.EAGAIN) {
			w.emptyAt = asked
			break
		}
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return batch{}, fmt.Errorf("read mount events: %w", err)
		}
		span := history.Between(w.emptyAt, bootclock.Now())
		if w.events, err = parseEvents(w.buf[:n], w.events[:0]); err != nil {
			return batch{}, err
		}
		for _, e := range w.events {
			s := sighting{mountEvent: e, span: span}
			if e.attach {
				s.mount, s.err = w.stat.stat(e.id)
			}
			seen = append(seen, s)
		}
		if len(seen) > mostAtOnce {
			break // The rest stays queued; what was seen gets written first.
		}
	}
	return w.report(seen)
}

// mostAtOnce bounds the memory of one batch in events.
const mostAtOnce = 4096

// report turns sightings into facts. A mount that was moved is attached again under the id it had.
func (w *fanotifyWatcher) report(seen []sighting) (batch, error) {
	out := batch{events: make([]history.Event, 0, len(seen)), seenUpTo: w.emptyAt}
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
