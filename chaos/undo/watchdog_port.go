package undo

import (
	"context"
	"time"
)

// Watchdog is the dead-man of faults that take a whole node away: a timer on the node could not fire, so a process
// beside the cluster brings the node back.
type Watchdog interface {
	// Arm has the node brought back after life, and looks that whoever does it is alive. One that is armed already is
	// replaced.
	Arm(ctx context.Context, node string, owner Owner, life time.Duration) error
	// Disarm ends it, and returns when it can act no more. One that is not there is no error.
	Disarm(ctx context.Context, node string, owner Owner) error
	// Release disarms all whose owner only says yes to, whichever harness has armed them, and returns their names;
	// nil says yes to all.
	Release(ctx context.Context, only func(Owner) bool) ([]string, error)
}
