package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// network is the faults of the network that are not whole, each once, on pods and in an order that the seed chooses:
// most of what is reported of such faults is that the other half was hurt as well, or nothing.
func network() plan.Scenario {
	return plan.Scenario{
		Name: "network",
		Summary: "Partitions of one direction each, one that rejects, 30 % of the packets lost, and a pod cut off " +
			"from another, each once under load.",
		Expect: "PASS",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 3
			with := func(name string, hold time.Duration, params plan.Params) plan.Step {
				s := draft.Fault(name, r.IntN(replicas), hold, 3*time.Minute)
				s.Fault.Params = params
				return s
			}
			faults := []plan.Step{
				with("node-partition", 5*time.Second, plan.Params{"direction": "in"}),
				with("node-partition", 5*time.Second, plan.Params{"direction": "out"}),
				with("node-partition", 5*time.Second, plan.Params{"reject": true}),
				with("packet-loss", 10*time.Second, plan.Params{"percent": 30}),
				with("pod-partition", 5*time.Second, nil),
			}
			cut := faults[len(faults)-1].Fault
			cut.Params = plan.Params{"peer": (cut.Ordinal + 1 + r.IntN(replicas-1)) % replicas}
			r.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
			steps := []plan.Step{draft.Load(150)}
			for _, f := range faults {
				steps = append(steps, draft.Checksum("before"), f, draft.Load(50), draft.Checksum("after"))
			}
			return plan.Plan{Workers: 2, Workload: draft.MySQL(replicas), Bounds: draft.Bounds(), Steps: steps}
		},
	}
}
