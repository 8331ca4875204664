package check_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/e2e/check"
	"github.com/seatrial/seatrial/e2e/check/historytest"
)

// TestWholeTrialPasses holds that a sound trial passes every check, each with evidence.
func TestWholeTrialPasses(t *testing.T) {
	r := judgeTwice(t, historytest.Smoke().History())
	if r.Verdict != check.Pass {
		t.Errorf("verdict %s", r.Verdict)
	}
	for _, res := range r.Results {
		if res.Verdict != check.Pass || res.Evidence == 0 || len(res.Reasons) > 0 {
			t.Errorf("%s: %s with %d %s, reasons %q, findings %+v",
				res.Check, res.Verdict, res.Evidence, res.Unit, res.Reasons, res.Findings)
		}
		if res.Promise == "" || res.Source == "" || res.Unit == "" {
			t.Errorf("%s: it does not say what it promises, on what ground, or what it counts: %+v", res.Check, res)
		}
	}
}

// TestEveryCheckSaysWhen holds that each check says when its promise holds, in one of the words.
func TestEveryCheckSaysWhen(t *testing.T) {
	words := []check.When{check.Continuous, check.OnFault, check.AfterHeal, check.Edge, check.End}
	for _, c := range check.All() {
		if !slices.Contains(words, c.When) {
			t.Errorf("%s says %q, want one of %q", c.Name, c.When, words)
		}
	}
}

// TestNothingToJudge holds that no check passes a history without evidence, and that each says why.
func TestNothingToJudge(t *testing.T) {
	smoke := historytest.Smoke().History()
	noPlan := history.History{Events: drop(kind(history.KindPlan))(slices.Clone(smoke.Events))}
	badPlan := trialOf(edit(kind(history.KindPlan), func(e *history.Event) { e.Plan = []byte(`{"schema":1}`) }))
	noBounds := trialOf(edit(kind(history.KindPlan), func(e *history.Event) {
		p := historytest.SmokePlan()
		p.Bounds = plan.Bounds{}
		e.Plan, _ = json.Marshal(p)
	}))
	newer := trialOf(edit(kind(history.KindPlan), func(e *history.Event) { e.Plan = []byte(`{"schema":9000}`) }))
	torn := history.History{Events: smoke.Events, Truncated: true}
	for _, c := range []struct {
		name string
		h    history.History
		says string
	}{
		{"empty", history.History{}, "no plan"},
		{"no plan", noPlan, "no plan"},
		{"plan alone", historytest.New(historytest.SmokePlan()).History(), ""},
		{"illegal plan", badPlan, "not legal"},
		{"plan without bounds", noBounds, "not legal"},
		{"plan of a later schema", newer, "schema 9000"},
		{"torn", torn, "torn"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := judgeTwice(t, c.h)
			if r.Verdict != check.Unknown {
				t.Errorf("verdict %s, want UNKNOWN", r.Verdict)
			}
			for _, res := range r.Results {
				if res.Verdict != check.Unknown {
					t.Errorf("%s: %s, want UNKNOWN", res.Check, res.Verdict)
				}
				if all := strings.Join(res.Reasons, "\n"); len(res.Reasons) == 0 || !strings.Contains(all, c.says) {
					t.Errorf("%s: reasons %q do not say %q", res.Check, all, c.says)
				}
			}
		})
	}
}

// TestFaultFree holds that a trial without faults can pass, and that its result says what was judged.
func TestFaultFree(t *testing.T) {
	h := trialOf(then(drop(kind(history.KindFault)), edit(kind(history.KindPlan), func(e *history.Event) {
		p := historytest.SmokePlan()
		for i := range p.Steps {
			if p.Steps[i].Do == plan.ActionFault {
				p.Steps[i] = plan.Step{N: i + 1, Do: plan.ActionLoad, Commits: 1, Bound: p.Steps[i].Bound}
			}
		}
		e.Plan, _ = json.Marshal(p)
	})))
	r := judgeTwice(t, h)
	for _, res := range r.Results {
		if res.Verdict != check.Pass {
			t.Errorf("%s: %s, reasons %q, findings %+v", res.Check, res.Verdict, res.Reasons, res.Findings)
		}
	}
}

func TestWorst(t *testing.T) {
	p, f, u := check.Pass, check.Fail, check.Unknown
	for _, c := range []struct {
		in   []check.Verdict
		want check.Verdict
	}{
		{nil, u},
		{[]check.Verdict{p, p}, p},
		{[]check.Verdict{p, u}, u},
		{[]check.Verdict{u, f, p}, f},
		{[]check.Verdict{p, "green"}, u},
		{[]check.Verdict{""}, u},
	} {
		if got := check.Worst(c.in...); got != c.want {
			t.Errorf("Worst(%v) = %s, want %s", c.in, got, c.want)
		}
	}
}
