package await_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/seatrial/seatrial/chaos/await"
)

func TestUntil(t *testing.T) {
	boom := errors.New("boom")
	never := func(context.Context) (bool, string, error) { return false, "pid 7", nil }
	for _, tc := range []struct {
		name   string
		cancel time.Duration
		cond   await.Condition
		want   string
		is     error
		took   time.Duration
	}{
		{"at once", 0, func(context.Context) (bool, string, error) { return true, "", nil }, "", nil, 0},
		{"bound", 0, never, "wait for the moon: waited 10s, last seen: pid 7: the bound ran out",
			await.ErrTimeout, 10 * time.Second},
		{"cancelled", 3 * time.Second, never, "wait for the moon: waited 3s, last seen: pid 7: context canceled",
			context.Canceled, 3 * time.Second},
		{"errors are not the end", 0, func(context.Context) (bool, string, error) { return true, "", boom },
			"wait for the moon: waited 10s, last seen: boom: the bound ran out", await.ErrTimeout, 10 * time.Second},
		{"stop", 0, func(context.Context) (bool, string, error) { return false, "x", await.Stop(boom) },
			"wait for the moon: boom", boom, 0},
		{"a look cut short", 0, func(ctx context.Context) (bool, string, error) {
			<-ctx.Done()
			return false, "", ctx.Err()
		}, "wait for the moon: waited 10s, last seen: nothing yet: the bound ran out",
			await.ErrTimeout, 10 * time.Second},
		{"a look cut short that cannot be repeated", 0, func(ctx context.Context) (bool, string, error) {
			<-ctx.Done()
			return false, "", await.Stop(fmt.Errorf("ask: %w", ctx.Err()))
		}, "wait for the moon: waited 10s, last seen: nothing yet: the bound ran out",
			await.ErrTimeout, 10 * time.Second},
		{"a look that knows its deadline itself", 0, func(ctx context.Context) (bool, string, error) {
			bound, _ := ctx.Deadline()
			time.Sleep(time.Until(bound)) // As a connection does, which wakes up with or before ctx.
			return false, "", errors.New("i/o timeout")
		}, "wait for the moon: waited 10s, last seen: nothing yet: the bound ran out", await.ErrTimeout,
			10 * time.Second},
		{"a look that came too late", 0, func(ctx context.Context) (bool, string, error) {
			// As client-go asks when its turn comes after the bound: it returns at once.
			bound, _ := ctx.Deadline()
			limiter := rate.NewLimiter(rate.Every(time.Minute), 1)
			if time.Until(bound) > 5*time.Second {
				return false, "pid 7", nil
			}
			limiter.Allow()
			return false, "", fmt.Errorf("list pods: %w", limiter.Wait(ctx))
		}, "wait for the moon: waited 10s, last seen: pid 7: the bound ran out", await.ErrTimeout, 10 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.cancel > 0 {
					time.AfterFunc(tc.cancel, cancel)
				}
				begin := time.Now()
				err := await.Until(ctx, "the moon", time.Second, 10*time.Second, tc.cond)
				got := ""
				if err != nil {
					got = err.Error()
				}
				if got != tc.want || !errors.Is(err, tc.is) {
					t.Errorf("got %q, want %q", got, tc.want)
				}
				if took := time.Since(begin); took != tc.took {
					t.Errorf("took %s, want %s", took, tc.took)
				}
			})
		})
	}
}

func TestForEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begin := time.Now()
		if err := await.For(ctx, time.Minute); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if err := await.For(t.Context(), time.Minute); err != nil || time.Since(begin) != 61*time.Second {
			t.Errorf("got %v after %s", err, time.Since(begin))
		}
	})
}
