package scenarios

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// topologies are the trials of a group of databases, each topology with each trouble. The first instance is the first
// primary; where each takes writes, it is a member like the others. Each is on a node of its own, so that a fault of a
// node concerns one.
func topologies() []plan.Scenario {
	none := func() []plan.Step { return nil }
	// The kubelet starts a container again after a second: the primary may be back before anybody replaces it.
	killed := func() []plan.Step { return []plan.Step{Within("container-kill", 0, 4*time.Minute, Load(40))} }
	// The node stays down until the group has acknowledged without it.
	crashed := func() []plan.Step { return []plan.Step{Within("node-crash", 0, 4*time.Minute, Load(40))} }
	cut := func() []plan.Step { return []plan.Step{Within("node-partition", 0, 5*time.Minute, Load(40))} }
	scaled := func() []plan.Step {
		return []plan.Step{Scale(3), Load(60), Checksum("three"), Scale(5), Load(60), Checksum("five"), Scale(3)}
	}
	var all []plan.Scenario
	for _, topology := range []struct{ name, summary string }{
		{plan.TopologyAsync, "A group of databases, asynchronous replication, a promoter."},
		{plan.TopologySemiSync, "A group of databases, lossless semi-synchronous replication, a promoter."},
		{plan.TopologyGroup, "A group of databases, group replication with one primary."},
		{plan.TopologyMulti, "A group of databases, group replication in which each takes writes."},
	} {
		// A promoter refuses to replace an asynchronous primary that it cannot reach, which goes on alone.
		troubles := []struct {
			name, summary string
			replicas      int
			steps         func() []plan.Step
		}{
			{"calm", "No fault.", 3, none},
			{"primary-killed", "The primary is killed under load; it comes back or is replaced.", 3, killed},
			{"primary-crashed", "The node of the primary crashes, and boots when the group has gone on.", 3, crashed},
			{"primary-cut", "The node of the primary is cut off under load; clients on both sides write on.", 3, cut},
			{"scaled", "Five are scaled to three, to five, and to three again, under load.", 5, scaled},
		}
		if topology.name == plan.TopologyAsync {
			// Nobody can prove that a primary has ended whose node is away: none is promoted. During a crash nothing
			// would be acknowledged, which shows nothing; a primary that is cut off goes on for clients on its side.
			troubles[3].steps = func() []plan.Step {
				return []plan.Step{Fault("node-partition", 0, 20*time.Second, 5*time.Minute)}
			}
			troubles = slices.Delete(troubles, 2, 3)
		}
		if topology.name == plan.TopologyGroup || topology.name == plan.TopologyMulti {
			// Its members decide by themselves: a cut from the control plane alone is none for them.
			troubles[3].summary = "The nodes of the primary and of another instance are cut off from each other " +
				"under load; both reach the third."
			troubles[3].steps = func() []plan.Step {
				return []plan.Step{With(Within("node-isolate", 0, 5*time.Minute, Load(40)), plan.Params{"peer": 1})}
			}
		}
		for _, trouble := range troubles {
			if topology.name == plan.TopologyMulti {
				trouble.name = strings.Replace(trouble.name, "primary", "member", 1)
				trouble.summary = strings.NewReplacer("The primary is", "A member is",
					"; it comes back or is replaced", "; the others go on", "the primary", "a member").
					Replace(trouble.summary)
			}
			all = append(all, plan.Scenario{
				Name:    "topology-" + topology.name + "-" + trouble.name,
				Summary: topology.summary + " " + trouble.summary,
				Build: func(r *rand.Rand) plan.Plan {
					p := inGroup(r, trouble.replicas, topology.name, trouble.steps()...)
					p.Workload.Transfers = 4
					if topology.name == plan.TopologySemiSync || topology.name == plan.TopologyGroup {
						p.Workload.Transactions = 4
					}
					return p
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
			lost := tamper(plan.Tamper{Kind: "delete-row"})
			return inGroup(r, 3, plan.TopologySemiSync, slices.Insert(crashed(), 0, lost)...)
		},
	})
}

// groupCases are about a group of databases.
func groupCases() []plan.Case {
	// Both replicas are gone, cannot come back before the steps are over, and come back together.
	alone := func(r *rand.Rand, steps ...plan.Step) plan.Plan {
		gone := []plan.Step{deletePod(1), deletePod(2), Await(plan.AwaitPending, 1, 2*time.Minute)}
		p := inGroup(r, 3, plan.TopologySemiSync,
			Within("cordon", 1, 8*time.Minute, Within("cordon", 2, 7*time.Minute, append(gone, steps...)...)))
		p.Bounds.MaxNodes, p.Workload.ManualFailover, p.Workload.Parallel = 2, true, true
		return p
	}
	const report = "MySQL, see docs/mysql-semisync-create-user.md; near it: yandex/mysync pull request 273"
	return []plan.Case{
		{
			// CREATE USER waits for its acknowledgement and keeps new sessions from being authenticated. The kubelet
			// ends the server 40 s to 70 s after it, since its liveness probe fails, and it is back 10 s later.
			Name:    "semisync-create-user",
			Volumes: 1,
			Finding: plan.Sign{Check: "settle", Says: "took no write"},
			Summary: "A user is created while no replica of a semi-synchronous primary is connected: the statement " +
				"waits for a replica, no new session gets in, so no replica can connect, and no write is taken " +
				"any more.",
			Build: func(r *rand.Rand) plan.Plan {
				p := alone(r, tamper(plan.Tamper{Kind: "create-user"}))
				p.Steps = p.Steps[:len(p.Steps)-2] // The group does not work on.
				return settling(30*time.Second, p)
			},
			Report: report, Affected: "MySQL 9.7.4; others were not tried",
		},
		{
			Name:    "semisync-alone",
			Volumes: 1,
			Finding: plan.Sign{Check: "settle", Says: "took no write"},
			Summary: "As semisync-create-user, without the user: writes wait for a replica, and go on once one is " +
				"back.",
			Build:  func(r *rand.Rand) plan.Plan { return alone(r) },
			Report: report, Affected: "none: an INSERT that waits keeps no session out",
			Control: true,
			Holds:   []string{"acknowledged", "coverage", "in-sync", "rows"},
		},
	}
}

// inGroup has a group work, meet the steps, and work on.
func inGroup(r *rand.Rand, replicas int, topology string, steps ...plan.Step) plan.Plan {
	w := MySQL(replicas)
	w.Topology, w.VolumeMiB = topology, 768 // A clone is put beside what is there before it takes its place.
	if w.Multi() {
		w.Clients = replicas // One for each that takes writes.
	}
	all := []plan.Step{Load(150 + r.IntN(50)), Checksum("before")}
	all = append(append(all, steps...), Load(100), Checksum("after"))
	p := Trial(w, all...)
	p.Workers = 3
	return p
}
