package clusters

import (
	"bytes"
	"compress/gzip"
	"io"
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
