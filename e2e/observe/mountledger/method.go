package mountledger

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
)

// Method is how the ledger finds mounts.
type Method string

// The methods.
const (
	MethodAuto     Method = "auto"     // MethodFanotify if the kernel has it, otherwise MethodPollPri.
	MethodFanotify Method = "fanotify" // Mount events, Linux 6.15 and later: one event for every mount.
	MethodPollPri  Method = "pollpri"  // poll(POLLPRI) on mountinfo: one bit, then the whole table is compared.
)

// Methods returns every method.
func Methods() []Method { return []Method{MethodAuto, MethodFanotify, MethodPollPri} }

// watcher finds mounts by one method. It is for one goroutine, except for wake.
type watcher interface {
	// first returns a fact for each mount that exists, and a moment before which nothing is missing. Next finds every
	// later change.
	first() ([]history.Event, history.Time, error)
	// deliver sets, after first and before next, where facts are put, in their order and perhaps by threads of the
	// watcher's own. After deliver(nil) nothing is put.
	deliver(put func(...history.Event))
	// next waits for a change, the timeout, or wake. It returns a moment before which everything is put.
	next(timeout time.Duration) (history.Time, error)
	// wake ends a wait of next. Any goroutine may call it, until close.
	wake()
	close() error
}

// newWatcher returns a watcher of this process's mount namespace, its method, and why that is not fanotify.
func newWatcher(method Method, log *slog.Logger) (w watcher, used Method, why string, err error) {
	var refused error
	switch method {
	case MethodFanotify, MethodAuto:
		w, err := newFanotify(log)
		if err == nil || method == MethodFanotify {
			return w, MethodFanotify, "", err
		}
		refused, why = err, err.Error()
	case MethodPollPri:
		why = "it was asked for"
	default:
		return nil, method, "", fmt.Errorf("watch mounts: no method %q", method)
	}
	w, err = newTableWatcher()
	if err != nil {
		err = errors.Join(refused, err)
	}
	return w, MethodPollPri, why, err
}

// alarm is an eventfd that ends a poll from another goroutine.
type alarm struct{ fd int }

func newAlarm() (alarm, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return alarm{}, fmt.Errorf("make eventfd: %w", err)
	}
	return alarm{fd}, nil
}

// ring adds to the counter, in either byte order. It fails only if that is full, and then the poll has ended already.
func (a alarm) ring() { _, _ = unix.Write(a.fd, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// pollFor waits for one of the events on fd, the alarm, or the timeout, and reports whether there is an event, and
// whether the alarm was rung.
func pollFor(fd int, events int16, stop alarm, timeout time.Duration) (ready, rung bool, err error) {
	fds := []unix.PollFd{{Fd: int32(fd), Events: events}, {Fd: int32(stop.fd), Events: unix.POLLIN}}
	ms := max(0, int((timeout+time.Millisecond-1)/time.Millisecond))
	if _, err := unix.Poll(fds, ms); err != nil && !errors.Is(err, unix.EINTR) {
		return false, false, fmt.Errorf("poll: %w", err)
	}
	if fds[0].Revents&(unix.POLLNVAL|unix.POLLHUP) != 0 {
		return false, false, fmt.Errorf("poll: descriptor %d answers %#x", fd, fds[0].Revents)
	}
	return fds[0].Revents&events != 0, fds[1].Revents != 0, nil
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
