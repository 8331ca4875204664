package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// controlPlane takes the programs of the control plane away from a database that does not need them as long as nothing
// has to change: it must go on as if nothing were.
func controlPlane() plan.Scenario {
	return plan.Scenario{
		Name: "control-plane",
		Summary: "API server stopped for 30 s, etcd frozen, scheduler killed, controller manager stopped, one after " +
			"another, MySQL under load; then scale 2 to 1 to 2.",
		Expect: "PASS",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 2
			// Each is bounded by its hold, three minutes until it is shown to be healed, and one until it is shown.
			faults := []plan.Step{
				draft.Fault("apiserver-stop", r.IntN(replicas), 30*time.Second, 5*time.Minute),
				draft.Fault("etcd-freeze", r.IntN(replicas), 10*time.Second, 5*time.Minute),
				draft.Fault("scheduler-kill", r.IntN(replicas), 3*time.Second, 5*time.Minute),
				draft.Fault("manager-stop", r.IntN(replicas), 10*time.Second, 5*time.Minute),
			}
			steps := []plan.Step{draft.Load(100), draft.Checksum("before")}
			for _, f := range faults {
				steps = append(steps, f, draft.Load(60), draft.Checksum("after"))
			}
			steps = append(steps, draft.Scale(1), draft.Load(20), draft.Scale(2), draft.Load(40),
				draft.Checksum("settled"))
			return plan.Plan{Workers: 2, Workload: draft.MySQL(replicas), Bounds: draft.Bounds(), Steps: steps}
		},
	}
}
