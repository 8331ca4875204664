package mountledger

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// raisePriority puts the calling thread ahead of ordinary ones: in the first real-time class, or, where the kernel's
// group scheduling gives this control group no real-time budget, at the lowest nice value.
func raisePriority() error {
	attr := unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1, Flags: unix.SCHED_FLAG_RESET_ON_FORK}
	fifoErr := unix.SchedSetAttr(0, &attr, 0)
	if fifoErr == nil {
		return nil
	}
	if err := unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20); err != nil {
		return fmt.Errorf("raise priority: %w", errors.Join(fifoErr, err))
	}
	return nil
}
