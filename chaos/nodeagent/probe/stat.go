package probe

import (
	"bytes"
	"fmt"
	"strconv"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// tick is the unit of start times in /proc/PID/stat: USER_HZ, which is 100 on every architecture that Go runs on
// under Linux, whatever the kernel's own HZ (see proc_pid_stat(5), starttime).
const tick = 10 * time.Millisecond

// Stat is what /proc/PID/stat says of a process.
type Stat struct {
	PID     int
	Name    string // The kernel's name of it (comm), at most 15 bytes, chosen by the process itself: any bytes.
	State   byte   // "R", "S", "D", "Z" and so on.
	Threads int
	Start   history.Time // Rounded down to 10 ms by the kernel.
}

// Ended reports that the process runs no more. One whose first thread has ended is shown as a zombie, and may go on for
// as long as another thread waits for a disk.
func (s Stat) Ended() bool { return (s.State == 'Z' || s.State == 'X') && s.Threads <= 1 }

// ParseStat takes the content of /proc/PID/stat apart. The name may hold spaces, parentheses and line feeds, so the
// last closing parenthesis ends it.
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
