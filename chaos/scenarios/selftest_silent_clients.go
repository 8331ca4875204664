package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// selftestSilentClients gives the clients an address where nobody listens: nothing is written, so nothing is shown.
func selftestSilentClients() plan.Scenario {
	return plan.Scenario{
		Name:    "selftest-silent-clients",
		Summary: "Self-test: the clients never reach the database; the verdict must be UNKNOWN.",
		Expect:  "UNKNOWN",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 2
			w := draft.MySQL(replicas)
			w.Silent = true
			// The load can never be had: its bound is what this self-test costs.
			starved := draft.Load(20)
			starved.Bound = plan.Duration(15 * time.Second)
			limits := draft.Bounds()
			limits.Settle = plan.Duration(20 * time.Second) // The same holds for waiting until the clients can write.
			return plan.Plan{Workers: 2, Workload: w, Bounds: limits, Steps: []plan.Step{
				starved,
				draft.Fault("kubelet-kill", r.IntN(replicas), 2*time.Second, 2*time.Minute),
			}}
		},
	}
}
