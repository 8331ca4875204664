package engine

import (
	"context"
	"fmt"
	"time"
)

// waiting is a wait for one named thing, with a bound.
type waiting struct {
	what  string
	bound time.Duration
	every time.Duration
}

// await asks done at once and then every so often until it says yes, fails, or the bound is over. The error names what
// was awaited, how long, and the last state seen.
func await(ctx context.Context, w waiting, done func(context.Context) (state string, ok bool, err error)) error {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, w.bound)
	defer cancel()
	ticker := time.NewTicker(w.every)
	defer ticker.Stop()
	last := "nothing"
	for {
		state, ok, err := done(ctx)
		if err != nil {
			return fmt.Errorf("wait for %s: %w", w.what, err)
		}
		if ok {
			return nil
		}
		if state != "" {
			last = state
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: waited %s, last seen: %s: %w", w.what,
				time.Since(began).Round(100*time.Millisecond), last, ctx.Err())
		case <-ticker.C:
		}
	}
}
