package history

import (
	"fmt"
	"time"
)

// Time is a point on the boot clock (CLOCK_BOOTTIME) in nanoseconds. All kind nodes share one kernel and so one
// boot clock; it never steps and goes on over suspend.
type Time int64

// Sub returns the duration t-u.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Add returns t moved by d.
func (t Time) Add(d time.Duration) Time { return t + Time(d) }

// String renders seconds since boot with millisecond resolution.
func (t Time) String() string { return fmt.Sprintf("%.3fs", float64(t)/1e9) }

// Span says when something happened as an interval: not before NotBefore and not after NotAfter. An instant has both
// equal. A thing that lasts (an operation, a gap) has its begin and end there.
type Span struct {
	NotBefore Time `json:"nb"`
	NotAfter  Time `json:"na"`
}

// At returns the span of an instant known exactly.
func At(t Time) Span { return Span{NotBefore: t, NotAfter: t} }

// Between returns the span [from, to]; the two are swapped when given in the wrong order.
func Between(from, to Time) Span {
	if to < from {
		from, to = to, from
	}
	return Span{NotBefore: from, NotAfter: to}
}

// CertainlyBefore reports that s ended before o began, whatever instants inside the two are the true ones.
func (s Span) CertainlyBefore(o Span) bool { return s.NotAfter < o.NotBefore }

// PossiblyOverlaps reports that the two spans share an instant.
func (s Span) PossiblyOverlaps(o Span) bool { return !s.CertainlyBefore(o) && !o.CertainlyBefore(s) }

// Length returns NotAfter-NotBefore.
func (s Span) Length() time.Duration { return s.NotAfter.Sub(s.NotBefore) }
