package scenarios

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// quietFile is the file of the table that nobody writes to, where the pod has its volume.
const quietFile = "data/seatrial/quiet.ibd"

// selftestDamage damages a file of a database on purpose: a trial that ends PASS would not have seen what a bad disk
// leaves. The database is ended in order before, so that all of the file is on the disk and nothing of it is left in
// the doublewrite buffer, out of which it would be repaired; and killed after, so that it has to read it again.
func selftestDamage(fault, what string) plan.Scenario {
	return plan.Scenario{
		Name:    "selftest-" + fault,
		Summary: fmt.Sprintf("Self-test: %s of a database's files; the verdict must be FAIL.", what),
		Expect:  "FAIL",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 2
			victim := r.IntN(replicas)
			w := draft.MySQL(replicas)
			if r.IntN(2) == 0 {
				w.FileSystem = "xfs"
			}
			harm := draft.Fault(fault, victim, time.Second, 2*time.Minute)
			harm.Fault.Params = plan.Params{"file": quietFile}
			return plan.Plan{Workers: 2, Workload: w, Bounds: draft.Bounds(), Steps: []plan.Step{
				draft.Load(100),
				draft.Checksum("before"),
				draft.Fault("pod-delete", victim, time.Second, 3*time.Minute),
				draft.Load(40),
				draft.Checksum("restarted"),
				harm,
				draft.Load(40),
				draft.Fault("container-kill", victim, time.Second, 2*time.Minute),
				draft.Load(40),
			}}
		},
	}
}
