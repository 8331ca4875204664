package history_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/chaos/history"
)

func TestIdentityKey(t *testing.T) {
	loop := history.Identity{Device: "7:1", BackingFile: "/a", BackingDev: "8:1", BackingInode: 9}
	other := history.Identity{Device: "7:2", BackingFile: "/b", BackingDev: "8:1", BackingInode: 9}
	if loop.Key() != other.Key() {
		t.Errorf("two loop devices over one file have the keys %q and %q", loop.Key(), other.Key())
	}
	elsewhere := loop
	elsewhere.BackingDev = "8:2"
	disk := history.Identity{Device: "7:1"}
	keys := map[string]bool{loop.Key(): true, elsewhere.Key(): true, disk.Key(): true}
	if len(keys) != 3 || disk.Key() == "" {
		t.Errorf("a loop device, one over a file elsewhere and a disk have the keys %v", keys)
	}
	if key := (history.Identity{BackingFile: "/a", BackingDev: "8:1"}).Key(); key != "" {
		t.Errorf("nothing is known but the key is %q", key)
	}
}

// TestSpans holds what the judges rely on when they compare two spans.
func TestSpans(t *testing.T) {
	draw := func(t *rapid.T, name string) history.Span {
		return history.Between(history.Time(rapid.IntRange(0, 9).Draw(t, name)),
			history.Time(rapid.IntRange(0, 9).Draw(t, name)))
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		if a.NotAfter < a.NotBefore || a.Length() < 0 {
			t.Fatalf("a span the wrong way round: %+v", a)
		}
		always, shared := true, false
		for x := a.NotBefore; x <= a.NotAfter; x++ {
			for y := b.NotBefore; y <= b.NotAfter; y++ {
				always = always && x < y
				shared = shared || x == y
			}
		}
		if a.CertainlyBefore(b) != always {
			t.Fatalf("%+v certainly before %+v: %v, by every pair of instants: %v", a, b, a.CertainlyBefore(b),
				always)
		}
		if a.PossiblyOverlaps(b) != shared || a.PossiblyOverlaps(b) != b.PossiblyOverlaps(a) {
			t.Fatalf("%+v possibly overlaps %+v: %v, by every pair of instants: %v", a, b, a.PossiblyOverlaps(b),
				shared)
		}
	})
}

func TestTime(t *testing.T) {
	at := history.Time(1_353_010_000_000)
	if got := at.String(); got != "1353.010s" {
		t.Errorf("String() = %q", got)
	}
	if d, err := time.ParseDuration(at.String()); err != nil || history.Time(d) != at {
		t.Errorf("a boot's name does not read back: %v, %v", d, err)
	}
	if got := at.Add(time.Second).Sub(at); got != time.Second {
		t.Errorf("a second later is %s later", got)
	}
	if got := history.At(at); got.Length() != 0 || got.NotBefore != at {
		t.Errorf("At(%v) = %+v", at, got)
	}
}
