package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// nested is a legal plan on shared disks with a fault of a CSI driver, a wait and a fault that outlasts, each within
// the one before it.
func nested() plan.Plan {
	second, minute := plan.Duration(time.Second), plan.Duration(time.Minute)
	p := legal()
	p.Workload.Storage, p.Workload.Fencing = plan.StorageSharedDisk, "single"
	gone := &plan.Fault{Name: "node-delete", Hold: second, Outlast: true}
	point := &plan.Fault{
		Name: "csi-point", Hold: second, Params: plan.Params{"csi": true},
		During: []plan.Step{
			{N: 3, Do: plan.ActionAwait, Bound: minute,
				Await: &plan.Await{For: plan.AwaitCSIEnd, RPC: "NodeStageVolume"}},
			{N: 4, Do: plan.ActionFault, Fault: gone, Bound: minute},
		},
	}
	p.Steps = []plan.Step{
		{N: 1, Do: plan.ActionLoad, Commits: 1, Bound: minute},
		{N: 2, Do: plan.ActionFault, Fault: point, Bound: minute},
	}
	return p
}

func nestedCaps() plan.Caps {
	c := caps()
	c.Faults[0].Triggers = true // kubelet-kill.
	c.Faults = append(
		c.Faults,
		plan.FaultCaps{Name: "csi-point", Check: plan.Names("csi"), Storage: plan.StorageSharedDisk},
		plan.FaultCaps{Name: "node-delete", Outlasts: true},
	)
	return c
}

func TestMistakesInFaultsWithinFaults(t *testing.T) {
	if err := nested().Validate(nestedCaps()); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		make func(outer, inner *plan.Fault, wait *plan.Await)
		want []string
	}{
		{"outlasts nothing", func(outer, _ *plan.Fault, _ *plan.Await) { outer.Outlast = true },
			[]string{"steps[1].fault.outlast", "within no fault"}},
		{"is healed before", func(_, inner *plan.Fault, _ *plan.Await) { inner.Name = "kubelet-kill" },
			[]string{"steps[1].fault.during[1].fault.outlast", `"kubelet-kill"`, "leave it out"}},
		{"a point of another fault", func(outer, inner *plan.Fault, _ *plan.Await) { inner.Params = outer.Params },
			[]string{"steps[1].fault.during[1].fault.csi", `"node-delete" does not take it`}},
		{"nothing that could be awaited", func(_, _ *plan.Fault, wait *plan.Await) { wait.For = "christmas" },
			[]string{"steps[1].fault.during[0].await.for", `"christmas"`}},
		{"a method where none is", func(_, _ *plan.Fault, wait *plan.Await) { wait.For = plan.AwaitMoved },
			[]string{"steps[1].fault.during[0].await.rpc", "leave it out"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := nested()
			outer := p.Steps[1].Fault
			tc.make(outer, outer.During[1].Fault, outer.During[0].Await)
			err := p.Validate(nestedCaps())
			if err == nil {
				t.Fatal("it is legal")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to have %q", err, want)
				}
			}
		})
	}
}

// waiting is a legal plan with a fault that waits on the node for a call.
func waiting() plan.Plan {
	p := nested()
	minute := plan.Duration(time.Minute)
	p.Steps[1].Fault = &plan.Fault{
		Name: "kubelet-kill", Hold: plan.Duration(time.Second),
		When:    &plan.Await{For: plan.AwaitCSIEnd, RPC: "NodeUnpublishVolume"},
		Provoke: []plan.Step{{N: 3, Do: plan.ActionLoad, Commits: 1, Bound: minute}},
		During:  []plan.Step{{N: 4, Do: plan.ActionLoad, Commits: 1, Bound: minute}},
	}
	return p
}

func TestMistakesInTriggers(t *testing.T) {
	if err := waiting().Validate(nestedCaps()); err != nil {
		t.Fatal(err)
	}
	if n := len(waiting().AllSteps()); n != 4 {
		t.Errorf("%d steps in all, want 4", n)
	}
	const at = "steps[1].fault."
	for _, tc := range []struct {
		name string
		make func(f *plan.Fault)
		want []string
	}{
		{"nothing provokes it", func(f *plan.Fault) { f.Provoke, f.During = nil, nil },
			[]string{at + "provoke", "is missing beside when"}},
		{"nothing waits", func(f *plan.Fault) { f.When = nil }, []string{at + "provoke", "nothing waits"}},
		{"cannot wait", func(f *plan.Fault) { f.Name = "node-delete" },
			[]string{at + "when", `"node-delete" cannot wait`}},
		{"not a call", func(f *plan.Fault) { *f.When = plan.Await{For: plan.AwaitMoved} },
			[]string{at + "when.for", `"moved" is not seen on the node`}},
		{"a call of the controller", func(f *plan.Fault) { f.When.RPC = "ControllerPublishVolume" },
			[]string{at + "when.rpc", "node service"}},
		{"put off for too long", func(f *plan.Fault) { f.When.Delay = plan.Duration(time.Minute) },
			[]string{at + "when.delay", "1m0s is out of range on a node", "use 0s to 20s"}},
		{"since when", func(f *plan.Fault) { f.When.Since = plan.SinceTrial },
			[]string{at + "when.since", "does not count"}},
		{"another's volume", func(f *plan.Fault) { f.When.Ordinal = 1 }, []string{at + "when.ordinal", "use 0"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := waiting()
			tc.make(p.Steps[1].Fault)
			err := p.Validate(nestedCaps())
			if err == nil {
				t.Fatal("it is legal")
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want it to have %q", err, want)
				}
			}
		})
	}
}

func TestAFaultIsHeldNoLongerThanItLasts(t *testing.T) {
	c := nestedCaps()
	c.Faults[0].Longest = plan.Duration(30 * time.Second) // kubelet-kill.
	p := waiting()
	f := p.Steps[1].Fault
	for hold, legal := range map[time.Duration]bool{30 * time.Second: true, 31 * time.Second: false} {
		f.Hold = plan.Duration(hold)
		err := p.Validate(c)
		if legal && err != nil {
			t.Errorf("hold %s: %v", hold, err)
		}
		if !legal && (err == nil || !strings.Contains(err.Error(), "steps[1].fault.hold: ") ||
			!strings.Contains(err.Error(), "at most 30s")) {
			t.Errorf("hold %s: got %v", hold, err)
		}
	}
}
