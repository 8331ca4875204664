package report_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/e2e/check/historytest"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/world"
)

func TestWhatWasAwaitedIsToldWithItsLatency(t *testing.T) {
	h := historytest.Smoke().History()
	at := h.Events[0].Span.NotAfter.Add(20e9)
	h.Events = append(h.Events, history.Event{ID: int64(len(h.Events) + 1), Kind: history.KindAwait, Source: "trial",
		Span: history.At(at.Add(502e6)), Await: &history.Await{Step: 4, For: "mount", What: "mount of pv-0 on worker",
			Happened: history.At(at), Known: at.Add(1_500_000), Acted: at.Add(502e6)}})
	var text bytes.Buffer
	if err := report.WriteText(&text, report.Judged{World: world.New(h)}, report.Options{}); err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(text.String(), "AWAITED")
	for _, want := range []string{"mount", "+20.0s", "1.5ms", "502.0ms", "mount of pv-0 on worker"} {
		if !ok || !strings.Contains(table, want) {
			t.Errorf("%q is not told:\n%s", want, text.String())
		}
	}
}
