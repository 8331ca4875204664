package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// TestNoProcessOutlivesItsNode has the node of a database fall silent before the process was seen to end, while its
// twin comes up elsewhere: the two certainly did not live at once if the node was confirmed down in between.
func TestNoProcessOutlivesItsNode(t *testing.T) {
	const perhaps = "may have lived at once"
	for _, tc := range []struct {
		name   string
		down   float64 // When it was shown; 0 for never.
		silent bool
		want   string
	}{
		{"never shown to be down", 0, true, perhaps},
		{"down before the twin came", 36, true, ""},
		{"down when the twin was there", 45, true, perhaps},
		{"said to be down, and seen to go on", 36, false, "lived at once"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := historytest.Disk().History()
			h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool {
				if p := e.Process; p != nil && p.Node == "worker2" && p.Action == history.ProcessGone {
					return true
				}
				o := e.Observer
				return tc.silent && o != nil && o.Name == "processes" && o.Node == "worker2" &&
					e.Span.NotAfter > historytest.At(30)
			})
			if tc.down > 0 {
				at := historytest.At(tc.down)
				h.Events = append(h.Events, history.Event{ID: 1 << 40, Kind: history.KindFault, Source: "fault",
					Span: history.Between(at, at), Fault: &history.Fault{Step: 99, Name: "node-stop",
						Stage: history.StageConfirmed, Node: "worker2", Evidence: []string{"it is down"}}})
			}
			got := result(t, h, "pod-identity")
			if tc.want != "" {
				expect(t, got, got.Verdict, tc.want)
			} else if got.Verdict == check.Fail || strings.Contains(said(got), perhaps) {
				t.Errorf("verdict %s:\n%s", got.Verdict, said(got))
			}
		})
	}
}
