package trial_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/seatrial/seatrial/e2e/trial"
)

func TestRunIDFitsEveryNameItIsPartOf(t *testing.T) {
	fits := regexp.MustCompile(`^r[0-9a-z]{10,12}$`)
	now := time.Date(2026, 11, 21, 5, 40, 12, 0, time.UTC)
	seen := map[string]bool{}
	for range 8 {
		id := trial.NewRunID(now)
		if !fits.MatchString(id) {
			t.Errorf("run id %q", id)
		}
		seen[id] = true
	}
	if len(seen) < 2 {
		t.Error("eight runs of one millisecond have one id")
	}
}
