package scenarios

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// evicted has a node cut off until its pods are evicted from it by its taint, and waits to see that no twin comes; then
// come the steps of a way out. The pods get a deletionTimestamp, and keep it: nobody but the kubelet can confirm that
// they ended, and a StatefulSet makes no second pod of a name.
func evicted(r *rand.Rand, alone time.Duration, way ...plan.Step) plan.Plan {
	w := onOneNode("single")
	w.EvictAfter = plan.Duration(30 * time.Second)
	told := each(forced, func(i int) plan.Step { return Await(plan.AwaitTerminating, i, 3*time.Minute) })
	during := slices.Concat([]plan.Step{notReady()}, told, []plan.Step{still(alone), Load(20)}, way)
	p := diskTrial(w, Load(100+r.IntN(100)), Checksum("before"),
		Within("node-partition", 0, 30*time.Minute, during...), Load(50))
	p.Bounds.Settle = plan.Duration(4 * time.Minute) // Every pod comes back, and the databases recover side by side.
	return p
}

// evictionCases are about pods that are evicted from a node that lost its heartbeat, and a way out of that.
func evictionCases() []plan.Case {
	const report = "kubernetes/kubernetes issue 61832; Kubernetes documentation, Force Delete StatefulSet Pods"
	return []plan.Case{
		{
			Name:    "evicted-out-of-service",
			Finding: plan.Sign{Check: "mounts", Says: "at once"},
			Summary: "A node is cut off and its pods are evicted: for a minute they stay Terminating and have no " +
				"twin. Then the node gets the out-of-service taint: they leave the API, and their twins write to " +
				"the volumes that the node still writes to.",
			Build: func(r *rand.Rand) plan.Plan {
				return evicted(r, time.Minute,
					Within("out-of-service", 0, 8*time.Minute, append(moved(4*time.Minute), Load(50))...))
			},
			Report:   report + "; KEP-2268, risks",
			Affected: "v1.26 and later, where the taint is set on a node that still runs",
		},
	}
}
