// Package bootclock reads the clock by which everything in a history is ordered. It imports the facts alone.
package bootclock

import (
	"golang.org/x/sys/unix"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters/linux"
)

// Now returns the time on this machine's boot clock (CLOCK_BOOTTIME). Kind nodes share the kernel of the machine the
// container engine runs on; the harness runs on that machine too.
func Now() history.Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(linux.ClockBoot, &ts); err != nil {
		// Linux has had it since 2.6.39, and the call cannot fail with a valid pointer.
		panic("read CLOCK_BOOTTIME: " + err.Error())
	}
	return history.Time(ts.Nano())
}
