package check_test

import (
	"testing"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// TestDiskPasses holds that a trial on attached disks in which all was well passes every check, and that none is left
// out.
func TestDiskPasses(t *testing.T) {
	r := judgeTwice(t, historytest.Disk().History())
	for _, res := range r.Results {
		if res.Verdict != check.Pass || res.Evidence == 0 || len(res.Reasons) > 0 {
			t.Errorf("%s: %s with %d %s, reasons %q, findings %+v",
				res.Check, res.Verdict, res.Evidence, res.Unit, res.Reasons, res.Findings)
		}
	}
	if len(r.Results) != len(check.All()) {
		t.Errorf("%d of %d checks judged", len(r.Results), len(check.All()))
	}
}
