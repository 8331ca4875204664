// Package probe measures on the node it runs on: whether addresses answer, when an established flow goes dead, which
// processes run since when and in which pod, which boot this is. It changes nothing and opens no listening socket.
package probe

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/bootclock"
)

// Process is a running process. (PID, Start) is its identity.
type Process struct {
	PID    int          `json:"pid"`                // In the PID namespace of the /proc that was read.
	Start  history.Time `json:"start" clock:"node"` // At the resolution of a clock tick, 10 ms.
	Name   string       `json:"name"`
	State  string       `json:"state,omitempty"`  // A letter of proc_pid_stat(5); "T" is stopped.
	PodUID string       `json:"podUID,omitempty"` // Empty for a process of no pod.
	// Container is the runtime's id of its container, 64 hexadecimal digits, and empty for a process of none.
	Container string `json:"container,omitempty"`
}

// Frozen reports whether it is stopped by a signal such as SIGSTOP.
func (p Process) Frozen() bool { return p.State == "T" }

// Ticks is its start time as the kernel counts it.
func (p Process) Ticks() int64 { return int64(p.Start) / int64(tick) }

// Processes is what ran at one moment.
type Processes struct {
	At        history.Time `json:"at" clock:"to"`
	PID1Start history.Time `json:"pid1Start" clock:"node"` // When the node was booted.
	Boot      string       `json:"boot,omitempty"`         // The kernel's boot id.
	Processes []Process    `json:"processes"`
}

// BootName is the name of the boot in which they were read.
func (p Processes) BootName() string { return Boot{p.PID1Start, p.Boot}.Name() }

// SameBoot reports whether others were read in the same boot.
func (p Processes) SameBoot(others Processes) bool {
	return p.Boot == others.Boot && p.PID1Start == others.PID1Start
}

// Find returns the process with a pid.
func (p Processes) Find(pid int) (Process, bool) {
	i := slices.IndexFunc(p.Processes, func(q Process) bool { return q.PID == pid })
	if i < 0 {
		return Process{}, false
	}
	return p.Processes[i], true
}

// Lives reports whether a process is among them; a later one with its pid is another.
func (p Processes) Lives(old Process) bool {
	now, ok := p.Find(old.PID)
	return ok && now.Start == old.Start
}

// Query selects processes by pid, by the program they were started as, or by pod.
type Query struct {
	PIDs     []int
	Programs []string // The last part of the first argument, for example "etcd".
	PodUIDs  []string
}

// Lookup finds processes in proc, which is /proc on a node, sorted by pid.
func Lookup(proc string, q Query) (Processes, error) {
	found := Processes{At: bootclock.Now(), Processes: []Process{}}
	boot, err := readBoot(proc)
	if err != nil {
		return found, err
	}
	found.PID1Start, found.Boot = boot.PID1Start, boot.Kernel
	all, err := list(proc, nil)
	for _, p := range all {
		if q.wants(proc, p) {
			found.Processes = append(found.Processes, p)
		}
	}
	return found, err
}

func (q Query) wants(proc string, p Process) bool {
	return slices.Contains(q.PIDs, p.PID) || p.PodUID != "" && slices.Contains(q.PodUIDs, p.PodUID) ||
		len(q.Programs) > 0 && slices.Contains(q.Programs, program(proc, p.PID))
}

// program returns the program that a process was started as, "" for one that has ended.
func program(proc string, pid int) string {
	line, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "cmdline"))
	first, _, _ := bytes.Cut(line, []byte{0})
	if err != nil || len(first) == 0 {
		return ""
	}
	return path.Base(string(first))
}

// List returns the running processes with one of the names, sorted by pid. The kernel's name of a process is the first
// 15 bytes of its program's base name.
func List(names ...string) ([]Process, error) { return list("/proc", append([]string{}, names...)) }

// list lists processes by name; nil stands for all names.
func list(proc string, names []string) ([]Process, error) {
	pids, err := readPIDs(proc)
	if err != nil {
		return nil, err
	}
	var found []Process
	for _, pid := range pids {
		p, ok, err := readProcess(proc, pid, names)
		if err != nil {
			return nil, err
		}
		if ok {
			found = append(found, p)
		}
	}
	return found, nil
}

