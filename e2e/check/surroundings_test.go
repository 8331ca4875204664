package check

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check/historytest"
	"github.com/seatrial/seatrial/e2e/world"
)

func faultStep(during ...plan.Step) plan.Step {
	return plan.Step{Do: plan.ActionFault, Fault: &plan.Fault{Name: "f", During: during}}
}

func scaleStep(replicas int, during ...plan.Step) plan.Step {
	return plan.Step{Do: plan.ActionScale, Replicas: &replicas, During: during}
}

func besides(branches ...plan.Step) plan.Step {
	s := plan.Step{Do: plan.ActionTogether}
	for _, b := range branches {
		s.Branches = append(s.Branches, []plan.Step{b})
	}
	return s
}

// TestWithinIsWithinAnotherFault holds that only a fault nested in another fault's step is Within.
func TestWithinIsWithinAnotherFault(t *testing.T) {
	p := plan.Plan{Steps: []plan.Step{
		faultStep(faultStep(), besides(faultStep(), scaleStep(1, faultStep()))), // 1; 2, 4, 6.
		scaleStep(2, faultStep()),          // 8.
		besides(faultStep(), faultStep()),  // 10, 11.
		scaleStep(1, besides(faultStep())), // 14.
		faultStep(),                        // 15.
	}}
	plan.Number(p.Steps)
	var outer, inner []int
	for _, l := range world.FaultLives(p, nil) {
		if l.Within {
			inner = append(inner, l.Step)
		} else {
			outer = append(outer, l.Step)
		}
	}
	if d := cmp.Diff([]int{1, 8, 10, 11, 14, 15}, outer); d != "" {
		t.Errorf("within no other (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]int{2, 4, 6}, inner); d != "" {
		t.Errorf("within another (-want +got):\n%s", d)
	}
}

// lived is a fault with the times of its injection and of its confirmed healing, 0 for never.
func lived(step int, from, to history.Time) world.Fault {
	l := world.Fault{Step: step, Facts: map[history.FaultStage]*history.Event{
		history.StageInjected: {Span: history.At(from)}, history.StageConfirmed: {Span: history.At(from + 1)},
	}}
	if to != 0 {
		l.Facts[history.StageHealed] = &history.Event{Span: history.At(to - 1)}
		l.Facts[history.StageConfirmedHealed] = &history.Event{Span: history.At(to)}
	}
	return l
}

func nested(l world.Fault) world.Fault {
	l.Within = true
	return l
}

func times(last, from, to, next history.Time) world.Surroundings {
	return world.Surroundings{Last: last, From: from, To: to, Next: next}
}

func TestFaultsThatOverlapShareBeforeAndAfter(t *testing.T) {
	for _, tc := range []struct {
		name   string
		faults []world.Fault
		want   map[int]world.Surroundings
	}{
		{"one after another", []world.Fault{lived(1, 10, 20), lived(2, 30, 40)},
			map[int]world.Surroundings{1: times(5, 10, 20, 30), 2: times(20, 30, 40, world.Forever)}},
		{"one within another's time", []world.Fault{lived(1, 10, 50), lived(2, 20, 40), lived(3, 70, 80)},
			map[int]world.Surroundings{1: times(5, 10, 50, 70), 2: times(5, 10, 50, 70), 3: times(50, 70, 80,
				world.Forever)}},
		{"a chain, in whatever order", []world.Fault{lived(1, 35, 50), lived(2, 10, 30), lived(3, 20, 40)},
			map[int]world.Surroundings{1: times(5, 10, 50, world.Forever), 2: times(5, 10, 50, world.Forever),
				3: times(5, 10, 50, world.Forever)}},
		{"a nested one that outlasts it", []world.Fault{lived(1, 10, 30), nested(lived(2, 20, 40)), lived(3, 50, 60)},
			map[int]world.Surroundings{1: times(5, 10, 40, 50), 2: times(5, 10, 40, 50), 3: times(40, 50, 60,
				world.Forever)}},
		{"one that never ended", []world.Fault{lived(1, 10, 30), lived(2, 20, 0)},
			map[int]world.Surroundings{1: times(5, 10, world.Forever, world.Forever)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := &world.Trial{Start: 5, Faults: tc.faults}
			got := map[int]world.Surroundings{}
			for _, l := range tc.faults {
				if at, ok := s.Around(l); ok {
					got[l.Step] = at
				}
			}
			if d := cmp.Diff(tc.want, got, cmp.AllowUnexported(world.Surroundings{})); d != "" {
				t.Errorf("times around them (-want +got):\n%s", d)
			}
		})
	}
}

func TestInstancesThatAFaultFindsThereAllTheTime(t *testing.T) {
	del := func(cascade string, during ...plan.Step) plan.Step {
		return plan.Step{Do: plan.ActionDeleteSet, Cascade: cascade, During: during}
	}
	create := func(during ...plan.Step) plan.Step { return plan.Step{Do: plan.ActionCreateSet, During: during} }
	for _, tc := range []struct {
		name  string
		steps []plan.Step
		want  int
	}{
		{"alone", []plan.Step{faultStep()}, 3},
		{"after scaling down", []plan.Step{scaleStep(2), faultStep()}, 2},
		{"before it", []plan.Step{faultStep(), scaleStep(1)}, 3},
		{"while it is scaled down", []plan.Step{scaleStep(1, faultStep())}, 1},
		{"while it is scaled up", []plan.Step{scaleStep(1), scaleStep(3, faultStep())}, 1},
		{"beside a branch that scales", []plan.Step{besides(faultStep(), scaleStep(2))}, 2},
		{"with a scale within it", []plan.Step{faultStep(scaleStep(1))}, 1},
		{"while it is deleted", []plan.Step{del("background", faultStep())}, 0},
		{"while it is made again", []plan.Step{del("background"), create(faultStep())}, 0},
		{"when it is made again", []plan.Step{del("background"), create(), faultStep()}, 3},
		{"while its pods are orphans", []plan.Step{del(plan.CascadeOrphan), create(faultStep())}, 3},
	} {
		p := plan.Plan{Workload: plan.Workload{Replicas: 3}, Steps: tc.steps}
		plan.Number(p.Steps)
		lives := world.FaultLives(p, nil)
		if got := (&world.Trial{Plan: p}).Steady(lives[0].Step); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestAFaultDuringAChangeNeedsClientsAtWork has a node rebooted while the StatefulSet is changed: clients must be
// at work then as during any other fault.
func TestAFaultDuringAChangeNeedsClientsAtWork(t *testing.T) {
	h := historytest.Smoke().History()
	for i := range h.Events {
		if h.Events[i].Kind != history.KindPlan {
			continue
		}
		p := historytest.SmokePlan()
		p.Steps[4] = plan.Step{N: 5, Do: plan.ActionUpdate, Update: &plan.Update{Revision: "v2"},
			Bound: plan.Duration(2 * time.Minute), During: []plan.Step{p.Steps[5]}}
		p.Steps = slices.Delete(p.Steps, 5, 6)
		h.Events[i].Plan, _ = json.Marshal(p) // A plan can always be encoded.
	}
	if r := Run(h, []Check{Coverage()}); r.Verdict != Pass {
		t.Fatalf("got %s: %+v", r.Verdict, r.Results)
	}
	held := history.Span{}
	for _, e := range h.Events {
		if e.Fault != nil && e.Fault.Step == 6 && e.Fault.Stage == history.StageConfirmed {
			held.NotBefore = e.Span.NotAfter
		}
		if e.Fault != nil && e.Fault.Step == 6 && e.Fault.Stage == history.StageHealed {
			held.NotAfter = e.Span.NotBefore
		}
	}
	h.Events = slices.DeleteFunc(h.Events, func(e history.Event) bool {
		return e.Op != nil && e.Span.PossiblyOverlaps(held)
	})
	r := Run(h, []Check{Coverage()})
	said := strings.Join(r.Results[0].Reasons, "\n")
	if r.Verdict != Unknown || !strings.Contains(said, "during step 6 node-reboot") {
		t.Errorf("nobody was at work: %s, %s", r.Verdict, said)
	}
}

// TestRunContainsACrash holds that a check that crashes is Unknown and stops no other.
func TestRunContainsACrash(t *testing.T) {
	boom := Check{Name: "boom", Promise: "p", Source: "s", judge: func(r *ruling) {
		var none *int
		*none = 1
	}}
	empty := Check{Name: "empty", judge: func(*ruling) {}}
	broken := Check{Name: "broken", judge: func(r *ruling) { r.violation(Finding{}, "It broke.") }}
	r := Run(historytest.Smoke().History(), []Check{boom, empty, broken})
	var got []Verdict
	for _, res := range r.Results {
		got = append(got, res.Verdict)
	}
	if want := []Verdict{Unknown, Unknown, Fail}; !slices.Equal(got, want) || r.Verdict != Fail {
		t.Errorf("got %v and %s, want %v and FAIL", got, r.Verdict, want)
	}
	if !strings.Contains(r.Results[0].Reasons[0], "crashed") {
		t.Errorf("reasons %q", r.Results[0].Reasons)
	}
}
