package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
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
				fault("kubelet-kill", r.IntN(replicas), 5*time.Second, 2*time.Minute),
				// Lease evidence takes 15 s, so the cut lasts 35 s: well beyond a lost packet, short of eviction.
				fault("node-partition", r.IntN(replicas), 20*time.Second, 3*time.Minute),
				fault("node-reboot", r.IntN(replicas), 5*time.Second, 4*time.Minute),
			}
			r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
			steps := []plan.Step{load(150)}
			for _, f := range faults {
				steps = append(steps, checksum("before"), f, load(100), checksum("after"))
			}
			steps = append(steps, scale(1), load(20), scale(3), load(100), checksum("settled"))
			return plan.Plan{Workers: 2, Workload: mysql(replicas), Bounds: bounds(), Steps: steps}
		},
	}
}
