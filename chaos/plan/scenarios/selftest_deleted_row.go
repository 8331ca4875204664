package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
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
			w := mysql(replicas)
			w.FileSystem = "xfs" // The smoke scenario has ext4: so both are shown on a real cluster.
			return plan.Plan{Workers: 2, Workload: w, Bounds: bounds(), Steps: []plan.Step{
				load(150),
				checksum("before"),
				fault("kubelet-kill", r.IntN(replicas), 2*time.Second, 2*time.Minute),
				load(50),
				checksum("after"),
				tamper,
				load(20),
			}}
		},
	}
}
