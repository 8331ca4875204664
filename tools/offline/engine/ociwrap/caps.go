package ociwrap

import (
	"bufio"
	"bytes"
	"fmt"
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
	if last >= 63 {
		return ^Set(0)
	}
	if last < 0 {
		return 0
	}
	return Set(1)<<(last+1) - 1
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

// Has tells whether s holds the capability of that name; upper and lower case and a missing "CAP_" are all the same.
// A name that is not known here is reported as held, so that nothing is dropped that is not understood.
func (s Set) Has(name string) bool {
	want := strings.ToUpper(name)
	if !strings.HasPrefix(want, "CAP_") {
		want = "CAP_" + want
	}
	for n, known := range names() {
		if known == want {
			return s&(1<<n) != 0
		}
	}
	return true
}

// ParseBounding returns the bounding set from the text of a /proc/PID/status file.
func ParseBounding(status []byte) (Set, error) {
	lines := bufio.NewScanner(bytes.NewReader(status))
	for lines.Scan() {
		value, ok := strings.CutPrefix(lines.Text(), "CapBnd:")
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
