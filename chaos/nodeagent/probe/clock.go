package probe

import (
	"time"

	"github.com/seatrial/seatrial/chaos/history"
)

// Clock is a reading of a machine's clocks, one right after the other.
type Clock struct {
	At   history.Time `json:"at"`   // On the boot clock.
	Wall int64        `json:"wall"` // On the wall clock, in nanoseconds since 1970.
	Boot string       `json:"boot"` // The kernel's id of the boot: two machines that have the same are one kernel.
}

// Ahead is how far the wall clock is ahead of the boot clock. It changes when the wall clock is set.
func (c Clock) Ahead() time.Duration { return time.Duration(c.Wall - int64(c.At)) }

// Time is the wall clock's.
func (c Clock) Time() time.Time { return time.Unix(0, c.Wall).UTC() }
