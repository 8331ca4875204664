package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// k8s61832 cuts a node off and force-deletes its pods. Six minutes after a pod is gone the attach/detach controller
// stops to wait for the node's unmount (maxWaitForUnmountDuration in pkg/controller/volume/attachdetach) and detaches;
// the node, which nobody could tell, goes on writing.
func k8s61832() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-61832",
			Summary: "A node is cut off and its pods force-deleted: after six minutes each volume is detached by " +
				"force, the pod's twin starts elsewhere, and two databases write to one volume.",
			Expect: "FAIL",
			Build:  func(r *rand.Rand) plan.Plan { return forceDetach(r, "single") },
		},
		Report:   "kubernetes/kubernetes issue 61832",
		Affected: "all to v1.37.0",
		Fixed:    "none; --disable-force-detach-on-timeout of the kube-controller-manager (v1.30) prevents it",
		Volumes:  forced,
		Finding:  plan.Sign{Check: "mounts", Says: "at once"},
	}
}

// forced is how many volumes share a run, and so the six minutes.
const forced = 5

// together is so many databases on one node, each on a volume of its own, with little to do: what counts is the wait.
func together(fencing string) plan.Workload {
	w := draft.Disk(forced, fencing)
	w.Packed, w.Parallel, w.VolumeMiB = true, true, 320
	w.Clients, w.Interval = 1, plan.Duration(200*time.Millisecond)
	return w
}

// others deletes all pods but the first, with their own grace.
func others(replicas int) []plan.Step {
	var steps []plan.Step
	for ordinal := 1; ordinal < replicas; ordinal++ {
		steps = append(steps, draft.DeletePod(ordinal))
	}
	return steps
}

// deleted deletes all pods, with their own grace.
func deleted(replicas int) []plan.Step {
	return append(others(replicas), draft.Fault("pod-delete", 0, time.Second, 3*time.Minute))
}

// forceDetach is the way to a forced detach: a node is cut off and not Ready, the pods on it are force-deleted, and
// their twins come up on another.
func forceDetach(r *rand.Rand, fencing string) plan.Plan {
	during := []plan.Step{draft.Await(plan.AwaitNotReady, 0, 3*time.Minute)}
	for ordinal := range forced {
		during = append(during, draft.Fault("pod-force-delete", ordinal, time.Second, 2*time.Minute))
	}
	for ordinal := range forced {
		during = append(during, draft.Await(plan.AwaitMoved, ordinal, 9*time.Minute))
	}
	during = append(during, draft.Load(50))
	return plan.Plan{
		Workers: 2, Workload: together(fencing), Bounds: bounds(),
		Steps: []plan.Step{
			draft.Load(100 + r.IntN(100)),
			draft.Within("node-partition", 0, 20*time.Minute, during...),
			draft.Load(50),
		},
	}
}
