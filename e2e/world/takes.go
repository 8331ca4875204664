package world

import (
	"slices"

	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/plan"
)

// Takes returns what the fault of a step takes, as its facts say. Those of a run from before histories said so, and of
// a fault that holds nothing while it is active, such as the deletion of a pod, do not.
func Takes(facts []*history.Event, step int, name string) []plan.Part {
	for _, e := range facts {
		if e.Fault.Step == step && len(e.Fault.Takes) > 0 {
			var parts []plan.Part
			for _, part := range e.Fault.Takes {
				parts = append(parts, plan.Part(part))
			}
			return parts
		}
	}
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
		{plan.PartManager, []string{"manager-freeze", "manager-kill", "manager-stop", "force-detach-off"}},
		{plan.PartScheduler, []string{"scheduler-freeze", "scheduler-kill", "scheduler-stop"}},
	} {
		if slices.Contains(old.names, name) {
			return []plan.Part{old.part}
		}
	}
	return nil
}
