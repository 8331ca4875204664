package scenarios

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setCanary rolls a revision out by its partition: first above all pods, then to the last one, then step by step to
// all. A pod below the partition that is deleted comes back as it was.
func setCanary() setScenario {
	return setScenario{
		name: "set-canary",
		summary: "A rolling update behind a partition: no pod, the last one as a canary, all; a pod below it deleted " +
			"on the way; then rolled back.",
		build: func(c crew) plan.Plan {
			w := c.workload(3)
			w.Partition = 3 + c.r.IntN(3)
			canary, back := c.either(c.meanwhile(plan.AwaitTerminating, 2), c.meanwhile(plan.AwaitTerminating, 1))
			return c.plan(w,
				draft.Update("v2"), draft.Still(3*time.Second),
				draft.Partition(2, canary...), draft.Load(60), draft.Checksum("canary"),
				draft.Fault("pod-delete", c.r.IntN(2), time.Second, 2*time.Minute), draft.Settled(), draft.Load(60),
				draft.Checksum("deleted"),
				draft.Partition(1), draft.Partition(0), draft.Load(30),
				draft.Rollback(plan.RevisionFirst, back...),
			)
		},
	}
}
