// Package probe looks at the network and the processes of the node it runs on: whether an address answers, when an
// established flow goes dead, which processes live. It changes nothing and opens no listening socket.
package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// Process is one process. (PID, Start) is its identity.
type Process struct {
	PID    int          `json:"pid"`
	Start  history.Time `json:"start"` // At the resolution of a clock tick, 10 ms.
	Name   string       `json:"name"`
	State  string       `json:"state,omitempty"` // A letter of proc_pid_stat(5): "R", "S", "D", "T" when stopped.
	PodUID string       `json:"podUID,omitempty"`
}

// Frozen reports whether it is stopped by a signal, as SIGSTOP does.
func (p Process) Frozen() bool { return p.State == "T" }

// Ticks is its start time as the kernel counts it.
func (p Process) Ticks() int64 { return int64(p.Start) / int64(tick) }

// Processes is what lived at one moment.
type Processes struct {
	At        history.Time `json:"at"`
	PID1Start history.Time `json:"pid1Start"` // When the node was booted.
	Processes []Process    `json:"processes"`
}

// Query says which processes to look for: those with one of the pids, those that were started as a program of one of
// the names, and those in the cgroup of a pod with one of the UIDs.
type Query struct {
	PIDs     []int
	Programs []string // The last part of the first argument, for example "etcd".
	PodUIDs  []string
}

// Lookup finds processes in proc, which is /proc on a real node. Zombies are dead and not listed.
func Lookup(proc fs.FS, q Query) (Processes, error) {
	found := Processes{At: bootclock.Now(), Processes: []Process{}}
	first, _, err := readStat(proc, "1")
	if err != nil {
		return found, fmt.Errorf("read the first process: %w", err)
	}
	found.PID1Start = first.Start
	entries, err := fs.ReadDir(proc, ".")
	if err != nil {
		return found, fmt.Errorf("list processes: %w", err)
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		uid := podOf(proc, e.Name(), q.PodUIDs)
		if uid == "" && !slices.Contains(q.PIDs, pid) && !runs(proc, e.Name(), q.Programs) {
			continue
		}
		p, zombie, err := readStat(proc, e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ESRCH), zombie: // It ended in between.
		case err != nil:
			return found, fmt.Errorf("read process %d: %w", pid, err)
		default:
			p.PodUID = uid
			found.Processes = append(found.Processes, p)
		}
	}
	slices.SortFunc(found.Processes, func(a, b Process) int { return a.PID - b.PID })
	return found, nil
}

// runs reports whether a process was started as one of the programs.
func runs(proc fs.FS, pid string, programs []string) bool {
	if len(programs) == 0 {
		return false
	}
	line, err := fs.ReadFile(proc, pid+"/cmdline")
	if err != nil {
		return false // It has ended.
	}
	first, _, _ := bytes.Cut(line, []byte{0})
	return len(first) > 0 && slices.Contains(programs, path.Base(string(first)))
}

// podOf returns the UID of the pod in whose cgroup the process is. The systemd driver writes the UID with
// underscores, cgroupfs with hyphens.
func podOf(proc fs.FS, pid string, uids []string) string {
	if len(uids) == 0 {
		return ""
	}
	cgroup, err := fs.ReadFile(proc, pid+"/cgroup")
	if err != nil {
		return "" // It has ended, or it is the kernel's.
	}
	for _, uid := range uids {
		for _, form := range []string{"pod" + uid, "pod" + strings.ReplaceAll(uid, "-", "_")} {
			if bytes.Contains(cgroup, []byte(form)) {
				return uid
			}
		}
	}
	return ""
}

// tick is the unit of times in /proc/PID/stat: USER_HZ, which is 100 on every Linux that Go runs on.
const tick = 10 * time.Millisecond

func readStat(proc fs.FS, pid string) (p Process, zombie bool, err error) {
	data, err := fs.ReadFile(proc, pid+"/stat")
	if err != nil {
		return Process{}, false, err
	}
	p, err = ParseStat(string(data))
	return p, p.State == "Z" || p.State == "X", err
}

// ParseStat reads /proc/PID/stat: "pid (name) state ppid ...", the start time as the 22nd field. The name may hold
// spaces and brackets itself, so it ends with the last bracket (proc_pid_stat(5)).
func ParseStat(text string) (Process, error) {
	before, rest, ok := cutLast(text, ")")
	number, name, ok2 := strings.Cut(before, " (")
	fields := strings.Fields(rest)
	if !ok || !ok2 || len(fields) < 20 {
		return Process{}, fmt.Errorf("stat is %q", text)
	}
	p := Process{Name: name, State: fields[0]}
	var err error
	if p.PID, err = strconv.Atoi(number); err != nil {
		return Process{}, fmt.Errorf("stat is %q: %w", text, err)
	}
	ticks, err := strconv.ParseInt(fields[19], 10, 64)
	if err != nil || ticks < 0 || ticks > 1<<40 {
		return Process{}, fmt.Errorf("stat is %q: start time %q", text, fields[19])
	}
	p.Start = history.Time(ticks * int64(tick))
	return p, nil
}

func cutLast(s, separator string) (before, after string, found bool) {
	i := strings.LastIndex(s, separator)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(separator):], true
}
