package check_test

import (
	"testing"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

func TestSmokePasses(t *testing.T) {
	r := check.Run(historytest.Smoke().History(), check.All())
	for _, res := range r.Results {
		t.Logf("%s %s %d %s\nreasons %q\nnotes %q\nfindings %+v", res.Check, res.Verdict, res.Evidence, res.Unit, res.Reasons, res.Notes, res.Findings)
		if res.Verdict != check.Pass {
			t.Errorf("%s", res.Check)
		}
	}
}
