package undo

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// HeldClock begins the mark of a node whose wall clock is put forward or back. What follows is by how much the wall
// clock was ahead of the boot clock before, in nanoseconds, and of which boot: "clock-1700000000000000000-BOOT".
const HeldClock = "clock-"

// HeldClockWas is the name of the mark of a clock that was that much ahead of the boot clock.
func HeldClockWas(ahead time.Duration, boot string) string {
	return HeldClock + strconv.FormatInt(int64(ahead), 10) + "-" + boot
}

// SetClock is the command that puts a node's wall clock that much ahead of its boot clock, in the boot of that name. In
// another one it does nothing: its boot clock has begun anew.
func SetClock(ahead time.Duration, boot string) []string {
	return []string{AgentPath, "clock", "--ahead", ahead.String(), "--boot", boot}
}

// putClockBack sets the clock as its mark says.
func putClockBack(ctx context.Context, run Runner, thing string) error {
	text, boot, _ := strings.Cut(strings.TrimPrefix(thing, HeldClock), "-")
	ahead, err := strconv.ParseInt(text, 10, 64)
	if err != nil || boot == "" {
		return nil //nolint:nilerr // The mark was never finished, and nothing was done.
	}
	if _, err := run(ctx, SetClock(time.Duration(ahead), boot), ""); err != nil {
		return fmt.Errorf("put the clock back: %w", err)
	}
	return nil
}
