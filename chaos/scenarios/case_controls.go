package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/plan/draft"
)

// The controls of the forced detach wait a minute longer than the six that it takes.
const pastForcedDetach = 7 * time.Minute

// stranded is the way of k8s-61832 up to where the twins would start, held for longer than the forced detach takes.
func stranded(w plan.Workload) plan.Step {
	during := []plan.Step{draft.Await(plan.AwaitNotReady, 0, 3*time.Minute)}
	for ordinal := range w.Replicas {
		during = append(during, draft.Fault("pod-force-delete", ordinal, time.Second, 2*time.Minute))
	}
	s := draft.Within("node-partition", 0, 16*time.Minute, append(during, draft.Load(20))...)
	s.Fault.Hold = plan.Duration(pastForcedDetach)
	return s
}

func control(r *rand.Rand, w plan.Workload, hurt plan.Step) plan.Plan {
	b := bounds()
	b.Settle = plan.Duration(4 * time.Minute) // Every pod comes back, and each database recovers, one beside the other.
	return plan.Plan{
		Workers: 2, Workload: w, Bounds: b,
		Steps: []plan.Step{
			draft.Load(100 + r.IntN(100)), draft.Checksum("before"), hurt, draft.Load(20), draft.Checksum("after"),
			draft.Load(20),
		},
	}
}

// k8s61832Flag is k8s-61832 with the flag that keeps the attach/detach controller from detaching by force.
func k8s61832Flag() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-61832-flag",
			Summary: "As k8s-61832, with --disable-force-detach-on-timeout: no volume is detached while its node has " +
				"it mounted, and the twins wait until the node is back.",
			Expect: "PASS",
			Build: func(r *rand.Rand) plan.Plan {
				w := together("single")
				return control(r, w, draft.Within("force-detach-off", 0, 20*time.Minute, stranded(w)))
			},
		},
		Report:   "kubernetes/kubernetes issues 61832 and 120328",
		Affected: "none: this is what prevents it",
		Fixed:    "v1.30 has the flag; it is off by default",
		Volumes:  forced,
		Control:  true,
		Finding:  plan.Sign{Check: "detach-order", Says: "detached"},
	}
}

// k8s61832Local is k8s-61832 on volumes that cannot move.
func k8s61832Local() plan.Case {
	return plan.Case{
		Scenario: plan.Scenario{
			Name: "k8s-61832-local",
			Summary: "As k8s-61832, on local volumes: the twins stay Pending, since their volumes are on the node " +
				"that is cut off.",
			Expect: "PASS",
			Build: func(r *rand.Rand) plan.Plan {
				w := together("")
				w.Storage = plan.StorageLocal
				return control(r, w, stranded(w))
			},
		},
		Report:   "kubernetes/kubernetes issue 61832",
		Affected: "none: a local volume has node affinity",
		Fixed:    "kept as a control",
		Volumes:  forced,
		Control:  true,
		Finding:  plan.Sign{Check: "mounts", Says: "at once"},
	}
}
