package trial

import (
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/rundir"
)

// TestStatusNamesPhaseStepFaultAndLoad holds what a signal or a progress report shows of a running trial.
func TestStatusNamesPhaseStepFaultAndLoad(t *testing.T) {
	p := &Place{}
	if got := p.Status(); got != "" {
		t.Errorf("without a trial: %q", got)
	}
	dir, err := rundir.Create(t.TempDir(), "smoke", 42, time.Unix(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := dir.RecordHistory()
	if err != nil {
		t.Fatal(err)
	}
	second := history.Time(time.Second)
	c := &runner{RunOptions: RunOptions{Plan: plan.Plan{Scenario: "smoke", Seed: 42}}, dir: dir, began: second}
	c.rec = newFeed(rec, c.Plan)
	load := c.open.add(openPhase{"load: the plan's steps, under load", 2 * second})
	step := c.open.add(openPhase{"step 2: cut node of mysql-1", 5 * second})
	release, err := c.active.take(activeFault{step: 2, name: "node-partition", node: "worker"})
	if err != nil {
		t.Fatal(err)
	}
	for i, stage := range []history.Stage{history.StageOK, history.StageOK, history.StageInvoke} {
		c.rec.Record(history.Event{Kind: history.KindOp, Span: history.At(history.Time(6+i) * second),
			Op: &history.Op{Instance: "mysql-0", Stage: stage, F: history.OpInsert}})
	}
	want := "trial smoke, seed 42, since 9s: " + dir.Path() + `
  load: the plan's steps, under load, since 8s
  step 2: cut node of mysql-1, since 5s
  fault node-partition of step 2 holds node "worker"
  2 operations acknowledged, the last 3s ago
`
	if got := c.status(10 * second); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	step()
	release()
	load()
	want = "trial smoke, seed 42, since 9s: " + dir.Path() + "\n  2 operations acknowledged, the last 3s ago\n"
	if got := c.status(10 * second); got != want {
		t.Errorf("after the step: got\n%s\nwant\n%s", got, want)
	}
	p.running.Store(c)
	if p.Status() == "" {
		t.Error("the place knows nothing of its trial")
	}
}
