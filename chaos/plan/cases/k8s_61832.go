package cases

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s61832 cuts a node off and force-deletes its pod. Six minutes after the pod is gone the attach/detach controller
// stops to wait for the node's unmount (maxWaitForUnmountDuration in pkg/controller/volume/attachdetach) and detaches;
// the node, which nobody could tell, goes on writing.
func k8s61832() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-61832",
			Summary: "A node is cut off and its pod force-deleted: after six minutes the volume is detached by " +
				"force, the pod's twin starts elsewhere, and two databases write to one volume.",
			Expect: "FAIL",
			Build: func(r *rand.Rand) plan.Plan {
				return forceDetach(r, draft.Disk(1, "single"))
			},
		},
		Report:   "kubernetes/kubernetes issue 61832",
		Affected: "all to v1.37.0",
		Fixed:    "none; --disable-force-detach-on-timeout of the kube-controller-manager (v1.30) prevents it",
		Finding:  plan.Sign{Check: "mounts", Says: "at once"},
	}
}

// forceDetach is the way to a forced detach: node cut off and not Ready, pod force-deleted, its twin on another node.
func forceDetach(r *rand.Rand, w plan.Workload) plan.Plan {
	return plan.Plan{
		Workers: 2, Workload: w, Bounds: bounds(),
		Steps: []plan.Step{
			draft.Load(50 + r.IntN(50)),
			draft.Within("node-partition", 0, 15*time.Minute,
				draft.Await(plan.AwaitNotReady, 0, 2*time.Minute),
				draft.Fault("pod-force-delete", 0, time.Second, 2*time.Minute),
				draft.Await(plan.AwaitMoved, 0, 9*time.Minute),
				draft.Load(20),
			),
			draft.Load(20),
		},
	}
}
