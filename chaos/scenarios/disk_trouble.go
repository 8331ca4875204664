package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// freeSpaceEvery is how often a MySQL server that has met a full disk looks whether there is space again (MySQL
// Reference Manual, How MySQL Handles a Full Disk: once every minute), and a little more.
const freeSpaceEvery = 65 * time.Second

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
				steps = append(steps, draft.Fault(name, victims[i], 15*time.Second, 5*time.Minute))
				if name == "volume-full" {
					again := draft.Await(plan.AwaitTime, 0, 2*time.Minute)
					again.Await.After, again.Await.Since = plan.Duration(freeSpaceEvery), plan.SinceStep
					steps = append(steps, again)
				}
				steps = append(steps, draft.Load(100), draft.Read(), draft.Checksum("after"))
			}
			return plan.Plan{Workers: 2, Workload: w, Bounds: draft.Bounds(), Steps: steps}
		},
	}
}
