package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// selftestDeletedRow loses an acknowledged row on purpose, with a connection of its own: a trial that ends PASS would
// have lost a customer's data without a word.
func selftestDeletedRow() plan.Scenario {
	return plan.Scenario{
		Name:    "selftest-deleted-row",
		Summary: "Self-test: one acknowledged row is deleted behind the workload's back; the verdict must be FAIL.",
		Expect:  "FAIL",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 2
			tamper := plan.Step{
				Do:     plan.ActionTamper,
				Tamper: &plan.Tamper{Kind: "delete-row", Ordinal: r.IntN(replicas)},
				Bound:  plan.Duration(time.Minute),
			}
			w := draft.MySQL(replicas)
			w.FileSystem = "xfs" // The smoke scenario has ext4: so both are shown on a real cluster.
			return plan.Plan{Workers: 2, Workload: w, Bounds: draft.Bounds(), Steps: []plan.Step{
				draft.Load(150),
				draft.Checksum("before"),
				draft.Fault("kubelet-kill", r.IntN(replicas), 2*time.Second, 2*time.Minute),
				draft.Load(50),
				draft.Checksum("after"),
				tamper,
				draft.Load(20),
			}}
		},
	}
}
