// Package await waits for named conditions with a bound. The error of a wait says what was awaited, for how long, and
// what was seen last. It imports the standard library only.
package await

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

// ErrTimeout is wrapped by the error of a wait whose bound ran out.
var ErrTimeout = errors.New("the bound ran out")

// Condition checks once. It returns whether the wait is over, and the state that it saw in a few words. An error made
// with Stop ends the wait; any other means "not yet", and is reported when the bound runs out.
type Condition func(ctx context.Context) (done bool, state string, err error)

// Stop marks an error that waiting cannot resolve.
func Stop(err error) error { return &stopError{err} }

type stopError struct{ err error }

func (e *stopError) Error() string { return e.err.Error() }
func (e *stopError) Unwrap() error { return e.err }

// Until checks cond at once and then at intervals until it is done, bound has passed, or ctx has ended. What names the
// condition, for example "kubelet active". The bound also ends a running check.
func Until(ctx context.Context, what string, every, bound time.Duration, cond Condition) error {
	begin := time.Now()
	looking, cancel := context.WithTimeoutCause(ctx, bound, ErrTimeout)
	defer cancel()
	ticks := time.NewTicker(every)
	defer ticks.Stop()
	seen := "nothing yet"
	for {
		done, state, err := cond(looking)
		if done && err == nil {
			return nil
		}
		var stop *stopError
		if errors.As(err, &stop) && (looking.Err() == nil || !errors.Is(err, looking.Err())) { // Else the bound cut it.
			return fmt.Errorf("wait for %s: %w", what, err)
		}
		// A connection may notice its deadline, which is that of the check, before the check has ended.
		cut := looking.Err() != nil || time.Since(begin) >= bound
		switch {
		case err != nil && (cut || tooLate(err)): // The check itself was cut short.
		case err != nil:
			seen = err.Error()
		case state != "":
			seen = state
		}
		select {
		case <-looking.Done():
			return failed(ctx, looking, what, begin, seen)
		case <-ticks.C:
			if looking.Err() != nil { // Both were ready.
				return failed(ctx, looking, what, begin, seen)
			}
		}
	}
}

// tooLate reports whether client-go's rate limiter refused a request that would begin after the bound. It has no typed
// error (golang.org/x/time/rate, Limiter.Wait).
func tooLate(err error) bool { return strings.Contains(err.Error(), "would exceed context deadline") }

// For waits for d or until ctx has ended; it returns the cause then.
func For(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func failed(ctx, looking context.Context, what string, begin time.Time, seen string) error {
	cause := context.Cause(looking)
	if ctx.Err() != nil {
		cause = context.Cause(ctx)
	}
	waited := time.Since(begin).Round(10 * time.Millisecond)
	return fmt.Errorf("wait for %s: waited %s, last seen: %s: %w", what, waited, seen, cause)
}
