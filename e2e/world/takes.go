package world

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Takes returns what the fault of a step takes, as its facts say.
func Takes(facts []*history.Event, step int, name string) []plan.Part {
	var parts []plan.Part
	for _, e := range facts {
		if e.Fault.Step == step && len(parts) == 0 {
			for _, part := range e.Fault.Takes {
				parts = append(parts, plan.Part(part))
			}
		}
	}
	if len(parts) == 0 {
		return tookUnsaid(name)
	}
	return parts
}

// tookUnsaid returns what a fault took whose facts do not say so: in a run from before histories did, or since it holds
// nothing while it is in force, as the deletion of a pod.
func tookUnsaid(name string) []plan.Part {
	for _, old := range []struct {
		part  plan.Part
		names []string
	}{
		{plan.PartProcesses, []string{"node-stop", "node-crash"}},
		{plan.PartPod, []string{"pod-delete", "pod-force-delete"}},
		{plan.PartClaim, []string{"claim-delete"}},
		{plan.PartObject, []string{"node-delete"}},
		{plan.PartVolume, []string{"volume-full", "volume-read-only"}},
		{plan.PartAPIServer, []string{"apiserver-freeze", "apiserver-kill", "apiserver-stop"}},
		{plan.PartEtcd, []string{"etcd-freeze", "etcd-kill", "etcd-stop"}},
		{plan.PartManager, []string{
			"manager-freeze", "manager-kill", "manager-stop", "force-detach-off",
		}},
		{plan.PartScheduler, []string{"scheduler-freeze", "scheduler-kill", "scheduler-stop"}},
	} {
		if slices.Contains(old.names, name) {
			return []plan.Part{old.part}
		}
	}
	return nil
}
