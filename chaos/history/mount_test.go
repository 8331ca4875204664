package history_test

import (
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
)

func TestParseBoot(t *testing.T) {
	for _, c := range []struct {
		boot string
		want history.Time
		ok   bool
	}{
		{"1353.010s", 1_353_010_000_000, true},
		{"1353010000000", 1_353_010_000_000, true},
		{"0", 0, true},
		{"-5s", -5_000_000_000, false},
		{"-5", -5, false},
		{"", 0, false},
		{"b7a7c9f0-0000", 0, false},
	} {
		if got, ok := history.ParseBoot(c.boot); got != c.want && ok || ok != c.ok {
			t.Errorf("parseBoot(%q) = %d, %v, want %d, %v", c.boot, got, ok, c.want, c.ok)
		}
	}
}
