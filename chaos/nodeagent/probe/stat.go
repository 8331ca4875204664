package probe

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// Boot identifies a boot of a node. Kind nodes share the host's kernel and its boot id, and are told apart by the start
// of PID 1; on a machine that is about the same after each boot.
type Boot struct {
	PID1Start history.Time
	Kernel    string // Its boot id.
}

// Name is the boot's name in facts: the start of PID 1 on the boot clock as a duration, and the begin of the kernel's
// boot id: "1353.010s 1b4e28ba".
func (b Boot) Name() string {
	const enough = 8 // Hexadecimal digits, all of them random.
	return strings.TrimSpace(b.PID1Start.String() + " " + b.Kernel[:min(len(b.Kernel), enough)])
}

// ReadBoot reads the current boot from /proc.
func ReadBoot() (Boot, error) { return readBoot("/proc") }

func readBoot(proc string) (Boot, error) {
	data, err := os.ReadFile(filepath.Join(proc, "1/stat"))
	if err != nil {
		return Boot{}, fmt.Errorf("read the start of pid 1: %w", err)
	}
	stat, err := ParseStat(data)
	if err != nil {
		return Boot{}, fmt.Errorf("read the start of pid 1: %w", err)
	}
	kernel, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return Boot{}, fmt.Errorf("read the kernel's boot id: %w", err)
	}
	return Boot{PID1Start: stat.Start, Kernel: string(bytes.TrimSpace(kernel))}, nil
}

// Clock is a reading of a machine's clocks.
type Clock struct {
	At   history.Time `json:"at" clock:"node"` // On the boot clock.
	Wall int64        `json:"wall"`            // On the wall clock, in nanoseconds since 1970.
	Boot string       `json:"boot"`            // The kernel's boot id. Nodes with the same id share a kernel.
}

// Ahead is how far the wall clock is ahead of the boot clock. Setting the wall clock changes it.
func (c Clock) Ahead() time.Duration { return time.Duration(c.Wall - int64(c.At)) }

// Time is the time on the wall clock.
func (c Clock) Time() time.Time { return time.Unix(0, c.Wall).UTC() }

// tick is the unit of start times in /proc/PID/stat: USER_HZ, which is 100 on every architecture that Go runs on
// under Linux, whatever the kernel's own HZ (see proc_pid_stat(5), starttime).
const tick = 10 * time.Millisecond

// Stat is the content of /proc/PID/stat.
type Stat struct {
	PID     int
	Name    string // The kernel's name of it (comm), at most 15 bytes, chosen by the process itself: any bytes.
	State   byte   // "R", "S", "D", "Z" and so on.
	Threads int
	Start   history.Time // Rounded down to 10 ms by the kernel.
}

// Ended reports whether the process has ended. A zombie with other threads goes on until those end, for example after
// they waited for a disk.
func (s Stat) Ended() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// ParseStat parses /proc/PID/stat. The name may hold spaces, parentheses and line feeds: the last closing parenthesis
// ends it.
func ParseStat(data []byte) (Stat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 1 || end < open {
		return Stat{}, fmt.Errorf("parse stat %q: no name in parentheses", clip(data))
	}
	pid, err := strconv.Atoi(string(bytes.TrimSpace(data[:open])))
	if err != nil || pid <= 0 {
		return Stat{}, fmt.Errorf("parse stat %q: no pid before the name", clip(data))
	}
	// The fields after the name are numbered from 3 in proc_pid_stat(5): state 3, num_threads 20, starttime 22.
	fields := bytes.Fields(data[end+1:])
	if len(fields) < 20 || len(fields[0]) != 1 {
		return Stat{}, fmt.Errorf("parse stat %q: %d fields after the name, want at least 20", clip(data), len(fields))
	}
	threads, err := strconv.Atoi(string(fields[17]))
	if err != nil {
		return Stat{}, fmt.Errorf("parse stat %q: read number of threads: %w", clip(data), err)
	}
	ticks, err := strconv.ParseInt(string(fields[19]), 10, 64)
	if err != nil || ticks < 0 || ticks > int64(1<<62)/int64(tick) {
		return Stat{}, fmt.Errorf("parse stat %q: bad start time %q", clip(data), fields[19])
	}
	return Stat{
		PID: pid, Name: string(data[open+1 : end]), State: fields[0][0], Threads: threads,
		Start: history.Time(ticks * int64(tick)),
	}, nil
}

func clip(data []byte) []byte {
	const most = 80
	if len(data) > most {
		return data[:most]
	}
	return data
}
