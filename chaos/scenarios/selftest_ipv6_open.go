package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// selftestIPv6Open sabotages a partition: IPv6 stays open, so the node is not cut off, and nothing was tried.
func selftestIPv6Open() plan.Scenario {
	return plan.Scenario{
		Name:    "selftest-ipv6-open",
		Summary: "Self-test: a partition leaves IPv6 open and so cuts nothing off; the verdict must be UNKNOWN.",
		Expect:  "UNKNOWN",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 2
			return plan.Plan{Workers: 2, Workload: draft.MySQL(replicas), Bounds: draft.Bounds(), Steps: []plan.Step{
				draft.Load(150),
				draft.Checksum("before"),
				draft.Fault("node-partition", r.IntN(replicas), 5*time.Second, 3*time.Minute, "ipv4"),
				draft.Load(50),
				draft.Checksum("after"),
			}}
		},
	}
}
