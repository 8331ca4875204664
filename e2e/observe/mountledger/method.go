package mountledger

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
)

// Method is a way to learn of mounts.
type Method string

// The methods. MethodAuto takes the kernel's mount events where it has them and POLLPRI where not; MethodInterval
// is there to be measured against, and finds next to nothing.
const (
	MethodAuto     Method = "auto"
	MethodFanotify Method = "fanotify" // Mount events, Linux 6.15 and later: one event for every mount.
	MethodPollPri  Method = "pollpri"  // poll(POLLPRI) on mountinfo: one bit, then the whole table is compared.
	MethodInterval Method = "interval" // Compare the whole table every second.
)

// Methods returns every method.
func Methods() []Method { return []Method{MethodAuto, MethodFanotify, MethodPollPri, MethodInterval} }

// batch is what a watcher found at once. Events carry spans and payloads; the ledger adds the rest.
type batch struct {
	events []history.Event
	// seenUpTo is a moment at which nothing was left unread: everything before it is in this batch or an earlier one.
	seenUpTo history.Time
}

// watcher finds mounts by one method. It is for one goroutine, except for wake.
type watcher interface {
	// first returns the mounts that are there now; everything that changes from before its return on is found by next.
	first() (batch, error)
	// deliver says, after first and before next, where what is found is put, in its order and perhaps by threads of
	// the watcher's own. After deliver(nil) nothing is put any more.
	deliver(put func(...history.Event))
	// next waits until there is something, the timeout, or wake. It returns a moment before which everything is put.
	next(timeout time.Duration) (history.Time, error)
	// wake ends a wait of next early. It may be called from any goroutine, until close.
	wake()
	close() error
}

// newWatcher returns a watcher of this process's mount namespace, the method it took, and why it is not fanotify.
func newWatcher(method Method, log *slog.Logger) (watcher, Method, string, error) {
	switch method {
	case MethodFanotify, MethodAuto:
		w, err := newFanotify(log)
		if err == nil {
			return w, MethodFanotify, "", nil
		}
		if method == MethodFanotify {
			return nil, method, "", err
		}
		fallback, pollErr := newTableWatcher(MethodPollPri)
		if pollErr != nil {
			return nil, method, "", errors.Join(err, pollErr)
		}
		return fallback, MethodPollPri, err.Error(), nil
	case MethodPollPri, MethodInterval:
		w, err := newTableWatcher(method)
		return w, method, "it was asked for", err
	}
	return nil, method, "", fmt.Errorf("watch mounts: no method %q", method)
}

// alarm is an eventfd by which a poll is ended from another goroutine.
type alarm struct{ fd int }

func newAlarm() (alarm, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return alarm{}, fmt.Errorf("make eventfd: %w", err)
	}
	return alarm{fd}, nil
}

// ring adds to the counter, in either byte order. It fails only when that is full, and then the poll is ended already.
func (a alarm) ring() { _, _ = unix.Write(a.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// rung reports whether it was rung.
func (a alarm) rung() bool {
	fds := []unix.PollFd{{Fd: int32(a.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}

// pollFor waits until fd has one of the events, the alarm rings, or the timeout ends; it reports the first.
func pollFor(fd int, events int16, stop alarm, timeout time.Duration) (bool, error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}, {Fd: int32(stop.fd), Events: unix.POLLIN}}
	ms := max(0, int((timeout+time.Millisecond-1)/time.Millisecond))
	if _, err := unix.Poll(fds, ms); err != nil && !errors.Is(err, unix.EINTR) {
		return false, fmt.Errorf("poll: %w", err)
	}
	if fds[0].Revents&(unix.POLLNVAL|unix.POLLHUP) != 0 {
		return false, fmt.Errorf("poll: descriptor %d answers %#x", fd, fds[0].Revents)
	}
	return fds[0].Revents&events != 0, nil
}

func mountFact(action history.MountAction, m history.Mount, span history.Span) history.Event {
	m.Action = action
	return history.Event{Kind: history.KindMount, Span: span, Mount: &m}
}

func lossFact(span history.Span, detail string) history.Event {
	return history.Event{
		Kind: history.KindObserver, Span: span,
		Observer: &history.Observer{Name: ObserverMounts, State: history.ObserverLoss, Detail: detail},
	}
}
