package trial

import (
	"maps"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// TestVictimsAreWaitedForOnce counts what instances acknowledge, and names those that were hurt, once each.
func TestVictimsAreWaitedForOnce(t *testing.T) {
	t.Parallel()
	f := newFeed(nil, plan.Plan{})
	op := func(instance string, stage history.Stage) {
		f.see(history.Event{Kind: history.KindOp, Op: &history.Op{Instance: instance, Stage: stage}}, 1)
	}
	op("mysql-0", history.StageInvoke)
	op("mysql-0", history.StageOK)
	op("mysql-1", history.StageFailed)
	if got := f.victims(); len(got) > 0 {
		t.Errorf("victims %v before anything was hurt", got)
	}
	f.hurts("mysql-0")
	f.hurts("mysql-1")
	f.hurts("mysql-0")
	if got, want := f.victims(), map[string]int{"mysql-0": 1, "mysql-1": 0}; !maps.Equal(got, want) {
		t.Errorf("victims %v, want %v", got, want)
	}
	op("mysql-1", history.StageOK)
	if got := f.acknowledged("mysql-1"); got != 1 {
		t.Errorf("%d acknowledged, want 1", got)
	}
	if got := f.victims(); len(got) > 0 {
		t.Errorf("victims %v are told twice", got)
	}
}
