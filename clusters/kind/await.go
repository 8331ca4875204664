package kind

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// await asks for a condition until it holds or ctx ends. An answer is the state that was seen and whether the condition
// holds; an error is a state too, and is asked again. What was awaited, for how long, and the last state are in the
// error.
func await(
	ctx context.Context, condition string, every time.Duration,
	ask func(context.Context) (state string, done bool, err error),
) error {
	begun := time.Now()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	last := "nothing seen"
	for {
		state, done, err := ask(ctx)
		switch {
		case err == nil && done:
			return nil
		case err == nil:
			last = state
		case ctx.Err() == nil || last == "nothing seen": // An error made by the end of ctx says nothing new.
			last = err.Error()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			cause := ctx.Err()
			if errors.Is(cause, context.DeadlineExceeded) {
				cause = errors.New("bound reached")
			}
			return fmt.Errorf("wait until %s: %w after %s; last state: %s",
				condition, cause, time.Since(begun).Round(time.Millisecond), last)
		}
	}
}
