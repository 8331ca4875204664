package plan_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// linePlan is a legal plan with faults of a line and of a clock.
func linePlan() (plan.Plan, plan.Caps) {
	p, c := legal(), caps()
	p.Steps = nil
	for i, f := range []plan.Fault{
		{Name: "late", Delay: plan.Duration(time.Second)}, {Name: "narrow", Kbits: 2000},
		{Name: "clock", Offset: -plan.Duration(time.Hour)},
	} {
		f.Hold = plan.Duration(time.Second)
		s := plan.Step{N: i + 1, Do: plan.ActionFault, Bound: plan.Duration(time.Minute), Fault: &f}
		p.Steps = append(p.Steps, s)
	}
	c.Faults = append(c.Faults,
		plan.FaultCaps{Name: "late", Needs: []string{"netem"}, Network: plan.NetworkCaps{Delay: true}},
		plan.FaultCaps{Name: "narrow", Network: plan.NetworkCaps{Kbits: true}},
		plan.FaultCaps{Name: "clock", Offset: true})
	return p, c
}

func TestMistakesInFaultsOfLinesAndClocks(t *testing.T) {
	p, c := linePlan()
	if err := p.Validate(c); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name  string
		wrong func(late, narrow, clock *plan.Fault)
		want  string
	}{
		{"no delay", func(l, _, _ *plan.Fault) { l.Delay = 0 },
			"steps[0].fault.delay: 0s is out of range; use 10ms to 5s"},
		{"a delay back in time", func(l, _, _ *plan.Fault) { l.Delay = -1 }, "steps[0].fault.delay: -1ns"},
		{"a long delay", func(l, _, _ *plan.Fault) { l.Delay = plan.Duration(6 * time.Second) },
			"steps[0].fault.delay: 6s"},
		{"a delay of a rate", func(_, n, _ *plan.Fault) { n.Delay = 1 },
			`steps[1].fault.delay: fault "narrow" does not`},
		{"no rate", func(_, n, _ *plan.Fault) { n.Kbits = 0 }, "steps[1].fault.kbits: 0 is out of range"},
		{"too wide", func(_, n, _ *plan.Fault) { n.Kbits = 1 << 60 }, "steps[1].fault.kbits: 1152921504606846976 is"},
		{"a rate of a clock", func(_, _, c *plan.Fault) { c.Kbits = 600 },
			`steps[2].fault.kbits: fault "clock" does not`},
		{"no step", func(_, _, c *plan.Fault) { c.Offset = 0 }, "steps[2].fault.offset: 0s is out of range"},
		{"a step that is none", func(_, _, c *plan.Fault) { c.Offset = -1 },
			"steps[2].fault.offset: -1ns is out of range"},
		{"a step of days", func(_, _, c *plan.Fault) { c.Offset = -1 << 63 }, "steps[2].fault.offset: -2562047h47m16"},
		{"a step of a line", func(l, _, _ *plan.Fault) { l.Offset = 1 },
			`steps[0].fault.offset: fault "late" does not`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, c := linePlan()
			tc.wrong(p.Steps[0].Fault, p.Steps[1].Fault, p.Steps[2].Fault)
			if err := p.Validate(c); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	c.Cannot = map[string]string{"netem": "the kernel has none"}
	err := p.Validate(c)
	if err == nil || !strings.Contains(err.Error(), `steps[0].fault.name: fault "late" needs "netem"`) ||
		!strings.Contains(err.Error(), "the kernel has none") {
		t.Errorf("got %v", err)
	}
}

func TestLinesAndClocksAreDescribed(t *testing.T) {
	p, _ := linePlan()
	var text bytes.Buffer
	if err := p.Render(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{", by 1s, held", ", to 2000 kbit/s, held", ", by -1h0m0s, held"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in:\n%s", want, text.String())
		}
	}
}
