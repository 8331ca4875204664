package procs

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// Boot says which boot of a node this is. A kind node shares its kernel with the others and keeps it when it is
// rebooted, so the kernel's boot id does not change: the start of the node's PID 1 does.
type Boot struct {
	PID1Start    history.Time
	KernelBootID string
}

// Name is the boot as facts carry it: the start of PID 1 on the boot clock, as seconds ("1353.010s"), readable by
// time.ParseDuration.
func (b Boot) Name() string { return b.PID1Start.String() }

// ReadBoot reads which boot this is from the /proc at hand.
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
	id, err := os.ReadFile(filepath.Join(proc, "sys/kernel/random/boot_id"))
	if err != nil {
		return Boot{}, fmt.Errorf("read the kernel's boot id: %w", err)
	}
	return Boot{PID1Start: stat.Start, KernelBootID: strings.TrimSpace(string(id))}, nil
}
