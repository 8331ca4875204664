package report_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/e2e/report"
)

// checkTrace holds, for a recorded run, what ui.perfetto.dev needs (asynchronous events in pairs, no overlap on the
// track of a client) and that the trace has the operations, faults and findings of the run.
func checkTrace(t *testing.T, name string, j report.Judged) {
	var out, again bytes.Buffer
	if err := report.WriteTrace(&out, j); err != nil {
		t.Fatal(err)
	}
	if err := report.WriteTrace(&again, j); err != nil || !bytes.Equal(out.Bytes(), again.Bytes()) {
		t.Errorf("another time it is another trace (%v)", err)
	}
	var trace struct {
		TraceEvents []struct {
			Name, Ph, Cat string
			TS, Dur       float64
			Pid, Tid, ID  int
		}
	}
	if err := json.Unmarshal(out.Bytes(), &trace); err != nil {
		t.Fatal(err)
	}
	type span struct{ from, to float64 }
	tracks, open, findings, acked := map[[2]int][]span{}, map[int]float64{}, 0, 0
	last := float64(j.World.Last().Sub(j.World.Begin()).Nanoseconds()) / 1e3
	for _, e := range trace.TraceEvents {
		if e.TS < 0 || e.TS+e.Dur > last+1 || e.Dur < 0 {
			t.Errorf("%s at %f for %f, in a run of %f", e.Name, e.TS, e.Dur, last)
		}
		switch {
		case e.Ph == "b":
			open[e.ID] = e.TS
		case e.Ph == "e":
			if from, ok := open[e.ID]; !ok || from > e.TS {
				t.Errorf("%s ends at %f, and begins at %f, %t", e.Name, e.TS, from, ok)
			}
			delete(open, e.ID)
		case e.Ph == "X":
			at := [2]int{e.Pid, e.Tid}
			tracks[at] = append(tracks[at], span{e.TS, e.TS + e.Dur})
			if e.Cat == "ok" {
				acked++
			}
		case e.Ph == "i" && e.Pid == 4:
			findings++
		}
	}
	if len(open) > 0 {
		t.Errorf("these never end: %v", open)
	}
	for at, spans := range tracks {
		slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
		for i := 1; i < len(spans); i++ {
			if spans[i].from < spans[i-1].to-0.001 {
				t.Fatalf("client %d: operations %v and %v overlap", at, spans[i-1], spans[i])
			}
		}
	}
	want, wantAcked := 0, 0
	for _, r := range j.Report.Results {
		want += len(r.Findings)
	}
	for _, e := range j.World.Events {
		if e.Op != nil && e.Op.Stage == "ok" {
			wantAcked++
		}
	}
	if findings != want || acked != wantAcked {
		t.Errorf("%d findings and %d answers, want %d and %d", findings, acked, want, wantAcked)
	}
	if strings.HasSuffix(name, "61832-5-fail") && !strings.Contains(out.String(), "node-partition confirmed") {
		t.Error("the partition is not in the trace")
	}
}
