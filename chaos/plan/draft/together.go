package draft

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// Together carries sequences of steps out beside each other.
func Together(bound time.Duration, branches ...[]plan.Step) plan.Step {
	return plan.Step{Do: plan.ActionTogether, Branches: branches, Bound: plan.Duration(bound)}
}

// AwaitFault waits until the fault of a step is shown to have taken effect. That step gets its number later: whoever
// builds the plan sets Await.Step then.
func AwaitFault(bound time.Duration) plan.Step { return Await(plan.AwaitFault, 0, bound) }
