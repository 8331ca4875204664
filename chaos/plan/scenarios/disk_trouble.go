package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// diskTrouble has one database after another lose its disk under load, with the node up: gone, full, read-only. What
// was acknowledged must be there when the disk is back.
func diskTrouble() plan.Scenario {
	return plan.Scenario{
		Name: "disk-trouble",
		Summary: "A disk that is gone, one that is full and one that is read-only, each under a MySQL instance at " +
			"work; no acknowledged row may be lost.",
		Expect: "PASS",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 3
			w := draft.MySQL(replicas)
			if r.IntN(2) == 0 {
				w.FileSystem = "xfs"
			}
			victims := r.Perm(replicas)
			steps := []plan.Step{draft.Load(150), draft.Checksum("before")}
			for i, name := range []string{"device-gone", "volume-full", "volume-read-only"} {
				steps = append(steps,
					draft.Fault(name, victims[i], 15*time.Second, 5*time.Minute), draft.Load(100), draft.Read(),
					draft.Checksum("after"))
			}
			return plan.Plan{Workers: 2, Workload: w, Bounds: draft.Bounds(), Steps: steps}
		},
	}
}
