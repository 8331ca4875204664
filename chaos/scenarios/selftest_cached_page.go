package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// selftestCachedPage flips bytes on disk in pages that the servers have in memory and never read again: only what is
// verified on disk after their end can find them. Each server is ended in order before, so that all of the file is on
// the disk, and its pages are read into memory by the checksum after.
func selftestCachedPage() plan.Scenario {
	return plan.Scenario{
		Name: "selftest-cached-page",
		Summary: "Self-test: a byte is flipped on disk in each of 20 pages that the databases have in memory; the " +
			"verdict must be FAIL.",
		Expect: "FAIL",
		Build: func(r *rand.Rand) plan.Plan {
			const (
				replicas  = 2
				flips     = 10
				firstLeaf = 5  // Of the quiet table's file: behind its header, maps and root.
				leaves    = 14 // 1000 rows fill these and some more.
			)
			w := draft.MySQL(replicas)
			if r.IntN(2) == 0 {
				w.FileSystem = "xfs"
			}
			steps := []plan.Step{draft.Load(100), draft.Checksum("before")}
			for i := range replicas {
				steps = append(steps, draft.Fault("pod-delete", i, time.Second, 3*time.Minute), draft.Load(40))
			}
			steps = append(steps, draft.Checksum("restarted"))
			for i := range replicas {
				for _, page := range r.Perm(leaves)[:flips] {
					steps = append(steps, plan.Step{
						Do: plan.ActionTamper, Bound: plan.Duration(time.Minute),
						Tamper: &plan.Tamper{
							Kind: "flip-byte", Ordinal: i, Page: firstLeaf + page, Byte: 38 + r.IntN(16384-8-38),
						},
					})
				}
			}
			return plan.Plan{Workers: 2, Workload: w, Bounds: draft.Bounds(), Steps: append(steps, draft.Load(40))}
		},
	}
}
