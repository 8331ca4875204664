package scenarios

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// How long a copy may take to have its data again, from the moment at which its new pod is Ready: a database of this
// size is cloned within seconds.
const recoveryBound = 2 * time.Minute

// setNodeGone has the node of a copy go, and somebody say that it will not come back (KEP-2268): the pod that comes in
// the place of the one that was there stays Pending, since its claim is bound to a volume of that node. The claim is
// deleted on purpose then; the next one is bound on another node, and the copy is cloned from the first instance and
// caught up by GTID. That the node is started in the end is for the next trial, and brings nothing back.
func setNodeGone() setScenario {
	return setScenario{
		name: "set-node-gone",
		summary: "The node of a replica on a local volume is gone for good: its pod is Pending until its claim is " +
			"deleted, comes up empty on another node, and is cloned from the first instance and caught up by GTID.",
		heavy:  true,
		faults: []string{"kubelet-kill", "manager-kill"}, // There is one worker left, which has to stay.
		build: func(c crew) plan.Plan {
			const lost = 1
			w := c.workload(2)
			w.Replicated, w.VolumeMiB = true, 768 // A clone is put beside what is there before it takes its place.
			during := []plan.Step{
				draft.Await(plan.AwaitPending, lost, 3*time.Minute),
				draft.Still(time.Duration(5+c.r.IntN(5)) * time.Second),
				draft.DeleteClaim(lost),
			}
			if c.fault != "" {
				during = append(during, draft.Await(plan.AwaitScheduled, lost, 2*time.Minute),
					draft.Fault(c.fault, 0, time.Second, 2*time.Minute))
			}
			during = append(during, draft.Await(plan.AwaitMoved, lost, 3*time.Minute),
				draft.Recover(lost, recoveryBound), draft.Load(50))
			p := c.plan(w, draft.Within("node-stop", lost, 18*time.Minute,
				draft.Await(plan.AwaitNotReady, lost, 3*time.Minute),
				draft.Within("out-of-service", lost, 12*time.Minute, during...)))
			p.Bounds.MaxNodes = 2 // The other worker's kubelet may be killed while one is gone.
			return p
		},
	}
}
