package plan_test

import (
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
)

func TestWhatACommitIsWorth(t *testing.T) {
	for _, tc := range []struct {
		flush, sync *int
		durable     bool
		want        string // Of the error; "" for none.
	}{
		{nil, nil, true, ""},
		{new(1), new(1), true, ""},
		{new(2), nil, false, ""},
		{new(0), nil, false, ""},
		{nil, new(0), false, ""},
		{new(3), nil, false, "workload.flushLogAtTrxCommit: 3 is out of range; use 0 to 2"},
		{new(-1), nil, false, "workload.flushLogAtTrxCommit: -1 is out of range; use 0 to 2"},
		{nil, new(2), false, "workload.syncBinlog: 2 is out of range; use 0 to 1"},
	} {
		p := legal()
		p.Workload.FlushLogAtTrxCommit, p.Workload.SyncBinlog = tc.flush, tc.sync
		err := p.Validate(caps())
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%v, %v: got %v, want %q", tc.flush, tc.sync, err, tc.want)
		}
		var text strings.Builder
		if err := p.Render(&text); err != nil {
			t.Fatal(err)
		}
		got, told := p.Workload.Durable(), strings.Contains(text.String(), "not durable")
		if got != tc.durable || told == tc.durable {
			t.Errorf("%v, %v: durable is %t, told otherwise: %t", tc.flush, tc.sync, got, told)
		}
	}
	p := plan.Plan{Workload: plan.Workload{Name: "light", Light: true, SyncBinlog: new(1)}}
	want := "workload.syncBinlog: is set, and a light workload"
	if err := p.Validate(caps()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a light workload: %v", err)
	}
}

func TestAReadStepHasNoOtherField(t *testing.T) {
	p := legal()
	p.Steps[0] = plan.Step{N: 1, Do: plan.ActionRead, Bound: p.Steps[0].Bound}
	if err := p.Validate(caps()); err != nil {
		t.Error(err)
	}
	p.Steps[0].Label = "x"
	if err := p.Validate(caps()); err == nil || !strings.Contains(err.Error(), `is set in a "read" step`) {
		t.Errorf("got %v", err)
	}
}
