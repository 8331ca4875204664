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
func evicted(r *rand.Rand, way, after []plan.Step) plan.Plan {
	w := onOneNode("single")
	w.EvictAfter = plan.Duration(30 * time.Second)
	told := each(forced, func(i int) plan.Step { return Await(plan.AwaitTerminating, i, 3*time.Minute) })
	during := slices.Concat([]plan.Step{notReady()}, told, []plan.Step{still(time.Minute), Load(20)}, way)
	return settling(allBack, diskTrial(w, slices.Concat([]plan.Step{Load(100 + r.IntN(100)), Checksum("before"),
		Within("node-partition", 0, 30*time.Minute, during...)}, after, []plan.Step{Load(50)})...))
}

// evictionCases are about pods that are evicted from a node that lost its heartbeat, and the ways out of that. All
// begin alike, so that what they cost can be compared.
func evictionCases() []plan.Case {
	const (
		report = "kubernetes/kubernetes issue 61832; Kubernetes documentation, Force Delete StatefulSet Pods"
		begin  = "A node is cut off and its pods are evicted: for a minute they stay Terminating and have no twin. "
		twice  = "their twins write to the volumes that the node still writes to."
	)
	both := plan.Sign{Check: "mounts", Says: "at once"}
	outlasting := Within("node-delete", 0, 12*time.Minute, append(moved(10*time.Minute), Load(50))...)
	outlasting.Fault.Outlast = true // Behind the partition, the kubelet cannot register.
	cases := []struct {
		way, after []plan.Step
		plan.Case
	}{
		{
			// The kubelet ends the pods that it was told to end, and takes their volumes down before their objects go.
			after: []plan.Step{settled(), readBack(), Checksum("after")},
			Case: plan.Case{
				Name: "evicted-back",
				Summary: begin + "Then the node is let in again: its kubelet ends them and takes their volumes down, " +
					"and their twins find every row.",
				Affected: "none: what is waited for comes to pass",
				Control:  true,
				Holds: []string{"attach-order", "checksums", "detach-order", "integrity", "rows",
					"witness"},
			},
		},
		{
			way: slices.Concat(forceDeleted(), moved(9*time.Minute), []plan.Step{Load(50)}),
			Case: plan.Case{
				Name: "evicted-force-delete",
				Summary: begin + "Then they are force-deleted: six minutes later each volume is detached by force, " +
					"and " + twice,
				Fixed: "none; --disable-force-detach-on-timeout of the kube-controller-manager (v1.30) prevents it",
			},
		},
		{
			way: []plan.Step{outlasting},
			Case: plan.Case{
				Name: "evicted-node-delete",
				Summary: begin + "Then the Node object is deleted: they are taken out of the API, each volume is " +
					"detached by force, and " + twice,
			},
		},
		{
			way: []plan.Step{Within("out-of-service", 0, 8*time.Minute, append(moved(4*time.Minute), Load(50))...)},
			Case: plan.Case{
				Name:     "evicted-out-of-service",
				Summary:  begin + "Then the node gets the out-of-service taint: they leave the API, and " + twice,
				Affected: "v1.26 and later, where the taint is set on a node that still runs",
			},
		},
	}
	var all []plan.Case
	for _, c := range cases {
		c.Build = func(r *rand.Rand) plan.Plan { return evicted(r, c.way, c.after) }
		c.Finding, c.Report = both, report
		if c.Name == "evicted-out-of-service" {
			c.Report += "; KEP-2268, risks"
		}
		all = append(all, c.Case)
	}
	return append(all, plan.Case{
		// The API server counts with the budget's status, even if the disruption controller no longer writes it.
		Name:    "k8s-105326",
		Finding: plan.Sign{Check: "pdb-honoured", Says: "the budget's minAvailable is 2"},
		Summary: "A kubelet is stopped while the disruption controller cannot write the budget's status, and another " +
			"node is drained: the database there is evicted, although the budget is used up.",
		Build: func(r *rand.Rand) plan.Plan {
			w := MySQL(3)
			w.MinAvailable = 2
			// A sound controller would know by then.
			lost := Within("kubelet-stop", 0, 8*time.Minute, notReady(), Await(plan.AwaitUnready, 0, time.Minute),
				still(10*time.Second), Fault("drain", 1, time.Second, 3*time.Minute))
			p := Trial(w, Load(100+r.IntN(100)), Checksum("before"),
				rejected("disruption-controller", 0, 12*time.Minute, []string{"poddisruptionbudgets/status"},
					[]string{"update"}, lost), settled(), Load(50), Checksum("after"))
			p.Workers, p.Bounds.MaxNodes = 3, 2
			return p
		},
		Volumes: 1, // One pod is evicted.
		Report:  "kubernetes/kubernetes issue 105326",
	})
}
