package trial

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/e2e/report"
)

// hostFacts describes the host for readers; what cannot be read stays empty.
func hostFacts(engine string) report.Host {
	host := report.Host{Arch: runtime.GOARCH, CPUs: runtime.NumCPU(), Engine: engine}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		host.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	host.OS = strings.Trim(field("/etc/os-release", "PRETTY_NAME="), `"`)
	kib, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal:"), " kB"))
	if err == nil {
		host.MemoryMiB = kib >> 10
	}
	return host
}

// moduleVersion returns the version of a module in this program, or "unknown".
func moduleVersion(path string) string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return m.Version
		}
	}
	return "unknown"
}

// field returns the rest of the line of a file that starts with key.
func field(path, key string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