// PIDs returns the process ids in /proc, sorted.
func PIDs() ([]int, error) { return readPIDs("/proc") }

// Read reads a process; false means that it has ended, as a zombie has.
func Read(pid int) (Process, bool, error) { return readProcess("/proc", pid, nil) }

func readPIDs(proc string) ([]int, error) {
	dir, err := os.Open(proc)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer func() { _ = dir.Close() }() // Read-only: closing cannot lose data.
	entries, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e); err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// readProcess reads a process; false means that it has ended or has none of the names. Nil stands for all names.
func readProcess(proc string, pid int, names []string) (Process, bool, error) {
	dir := filepath.Join(proc, strconv.Itoa(pid))
	data, err := readFile(filepath.Join(dir, "stat"))
	if ended(err) {
		return Process{}, false, nil
	}
	if err != nil {
		return Process{}, false, fmt.Errorf("read process %d: %w", pid, err)
	}
	stat, err := ParseStat(data)
	if err != nil {
		return Process{}, false, fmt.Errorf("read process %d: %w", pid, err)
	}
	if stat.Ended() || names != nil && !named(stat.Name, names) {
		return Process{}, false, nil
	}
	cgroup, err := readFile(filepath.Join(dir, "cgroup"))
	if ended(err) {
		return Process{}, false, nil
	}
	if err != nil {
		return Process{}, false, fmt.Errorf("read cgroup of process %d: %w", pid, err)
	}
	p := Process{
		PID: pid, Name: stat.Name, State: string(stat.State), Start: stat.Start, PodUID: ParsePodUID(string(cgroup)),
	}
	if p.PodUID != "" {
		p.Container = ParseContainerID(string(cgroup))
	}
	return p, true, nil
}

// readFile reads a small file with few system calls: the ledger reads every process several times a second, and
// os.ReadFile takes more than twice as many.
func readFile(path string) ([]byte, error) {
	const most = 16 << 10 // Of a cgroup file with every controller of v1 at the longest paths seen, several times over.
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	data := make([]byte, 0, 1<<10)
	for len(data) < most {
		data = slices.Grow(data, 512)
		n, err := unix.Read(fd, data[len(data):cap(data)])
		if err != nil {
			return nil, errors.Join(err, unix.Close(fd))
		}
		if n == 0 {
			break
		}
		data = data[:len(data)+n]
	}
	return data, unix.Close(fd)
}

// ended reports whether err is that of reading /proc for a process that is gone.
func ended(err error) bool { return errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) }

func named(name string, names []string) bool {
	const commLength = 15 // TASK_COMM_LEN less its closing zero.
	return slices.ContainsFunc(names, func(n string) bool { return n[:min(len(n), commLength)] == name })
}

// The paths of pods and containers in /proc/PID/cgroup, for cgroup v1 and v2, also below another root such as kind's
// "kubelet". The kubelet's cgroupfs driver makes ".../kubepods/burstable/pod<uid>/<container>", its systemd driver
// ".../kubepods-burstable-pod<uid with _>.slice/cri-containerd-<container>.scope" (k8s.io/kubernetes pkg/kubelet/cm). A
// UID is a UUID, or 32 hexadecimal digits for a static pod.
var (
	podPath = regexp.MustCompile(`(?m)kubepods(?:[^/\n]*-pod|[^\n]*?/pod)` +
		`([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?:\.slice)?(?:/|$)`)
	containerPath = regexp.MustCompile(`(?m)kubepods[^\n]*?/(?:[^/\n]*[-:])?([0-9a-f]{64})(?:\.scope)?(?:/|$)`)
)

// ParsePodUID returns the UID of a process's pod from the content of its /proc/PID/cgroup, "" for a process of no pod.
func ParsePodUID(cgroup string) string {
	if m := podPath.FindStringSubmatch(cgroup); m != nil {
		return strings.ReplaceAll(m[1], "_", "-")
	}
	return ""
}

// ParseContainerID returns the runtime's id of a process's container, 64 hexadecimal digits, from the content of its
// /proc/PID/cgroup, "" for a process of none. Of nested groups, which a container may make, the outermost counts.
func ParseContainerID(cgroup string) string {
	if m := containerPath.FindStringSubmatch(cgroup); m != nil {
		return m[1]
	}
	return ""
}
