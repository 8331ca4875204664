package scenarios

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setBurst scales a StatefulSet that promises no order: a pod that cannot be scheduled keeps no other from being
// deleted or made.
func setBurst() setScenario {
	return setScenario{
		name:    "set-burst",
		summary: "Parallel: scaled down while the first pod cannot be scheduled, and up again, all at once.",
		build: func(c crew) plan.Plan {
			w := c.workload(3 + c.r.IntN(2))
			w.Parallel = true
			last := w.Replicas - 1
			down, up := c.either(c.meanwhile(plan.AwaitTerminating, last), c.meanwhile(plan.AwaitScheduled, last))
			p := c.plan(w,
				draft.Within("cordon", 0, 8*time.Minute,
					draft.Fault("pod-delete", 0, time.Second, 2*time.Minute),
					draft.Await(plan.AwaitPending, 0, time.Minute),
					draft.Observed(draft.ScaleTo(1, down...)),
					draft.Await(plan.AwaitGone, last, 2*time.Minute),
					draft.Await(plan.AwaitGone, 1, 2*time.Minute),
				),
				draft.Settled(), draft.Load(60), draft.Checksum("down"), draft.ScaleTo(w.Replicas, up...),
			)
			if c.fault != "" {
				p.Bounds.MaxNodes = 2 // The fault may come while another node, that of the first pod, is cordoned.
			}
			return p
		},
	}
}
