package scenarios_test

import (
	"slices"
	"testing"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/scenarios"
)

// known is what the cases may name.
func known() plan.Caps {
	caps := plan.Caps{Workloads: []string{"ledger", "light"}}
	for _, name := range []string{
		"claim-delete", "cordon", "drain", "force-detach-off", "kubelet-kill", "kubelet-stop",
		"node-crash", "node-delete", "node-reboot", "node-stop", "out-of-service", "pod-delete",
		"pod-force-delete", "pod-quota",
	} {
		caps.Faults = append(caps.Faults, plan.FaultCaps{Name: name, Outlasts: name == "node-delete",
			Triggers: name == "kubelet-kill"})
	}
	return plan.Caps{
		Workloads: caps.Workloads,
		Faults: append(caps.Faults, plan.FaultCaps{Name: "node-partition", Check: plan.Names("families")},
			plan.FaultCaps{Name: "etcd-freeze", Check: plan.Names("upgraded")},
			plan.FaultCaps{Name: "api-reject", Check: plan.Names("of", "resources", "verbs")},
			plan.FaultCaps{Name: "csi-point", Check: plan.Names("csi"), Storage: plan.StorageSharedDisk},
			plan.FaultCaps{Name: "volume-record-lost", Storage: plan.StorageSharedDisk}),
	}
}

func TestEveryCaseIsWholeAndLegal(t *testing.T) {
	var names []string
	for _, c := range scenarios.Cases() {
		names = append(names, c.Name)
		if c.Report == "" || c.Affected == "" || c.Fixed == "" || c.Finding.Check == "" || c.Finding.Says == "" {
			t.Errorf("case %s: report %q, affected %q, fixed %q, finding %+v: want all of them",
				c.Name, c.Report, c.Affected, c.Fixed, c.Finding)
		}
		// A control that fails all the same has to say what it is that holds.
		if want := "FAIL"; !c.Control && c.Expect != want || c.Control && c.Expect == want && len(c.Holds) == 0 {
			t.Errorf("case %s: expects %s, control is %t, holds %q", c.Name, c.Expect, c.Control, c.Holds)
		}
		if !c.Control && len(c.Holds) > 0 || slices.Contains(c.Holds, c.Finding.Check) || !slices.IsSorted(c.Holds) {
			t.Errorf("case %s: control is %t, holds %q beside %s: want them only of a control, each once, in order",
				c.Name, c.Control, c.Holds, c.Finding.Check)
		}
		for seed := range uint64(20) {
			p := plan.Make(c, seed)
			if err := p.Validate(known()); err != nil {
				t.Fatalf("case %s, seed %d: %v", c.Name, seed, err)
			}
			if c.Volumes > p.Workload.Replicas {
				t.Fatalf("case %s: %d volumes of %d replicas", c.Name, c.Volumes, p.Workload.Replicas)
			}
		}
	}
	if !slices.IsSorted(names) || len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("cases are not in alphabetical order, or one is there twice: %q", names)
	}
}
