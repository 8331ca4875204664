package scenarios

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// How often a scenario takes the power away: each time from the volumes of all instances at once.
const (
	powerLosses    = 5
	powerInstances = 4
)

// powerLoss takes the power from the node of several databases under load, again and again, and reads every row back
// after each time: whatever was acknowledged must be there.
func powerLoss() plan.Scenario {
	return plan.Scenario{
		Name: "power-loss",
		Summary: "The node of four MySQL instances loses its power five times under load; every commit is synced, " +
			"and no acknowledged row may be lost.",
		Expect: "PASS",
		Build:  func(r *rand.Rand) plan.Plan { return losingPower(r, nil) },
	}
}

// selftestPowerLossFlush is the same with a database that acknowledges commits before they are synced: a trial that
// ends PASS would not have seen what a loss of power takes.
func selftestPowerLossFlush(flush int) plan.Scenario {
	when := map[int]string{0: "written and synced once a second", 2: "written at each commit, and synced once a second"}
	return plan.Scenario{
		Name: fmt.Sprintf("selftest-power-loss-flush-%d", flush),
		Summary: fmt.Sprintf("Self-test: power-loss with innodb_flush_log_at_trx_commit=%d (%s); rows are lost, and "+
			"the verdict must be FAIL.", flush, when[flush]),
		Expect: "FAIL",
		Build:  func(r *rand.Rand) plan.Plan { return losingPower(r, &flush) },
	}
}

func losingPower(r *rand.Rand, flush *int) plan.Plan {
	w := draft.MySQL(powerInstances)
	w.Pinned, w.Parallel, w.FlushLogAtTrxCommit = true, true, flush
	w.Interval = plan.Duration(25 * time.Millisecond) // What is lost is what came within the last second.
	if r.IntN(2) == 0 {
		w.FileSystem = "xfs"
	}
	steps := []plan.Step{draft.Load(200), draft.Checksum("before")}
	for range powerLosses {
		// All instances are down at first: what is acknowledged during the fault is so by those that are back.
		fault := draft.Within("power-loss", r.IntN(powerInstances), 5*time.Minute, draft.Load(40))
		steps = append(steps, fault, draft.Read(), draft.Load(200), draft.Checksum("after"))
	}
	return plan.Plan{Workers: 2, Workload: w, Bounds: draft.Bounds(), Steps: steps}
}
