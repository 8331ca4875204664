package plan_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// networkPlan is a legal plan with a network fault that takes every field.
func networkPlan() (plan.Plan, plan.Caps) {
	peer := 2
	p := legal()
	p.Steps = []plan.Step{{N: 1, Do: plan.ActionFault, Bound: plan.Duration(time.Minute), Fault: &plan.Fault{
		Name: "every-field", Ordinal: 1, Hold: plan.Duration(time.Second), Direction: plan.DirectionIn,
		Flows: plan.FlowsNew, Reject: true, Percent: 30, Peer: &peer,
	}}}
	c := caps()
	c.Faults = append(c.Faults, plan.FaultCaps{Name: "every-field", Needs: []string{"nftables"},
		Network: plan.NetworkCaps{Direction: true, Flows: true, Reject: true, Percent: true, Peer: true}})
	return p, c
}

func TestMistakesInNetworkFaults(t *testing.T) {
	if p, c := networkPlan(); p.Validate(c) != nil {
		t.Fatal(p.Validate(c))
	}
	with := func(change func(f *plan.Fault)) func(*plan.Fault, *plan.Caps) {
		return func(f *plan.Fault, _ *plan.Caps) { change(f) }
	}
	for _, tc := range []struct {
		name string
		make func(f *plan.Fault, c *plan.Caps)
		want []string
	}{
		{"no such direction", with(func(f *plan.Fault) { f.Direction = "inn" }),
			[]string{"direction", `did you mean "in"`}},
		{"no such flows", with(func(f *plan.Fault) { f.Flows = "old" }), []string{"flows", `no flows "old"`}},
		{"nothing is lost", with(func(f *plan.Fault) { f.Percent = 0 }), []string{"percent", "use 1 to 99"}},
		{"all is lost", with(func(f *plan.Fault) { f.Percent = 100 }), []string{"percent", "use 1 to 99"}},
		{"less than nothing", with(func(f *plan.Fault) { f.Percent = -1 }), []string{"percent", "use 1 to 99"}},
		{"no other side", with(func(f *plan.Fault) { f.Peer = nil }), []string{"peer", "is missing"}},
		{"itself", with(func(f *plan.Fault) { *f.Peer = f.Ordinal }), []string{"peer", "the victim itself"}},
		{"nobody", with(func(f *plan.Fault) { *f.Peer = 9 }), []string{"peer", "9 is out of range"}},
		{"not to be had", func(_ *plan.Fault, c *plan.Caps) { c.Cannot = map[string]string{"nftables": "no reason"} },
			[]string{"name", `"every-field" needs "nftables", which is not to be had here: no reason`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, c := networkPlan()
			tc.make(p.Steps[0].Fault, &c)
			refused(t, p, c, tc.want)
		})
	}
}

func refused(t *testing.T, p plan.Plan, c plan.Caps, want []string) {
	t.Helper()
	err := p.Validate(c)
	if err == nil {
		t.Fatal("it is legal")
	}
	if !strings.Contains(err.Error(), "steps[0].fault."+want[0]+": ") {
		t.Errorf("got %q, want the field %q", err, want[0])
	}
	for _, w := range want[1:] {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %q, want it to have %q", err, w)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 1 {
		t.Errorf("got %q, want one error", err)
	}
}

func TestFieldsOfNetworkFaultsAreRefusedElsewhere(t *testing.T) {
	for field, set := range map[string]func(*plan.Fault){
		"direction": func(f *plan.Fault) { f.Direction = "out" },
		"flows":     func(f *plan.Fault) { f.Flows = "new" },
		"reject":    func(f *plan.Fault) { f.Reject = true },
		"percent":   func(f *plan.Fault) { f.Percent = 3 },
		"peer":      func(f *plan.Fault) { two := 2; f.Peer = &two },
	} {
		p, c := networkPlan()
		f := &plan.Fault{Name: "kubelet-kill", Hold: plan.Duration(time.Second)}
		set(f)
		p.Steps[0].Fault = f
		refused(t, p, c, []string{field, `fault "kubelet-kill" does not take it`})
	}
}

func TestNetworkFaultsAreDescribed(t *testing.T) {
	p, _ := networkPlan()
	want := "fault: every-field on the node of mysql-1, 30 % of the packets, from mysql-2, inbound only, " +
		"new connections only, rejected, held 1s"
	if got := p.Describe(p.Steps[0]); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	var b bytes.Buffer
	if err := p.Render(&b); err != nil || !strings.Contains(b.String(), "rejected: 1s once shown") {
		t.Errorf("%v: %s", err, b.String())
	}
}
