package scenarios

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// topologies are the trials of a group of databases with one writer, each topology with each trouble. The first
// instance is the first primary. Each is on a node of its own, so that a fault of a node concerns one.
func topologies() []plan.Scenario {
	// The kubelet starts a container again after a second: the primary may be back before anybody replaces it.
	killed := func() plan.Step { return Within("container-kill", 0, 4*time.Minute, Load(40)) }
	// The node stays down until the group has acknowledged without it.
	crashed := func() plan.Step { return Within("node-crash", 0, 4*time.Minute, Load(40)) }
	cut := func() plan.Step { return Within("node-partition", 0, 5*time.Minute, Load(40)) }
	var all []plan.Scenario
	for _, topology := range []struct{ name, summary string }{
		{plan.TopologyAsync, "A group of databases, asynchronous replication, a promoter."},
		{plan.TopologySemiSync, "A group of databases, lossless semi-synchronous replication, a promoter."},
		{plan.TopologyGroup, "A group of databases, group replication with one primary."},
	} {
		// A promoter refuses to replace an asynchronous primary that it cannot reach, which goes on alone.
		troubles := []struct {
			name, summary string
			fault         func() plan.Step
		}{
			{"calm", "No fault.", nil},
			{"primary-killed", "The primary is killed under load; it comes back or is replaced.", killed},
			{"primary-crashed", "The node of the primary crashes, and boots when the group has gone on.", crashed},
			{"primary-cut", "The node of the primary is cut off under load; clients on both sides write on.", cut},
			{"scaled", "Five are scaled to three, to five, and to three again, under load.", nil},
		}
		if topology.name == plan.TopologyAsync {
			// Nobody can prove that a primary has ended whose node is away: none is promoted. During a crash nothing
			// would be acknowledged, which shows nothing; a primary that is cut off goes on for clients on its side.
			troubles[3].fault = func() plan.Step { return Fault("node-partition", 0, 20*time.Second, 5*time.Minute) }
			troubles = slices.Delete(troubles, 2, 3)
		}
		if topology.name == plan.TopologyGroup {
			// Its members decide by themselves: a cut from the control plane alone is none for them.
			troubles[3].summary = "The nodes of the primary and of another instance are cut off from each other " +
				"under load; both reach the third."
			troubles[3].fault = func() plan.Step {
				return With(Within("node-isolate", 0, 5*time.Minute, Load(40)), plan.Params{"peer": 1})
			}
		}
		for _, trouble := range troubles {
			all = append(all, plan.Scenario{
				Name:    "topology-" + topology.name + "-" + trouble.name,
				Summary: topology.summary + " " + trouble.summary,
				Build: func(r *rand.Rand) plan.Plan {
					switch {
					case trouble.fault != nil:
						return inGroup(r, 3, topology.name, trouble.fault())
					case trouble.name == "scaled":
						return inGroup(r, 5, topology.name, Scale(3), Load(60), Checksum("three"),
							Scale(5), Load(60), Checksum("five"), Scale(3))
					}
					return inGroup(r, 3, topology.name)
				},
			})
		}
	}
	return append(all, plan.Scenario{
		Name: "selftest-lost-in-failover",
		Summary: "Self-test: an acknowledged row is deleted on both replicas, past the binary log, before the node " +
			"of the primary crashes; the verdict must be FAIL.",
		Expect:  "FAIL",
		Finding: plan.Sign{Check: "acknowledged", Says: "is lost"},
		Build: func(r *rand.Rand) plan.Plan {
			return inGroup(r, 3, plan.TopologySemiSync, tamper(plan.Tamper{Kind: "delete-row"}), crashed())
		},
	})
}

// inGroup has a group work, meet the steps, and work on.
func inGroup(r *rand.Rand, replicas int, topology string, steps ...plan.Step) plan.Plan {
	w := MySQL(replicas)
	w.Topology, w.VolumeMiB = topology, 768 // A clone is put beside what is there before it takes its place.
	all := []plan.Step{Load(150 + r.IntN(50)), Checksum("before")}
	all = append(append(all, steps...), Load(100), Checksum("after"))
	p := Trial(w, all...)
	p.Workers = 3
	return p
}
