package mountledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// tableWatcher compares whole mount tables. It cannot see a mount that came and went between two readings.
//
// The descriptor is a raw one on purpose: the Go runtime's own poller would take the one POLLPRI that the kernel
// gives for each change (os.Open registers what it opens).
type tableWatcher struct {
	method Method
	fd     int
	stop   alarm
	buf    []byte
	table  map[int]tableMount // By the id in mountinfo, which the kernel uses again.
	serial uint64             // How many mounts were given an id of ours.
	readAt history.Time       // When the last reading began.
	put    func(...history.Event)
}

type tableMount struct {
	line  mountinfo.Info
	mount history.Mount
}

func newTableWatcher(method Method) (*tableWatcher, error) {
	fd, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open mountinfo: %w", err)
	}
	stop, err := newAlarm()
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &tableWatcher{method: method, fd: fd, stop: stop, buf: make([]byte, 1<<20), table: map[int]tableMount{}}, nil
}

func (w *tableWatcher) wake() { w.stop.ring() }

func (w *tableWatcher) close() error { return errors.Join(unix.Close(w.fd), unix.Close(w.stop.fd)) }

func (w *tableWatcher) first() (batch, error) {
	return w.compare(history.MountPresent)
}

func (w *tableWatcher) deliver(put func(...history.Event)) { w.put = put }

func (w *tableWatcher) next(timeout time.Duration) (history.Time, error) {
	asked := bootclock.Now()
	fd := w.fd
	if w.method == MethodInterval {
		// Poll passes over it. With no events asked for, mountinfo would still answer every change with POLLERR.
		fd = -1
	}
	changed, err := pollFor(fd, unix.POLLPRI, w.stop, timeout)
	if err != nil {
		return w.readAt, fmt.Errorf("wait for a change of mountinfo: %w", err)
	}
	if w.method == MethodPollPri && !changed {
		w.readAt = asked // The kernel counts changes from the last poll on, and there was none.
		return asked, nil
	}
	before := w.readAt
	out, err := w.compare(history.MountAttach)
	if err == nil && changed && len(out.events) == 0 {
		span := history.Between(before, bootclock.Now())
		out.events = append(out.events, lossFact(span, "the mount table changed and was the same when it was read"))
	}
	if len(out.events) > 0 {
		w.put(out.events...)
	}
	return out.seenUpTo, err
}

// compare reads the table and reports what is new, under the given action, and what is gone.
func (w *tableWatcher) compare(action history.MountAction) (batch, error) {
	begin := bootclock.Now()
	lines, err := w.read()
	if err != nil {
		return batch{}, err
	}
	span := history.Between(w.readAt, bootclock.Now())
	if action == history.MountPresent {
		span.NotBefore = begin
	}
	out := batch{seenUpTo: begin}
	next := make(map[int]tableMount, len(lines))
	var fresh []history.Event
	for _, line := range lines {
		if old, ok := w.table[line.ID]; ok && old.line == *line {
			next[line.ID] = old
			continue
		}
		m, facts := w.describe(*line, span)
		next[line.ID] = tableMount{line: *line, mount: m}
		fresh = append(append(fresh, mountFact(action, m, span)), facts...)
	}
	for id, old := range w.table {
		if now, ok := next[id]; !ok || now.mount.MountID != old.mount.MountID {
			gone := history.Mount{MountID: old.mount.MountID}
			out.events = append(out.events, mountFact(history.MountDetach, gone, span))
		}
	}
	slices.SortFunc(out.events, func(a, b history.Event) int { return int(int64(a.Mount.MountID - b.Mount.MountID)) })
	out.events = append(out.events, fresh...)
	w.table, w.readAt = next, begin
	return out, nil
}

// describe gives a new line of the table an id that is never used again.
func (w *tableWatcher) describe(line mountinfo.Info, span history.Span) (history.Mount, []history.Event) {
	w.serial++
	m := history.Mount{
		MountID:  w.serial,
		Identity: history.Identity{Device: deviceName(uint32(line.Major), uint32(line.Minor))},
		Root:     line.Root, Path: line.Mountpoint, FSType: line.FSType,
		ReadOnly: readOnly(line.Options) || readOnly(line.VFSOptions),
	}
	var err error
	if m.Identity, err = identifyMount(m, uint64(line.ID), unix.STATX_MNT_ID); err == nil {
		return m, nil
	}
	m.Unknown = true
	detail := fmt.Sprintf("mount at %q appeared and could not be identified: %v", line.Mountpoint, err)
	return m, []history.Event{lossFact(span, detail)}
}

// readOnly reports that "ro" is among the options of a mount or of its file system (mount(8)).
func readOnly(options string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if o == "ro" {
			return true
		}
	}
	return false
}

// read reads the whole table at once where it fits: a table read in pieces may lack lines that never went away.
func (w *tableWatcher) read() ([]*mountinfo.Info, error) {
	const mostBuffer = 64 << 20
	for {
		n := 0
		for n < len(w.buf) {
			got, err := unix.Pread(w.fd, w.buf[n:], int64(n))
			if err != nil {
				return nil, fmt.Errorf("read mountinfo: %w", err)
			}
			if got == 0 {
				lines, err := mountinfo.GetMountsFromReader(bytes.NewReader(w.buf[:n]), nil)
				if err != nil {
					return nil, fmt.Errorf("read mountinfo: %w", err)
				}
				return lines, nil
			}
			n += got
		}
		if len(w.buf) >= mostBuffer {
			return nil, fmt.Errorf("read mountinfo: it is longer than %d bytes", mostBuffer)
		}
		w.buf = make([]byte, 2*len(w.buf))
	}
}
