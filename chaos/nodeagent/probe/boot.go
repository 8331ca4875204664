package probe

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

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

// Clock is a reading of a machine's clocks, one right after the other.
type Clock struct {
	At   history.Time `json:"at" clock:"node"` // On the boot clock.
	Wall int64        `json:"wall"`            // On the wall clock, in nanoseconds since 1970.
	Boot string       `json:"boot"`            // The kernel's id of the boot. Machines with the same are one kernel.
}

// Ahead is how far the wall clock is ahead of the boot clock. It changes when the wall clock is set.
func (c Clock) Ahead() time.Duration { return time.Duration(c.Wall - int64(c.At)) }

// Time is the wall clock's.
func (c Clock) Time() time.Time { return time.Unix(0, c.Wall).UTC() }
