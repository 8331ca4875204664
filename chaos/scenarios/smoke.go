package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// smoke is the first trial of any cluster: each of the three node faults once, on nodes and in an order that the seed
// chooses, then ordered scale-down and scale-up.
func smoke() plan.Scenario {
	return plan.Scenario{
		Name:    "smoke",
		Summary: "Kubelet kill, partition and reboot under load, each once, then scale 3 to 1 to 3.",
		Expect:  "PASS",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 3
			faults := []plan.Step{
				draft.Fault("kubelet-kill", r.IntN(replicas), 5*time.Second, 2*time.Minute),
				// Lease evidence takes 15 s, so the cut lasts 35 s: well beyond a lost packet, short of eviction.
				draft.Fault("node-partition", r.IntN(replicas), 20*time.Second, 3*time.Minute),
				draft.Fault("node-reboot", r.IntN(replicas), 5*time.Second, 4*time.Minute),
			}
			r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
			steps := []plan.Step{draft.Load(150)}
			for _, f := range faults {
				steps = append(steps, draft.Checksum("before"), f, draft.Load(100), draft.Checksum("after"))
			}
			steps = append(steps, draft.Scale(1), draft.Load(20), draft.Scale(3), draft.Load(100),
				draft.Checksum("settled"))
			return plan.Plan{Workers: 2, Workload: draft.MySQL(replicas), Bounds: draft.Bounds(), Steps: steps}
		},
	}
}
