package scenarios

import (
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// setMinReady has a pod count as available only after it was Ready for a while; the next one waits for that. An update
// is the case k8s-136831.
func setMinReady() setScenario {
	return setScenario{
		name:    "set-min-ready",
		summary: "With minReadySeconds, scaled up and down: each pod waits until the one before it is available.",
		build: func(c crew) plan.Plan {
			w := c.workload(3)
			w.MinReadySeconds = 4 + c.r.IntN(4)
			down, up := c.either(c.meanwhile(plan.AwaitTerminating, 2), c.meanwhile(plan.AwaitReady, 1))
			return c.plan(w, draft.ScaleTo(1, down...), draft.Load(30), draft.ScaleTo(3, up...))
		},
	}
}
