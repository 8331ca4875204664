package mountledger

import (
	"bytes"
	"cmp"
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

// tableWatcher compares whole mount tables. It cannot see a mount that came and went between two reads.
//
// The descriptor is a raw one: os.Open registers files with the Go runtime's poller, which would take the one POLLPRI
// that the kernel gives for each change.
type tableWatcher struct {
	fd     int
	stop   alarm
	buf    []byte
	table  map[int]tableMount // By the id in mountinfo, which the kernel uses again.
	serial uint64             // Counts the mounts; it is an id that is never used again.
	readAt history.Time       // When the last read began.
	put    func(...history.Event)
}

type tableMount struct {
	line  mountinfo.Info
	mount history.Mount
}

func newTableWatcher() (*tableWatcher, error) {
	fd, err := unix.Open("/proc/thread-self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open mountinfo: %w", err)
	}
	stop, err := newAlarm()
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return &tableWatcher{fd: fd, stop: stop, buf: make([]byte, 1<<20), table: map[int]tableMount{}}, nil
}

func (w *tableWatcher) wake() { w.stop.ring() }

func (w *tableWatcher) close() error { return errors.Join(unix.Close(w.fd), unix.Close(w.stop.fd)) }

func (w *tableWatcher) first() ([]history.Event, history.Time, error) {
	events, err := w.compare(history.MountPresent)
	return events, w.readAt, err
}

func (w *tableWatcher) deliver(put func(...history.Event)) { w.put = put }

func (w *tableWatcher) next(timeout time.Duration) (history.Time, error) {
	asked := bootclock.Now()
	changed, _, err := pollFor(w.fd, unix.POLLPRI, w.stop, timeout)
	if err != nil {
		return w.readAt, fmt.Errorf("wait for a change of mountinfo: %w", err)
	}
	if !changed {
		w.readAt = asked // The kernel counts changes from the last poll on, and there was none.
		return asked, nil
	}
	before := w.readAt
	events, err := w.compare(history.MountAttach)
	if err != nil {
		return w.readAt, err
	}
	if len(events) == 0 {
		span := history.Between(before, bootclock.Now())
		events = append(events, lossFact(span, "the mount table changed and was the same when it was read"))
	}
	w.put(events...)
	return w.readAt, nil
}

// compare reads the table and returns facts of the mounts that are new, under the given action, and gone.
func (w *tableWatcher) compare(action history.MountAction) ([]history.Event, error) {
	begin := bootclock.Now()
	lines, err := w.read()
	if err != nil {
		return nil, err
	}
	span := history.Between(w.readAt, bootclock.Now())
	if action == history.MountPresent {
		span.NotBefore = begin
	}
	next := make(map[int]tableMount, len(lines))
	var events, fresh []history.Event
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
			events = append(events, mountFact(history.MountDetach, gone, span))
		}
	}
	slices.SortFunc(events, func(a, b history.Event) int { return cmp.Compare(a.Mount.MountID, b.Mount.MountID) })
	w.table, w.readAt = next, begin
	return append(events, fresh...), nil
}

// describe returns the mount of a new line of the table, and a loss if it cannot be identified.
func (w *tableWatcher) describe(line mountinfo.Info, span history.Span) (history.Mount, []history.Event) {
	w.serial++
	m := mountOf(&line)
	m.MountID = w.serial
	var err error
	if m.Identity, err = identifyMount(m, uint64(line.ID), unix.STATX_MNT_ID); err == nil {
		return m, nil
	}
	m.Unknown = true
	detail := fmt.Sprintf("mount at %q appeared and could not be identified: %v", line.Mountpoint, err)
	return m, []history.Event{lossFact(span, detail)}
}

// mountOf returns the mount of a line of a table, without the backing file of a loop device.
func mountOf(line *mountinfo.Info) history.Mount {
	return history.Mount{
		Identity: history.Identity{Device: deviceName(uint32(line.Major), uint32(line.Minor))},
		Root:     line.Root, Path: line.Mountpoint, FSType: line.FSType,
		ReadOnly: readOnly(line.Options) || readOnly(line.VFSOptions),
	}
}

// readOnly reports that "ro" is among the options of a mount or of its file system (mount(8)).
func readOnly(options string) bool {
	return slices.Contains(strings.Split(options, ","), "ro")
}

// read reads the whole table at once if it fits: a table read in pieces may lack lines of mounts that stay.
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
