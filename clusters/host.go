package clusters

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// KernelConfig returns the options that a kernel was built with ("CONFIG_VETH" to "y" or "m"), read by readFile on a
// machine that runs it. It is nil when they are not told there.
func KernelConfig(readFile func(string) ([]byte, error)) map[string]string {
	text, err := readFile("/proc/config.gz")
	if err == nil {
		var packed *gzip.Reader
		if packed, err = gzip.NewReader(bytes.NewReader(text)); err == nil {
			text, err = io.ReadAll(packed)
		}
	}
	if err != nil {
		release, _ := readFile("/proc/sys/kernel/osrelease")
		text, err = readFile("/boot/config-" + strings.TrimSpace(string(release)))
	}
	if err != nil {
		return nil
	}
	config := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "=")
		if ok && strings.HasPrefix(name, "CONFIG_") {
			config[name] = value
		}
	}
	return config
}

// StateDir is where a user's harnesses keep what outlives them: seatrial below $XDG_STATE_HOME, by default
// ~/.local/state.
func StateDir() (string, error) {
	state := os.Getenv("XDG_STATE_HOME")
	if state == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("find a directory for state: %w; set $XDG_STATE_HOME", err)
		}
		state = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(state, "seatrial"), nil
}

// ProcessStart returns when a process was started, in clock ticks since boot, from the content of its /proc/PID/stat
// (proc_pid_stat(5)). It returns "" for one that has ended: a zombie has no namespaces any more.
func ProcessStart(stat string) string {
	// The second field, the program's name, is in parentheses and may hold anything. The third is the state.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 20 || fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

// Tail keeps the last Max bytes that are written to it.
type Tail struct {
	Max  int
	Data []byte
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.Data = append(t.Data, p...)
	if over := len(t.Data) - t.Max; over > 0 {
		t.Data = append(t.Data[:0], t.Data[over:]...)
	}
	return len(p), nil
}
