package check_test

import (
	"strings"
	"testing"

	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// TestASecondPodOfOneIdentity makes a pod by hand beside those of a StatefulSet.
func TestASecondPodOfOneIdentity(t *testing.T) {
	for _, tc := range []struct {
		name                       string
		label, hostname, subdomain string
		verdict                    check.Verdict
	}{
		{"of another host name", "", "other", "web", check.Pass},
		{"of the host name, and no subdomain", "", "web-1", "", check.Pass},
		{"of an ordinal that is not there", "", "web-7", "web", check.Pass},
		{"of another StatefulSet", "", "api-1", "web", check.Pass},
		{"of the DNS name", "", "web-1", "web", check.Fail},
		{"of the label", "web-1", "", "", check.Fail},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := historytest.Web(historytest.SetSpec{Replicas: 3}).Up(0, 1, 2).
				ByHand("by-hand", tc.label, tc.hostname, tc.subdomain).Told(20)
			got := result(t, h, "set-identity")
			said := ""
			for _, f := range got.Findings {
				said += f.Sentence
			}
			if got.Verdict != tc.verdict || tc.verdict == check.Fail &&
				!strings.Contains(said, "had the identity of pod web-1") {
				t.Errorf("verdict %s, want %s: %s %q", got.Verdict, tc.verdict, said, got.Reasons)
			}
		})
	}
}
