package ociwrap

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Set is a set of Linux capabilities; bit n is the capability numbered n in the kernel's linux/capability.h.
type Set uint64

// names holds the capabilities by their number, as linux/capability.h has them.
func names() []string {
	return []string{
		"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_DAC_READ_SEARCH", "CAP_FOWNER", "CAP_FSETID", "CAP_KILL",
		"CAP_SETGID", "CAP_SETUID", "CAP_SETPCAP", "CAP_LINUX_IMMUTABLE", "CAP_NET_BIND_SERVICE",
		"CAP_NET_BROADCAST", "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_IPC_LOCK", "CAP_IPC_OWNER", "CAP_SYS_MODULE",
		"CAP_SYS_RAWIO", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE", "CAP_SYS_PACCT", "CAP_SYS_ADMIN", "CAP_SYS_BOOT",
		"CAP_SYS_NICE", "CAP_SYS_RESOURCE", "CAP_SYS_TIME", "CAP_SYS_TTY_CONFIG", "CAP_MKNOD", "CAP_LEASE",
		"CAP_AUDIT_WRITE", "CAP_AUDIT_CONTROL", "CAP_SETFCAP", "CAP_MAC_OVERRIDE", "CAP_MAC_ADMIN", "CAP_SYSLOG",
		"CAP_WAKE_ALARM", "CAP_BLOCK_SUSPEND", "CAP_AUDIT_READ", "CAP_PERFMON", "CAP_BPF",
		"CAP_CHECKPOINT_RESTORE",
	}
}

// Known returns the set of every capability of a kernel whose /proc/sys/kernel/cap_last_cap is last.
func Known(last int) Set {
	return Set(1)<<min(max(last+1, 0), 64) - 1
}

// Names returns the names of the capabilities in s, in the kernel's order; one without a name here is "CAP_<number>".
func (s Set) Names() []string {
	var out []string
	table := names()
	for n := range 64 {
		if s&(1<<n) == 0 {
			continue
		}
		if n < len(table) {
			out = append(out, table[n])
		} else {
			out = append(out, "CAP_"+strconv.Itoa(n))
		}
	}
	return out
}

// Has reports whether s holds the capability of that name, in upper or lower case, with or without "CAP_". It reports
// true for an unknown name, so that nothing is removed that is not understood.
func (s Set) Has(name string) bool {
	n := slices.Index(names(), "CAP_"+strings.TrimPrefix(strings.ToUpper(name), "CAP_"))
	return n < 0 || s&(1<<n) != 0
}

// ParseBounding returns the bounding set from the text of a /proc/PID/status file.
func ParseBounding(status []byte) (Set, error) {
	for line := range strings.Lines(string(status)) {
		value, ok := strings.CutPrefix(line, "CapBnd:")
		if !ok {
			continue
		}
		bits, err := strconv.ParseUint(strings.TrimSpace(value), 16, 64)
		if err != nil {
			return 0, fmt.Errorf("parse CapBnd %q: %w", strings.TrimSpace(value), err)
		}
		return Set(bits), nil
	}
	return 0, fmt.Errorf("parse process status: it has no CapBnd line")
}

// Lacking returns the capabilities that the kernel knows and that are outside the bounding set of a process, which is a
// number or "self". Read reads a file of /proc.
func Lacking(read func(path string) ([]byte, error), process string) (Set, error) {
	text, err := read("/proc/sys/kernel/cap_last_cap")
	if err != nil {
		return 0, fmt.Errorf("read the kernel's last capability: %w", err)
	}
	last, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("read the kernel's last capability: %w", err)
	}
	status, err := read("/proc/" + process + "/status")
	if err != nil {
		return 0, fmt.Errorf("read the bounding set: %w", err)
	}
	bounding, err := ParseBounding(status)
	return Known(last) &^ bounding, err
}
