package nodefacts

import (
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
)

// TestAMachineThatWasPausedLosesTime has a node whose clock was read an hour after its boot, just before the machine
// was paused for 8 s, and is 8 s behind at the next reading, 20 s later.
func TestAMachineThatWasPausedLosesTime(t *testing.T) {
	t.Parallel()
	const second, hour = history.Time(time.Second), history.Time(time.Hour)
	c := &clock{boots: map[string]*boot{}}
	convert := func(at history.Time) history.Span {
		e := history.Event{Span: history.At(hour + at)}
		c.convert(&e, "1s", nil)
		return history.Span{NotBefore: e.Span.NotBefore / second, NotAfter: e.Span.NotAfter / second}
	}
	offset, margin := 2*time.Hour+time.Second/2, 100*time.Millisecond
	c.last = reading{clusters.NodeClock{Offset: offset, Error: margin}, hour, hour + 8*second}
	if got, want := convert(5*second), history.At(3*hour/second+5); got != want {
		t.Errorf("before: %d, want %d", got, want)
	}
	offset += 8 * time.Second
	c.last = reading{clusters.NodeClock{Offset: offset, Error: margin}, hour + 12*second, hour + 12*second}
	for at, want := range map[history.Time]history.Span{ // In seconds from the first reading on.
		-20: history.At(-20), 0: history.At(0), 3: history.Between(3, 11), 10: history.Between(10, 18),
		12: history.At(20), 30: history.At(38),
	} {
		want.NotBefore, want.NotAfter = 3*hour/second+want.NotBefore, 3*hour/second+want.NotAfter
		if got := convert(at * second); got != want {
			t.Errorf("at %d s: %d, want %d", at, got, want)
		}
	}
	// Another boot.
	c.last = reading{clusters.NodeClock{Offset: 4 * time.Hour, Error: margin}, 10 * second, 10 * second}
	if got, want := convert(40*second), history.At(3*hour/second+48); got != want {
		t.Errorf("after the next boot: %d, want %d", got, want)
	}
}
