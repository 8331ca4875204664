package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// smokeDisk hurts a cluster in the ways that must not lead a disk astray: the kubelet and the container runtime killed,
// the node cut off for less than the grace period of its lease, the node rebooted.
func smokeDisk() plan.Scenario {
	return plan.Scenario{
		Name: "smoke-disk",
		Summary: "Kubelet killed, container runtime killed, node cut off for a moment, node rebooted, MySQL on disks " +
			"that could move: every step of attach, stage, publish and back is judged.",
		Expect: "PASS",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 2
			faults := []plan.Step{
				draft.Fault("kubelet-kill", r.IntN(replicas), 3*time.Second, 2*time.Minute),
				draft.Fault("runtime-kill", r.IntN(replicas), 3*time.Second, 2*time.Minute),
				draft.Fault("node-partition", r.IntN(replicas), 2*time.Second, 3*time.Minute),
				draft.Fault("node-reboot", r.IntN(replicas), 5*time.Second, 4*time.Minute),
			}
			r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
			steps := []plan.Step{draft.Load(100), draft.Checksum("before")}
			for _, f := range faults {
				steps = append(steps, f, draft.Load(60), draft.Checksum("after"))
			}
			steps = append(steps, draft.Scale(1), draft.Load(20), draft.Scale(2), draft.Load(40),
				draft.Checksum("settled"))
			w := draft.Disk(replicas, "single")
			if r.IntN(2) == 0 {
				w.FileSystem = "xfs"
			}
			return plan.Plan{Workers: 2, Workload: w, Bounds: draft.Bounds(), Steps: steps}
		},
	}
}
