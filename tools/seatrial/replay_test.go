package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

func step(n int, end bool, at history.Time, err string) history.Event {
	return history.Event{Kind: history.KindPhase, Span: history.At(at), Phase: &history.Phase{
		Name: history.PhaseStep, Step: n, End: end, Error: err}}
}

func TestReplayOfARecordedRun(t *testing.T) {
	s, err := readSaved(filepath.Join("..", "..", "fixtures", "recorded", "smoke-861908-pass"))
	if err != nil {
		t.Fatal(err)
	}
	if s.plan.Scenario != "smoke" || s.plan.Seed != 861908 {
		t.Errorf("plan of %s, seed %d", s.plan.Scenario, s.plan.Seed)
	}
	kept, err := json.Marshal(s.plan)
	if err != nil {
		t.Fatal(err)
	}
	if _, n := s.byCommits(); n != 0 {
		t.Errorf("%d waits for a time in a plan without any", n)
	}
	if now, err := json.Marshal(s.plan); err != nil || !bytes.Equal(kept, now) {
		t.Errorf("the kept plan was changed (%v)", err)
	}
	var out bytes.Buffer
	if err := writeFollowed(&out, s.plan, s.history, s.history); err != nil {
		t.Fatal(err)
	}
	n := len(s.plan.AllSteps())
	want := fmt.Sprintf("followed %d of %d steps as they ended then\n", n, n)
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("printed\n%swant the end %q", out.String(), want)
	}
}

func TestReplayTellsAnotherPlan(t *testing.T) {
	s, err := readSaved(filepath.Join("..", "..", "fixtures", "recorded", "smoke-861908-pass"))
	if err != nil {
		t.Fatal(err)
	}
	s.plan = mustPlan(t, "set-scale-light", 7)
	for _, tt := range []struct {
		change func(*plan.Plan)
		want   string
	}{
		{func(*plan.Plan) {}, "the same plan of seed 7"},
		{func(p *plan.Plan) { p.Audit, p.DataFiles = true, true }, "the same plan of seed 7"},
		{func(p *plan.Plan) { p.Workers++ }, "another plan of seed 7"},
		{func(p *plan.Plan) { p.Scenario = "gone" }, "no longer known"},
	} {
		tt.change(&s.plan)
		if got := s.today(); !strings.Contains(got, tt.want) {
			t.Errorf("it says %q, want %q", got, tt.want)
		}
	}
}

func mustPlan(t *testing.T, scenario string, seed uint64) plan.Plan {
	t.Helper()
	p, err := makePlan(scenario, seed)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestAPauseEndsByTheRecordedCommits(t *testing.T) {
	pause := plan.Step{N: 2, Do: plan.ActionPause, Lasting: plan.Duration(3 * time.Second), Bound: 1}
	s := saved{history: history.History{Events: []history.Event{
		step(1, false, 0, ""), step(2, false, 10, ""), step(2, true, 20, ""), step(3, false, 20, ""),
		step(3, true, 30, ""),
	}}}
	for _, at := range []history.Time{5, 12, 19, 25} {
		s.history.Events = append(s.history.Events, history.Event{Kind: history.KindOp, Span: history.At(at),
			Op: &history.Op{F: history.OpInsert, Stage: history.StageOK}})
	}
	s.plan.Steps = []plan.Step{{N: 1, Do: plan.ActionFault, Fault: &plan.Fault{During: []plan.Step{pause}}}}
	steps, n := s.byCommits()
	if n != 1 {
		t.Errorf("replaced %d waits, want 1", n)
	}
	got := steps[0].Fault.During[0]
	if got.N != 2 || got.Await == nil || got.Await.Commits != 2 || got.Await.Since != plan.SinceStep {
		t.Errorf("the pause became %+v, %+v", got, got.Await)
	}
	s.plan.Steps = []plan.Step{{N: 9, Do: plan.ActionPause, Lasting: 1}}
	if still, n := s.byCommits(); n != 0 || still[0].Do != plan.ActionPause {
		t.Error("a pause that was never recorded was replaced")
	}
}

func TestFollowedTellsWhereItEnded(t *testing.T) {
	p := plan.Plan{Steps: []plan.Step{
		{N: 1, Do: plan.ActionPause}, {N: 2, Do: plan.ActionPause}, {N: 3, Do: plan.ActionPause},
	}}
	second := history.Time(time.Second)
	then := history.History{Events: []history.Event{
		step(1, false, second, ""), step(1, true, 2*second, ""), step(2, false, 2*second, ""),
		step(2, true, 4*second, ""), step(3, false, 4*second, ""), step(3, true, 5*second, ""),
	}}
	now := history.History{Events: []history.Event{
		step(1, false, 7*second, ""), step(1, true, 9*second, ""), step(2, false, 9*second, ""),
		step(2, true, 10*second, "the bound is over"),
	}}
	var out bytes.Buffer
	if err := writeFollowed(&out, p, then, now); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"3s    not reached", "2s, failed", "followed 1 of 3 steps as they ended then"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, out.String())
		}
	}
}
