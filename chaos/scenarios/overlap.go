package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// overlap has two nodes hurt at the same time: one is cut off, and as soon as that is shown, the kubelet of another is
// killed; the first is not let in again before that is shown, too.
func overlap() plan.Scenario {
	return plan.Scenario{
		Name: "overlap",
		Summary: "The kubelet of one node killed while another node is cut off, under load: two faults in force at " +
			"once, each shown and healed.",
		Expect: "PASS",
		Build: func(r *rand.Rand) plan.Plan {
			const replicas = 3
			cut := r.IntN(replicas)
			killed := (cut + 1 + r.IntN(replicas-1)) % replicas
			whenCut, whenKilled := draft.AwaitFault(2*time.Minute), draft.AwaitFault(2*time.Minute)
			whenCut.Await.Delay = plan.Duration(time.Duration(r.IntN(500)) * time.Millisecond)
			partition := draft.Within("node-partition", cut, 5*time.Minute, whenKilled)
			kill := draft.Fault("kubelet-kill", killed, 2*time.Second, 2*time.Minute)
			p := plan.Plan{Workers: 3, Workload: draft.MySQL(replicas), Bounds: draft.Bounds(), Steps: []plan.Step{
				draft.Load(100), draft.Checksum("before"),
				draft.Together(6*time.Minute, []plan.Step{partition}, []plan.Step{whenCut, kill}),
				draft.Load(60), draft.Checksum("after"),
			}}
			p.Bounds.MaxNodes = 2
			plan.Number(p.Steps)
			branches := p.Steps[2].Branches
			whenCut.Await.Step, whenKilled.Await.Step = branches[0][0].N, branches[1][1].N
			return p
		},
	}
}
