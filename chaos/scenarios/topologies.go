package scenarios

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// trouble is what a group of databases meets.
type trouble struct {
	name, summary string
	replicas      int
	steps         []plan.Step
	not           []string             // Topologies that are not tried so.
	oneWay        bool                 // Its faults cut packets one way only.
	alone         []plan.Step          // Of TopologyAsync, in place of steps.
	change        func(*plan.Workload) // Nil for nothing.
}

// groupTroubles are those of every topology. The first instance is the first primary, and must be it when a fault is to
// hurt the primary; where each takes writes, it is a member like the others. Each is on a node of its own, so that a
// fault of a node concerns one.
//
// A promoter refuses to replace an asynchronous primary unless it is shown to have ended, which nobody can show whose
// node is away. It goes on alone, or comes back: nothing that needs another primary is demanded during its fault.
func groupTroubles() []trouble {
	const bound = 5 * time.Minute
	// What keeps the primary away lasts until the group has acknowledged without it.
	without := func(fault string, during ...plan.Step) []plan.Step {
		return []plan.Step{Within(fault, 0, bound, append(during, Load(40))...)}
	}
	brief := func(fault string, hold time.Duration) []plan.Step {
		return []plan.Step{Fault(fault, 0, hold, bound)}
	}
	multi := []string{plan.TopologyMulti}
	promoted := []string{plan.TopologyAsync, plan.TopologySemiSync}
	groups := []string{plan.TopologyGroup, plan.TopologyMulti}
	all := []trouble{
		{name: "calm", summary: "No fault.", replicas: 3},
		// The kubelet starts a container again after a second: the primary may be back before anybody replaces it.
		{name: "primary-killed", replicas: 3, steps: without("container-kill"),
			summary: "The primary is killed under load; it comes back or is replaced."},
		{name: "primary-frozen", replicas: 3, steps: without("container-freeze"),
			alone:   brief("container-freeze", 10*time.Second),
			summary: "The primary is frozen under load, and goes on later."},
		{name: "primary-rebooted", replicas: 3, steps: without("node-reboot"),
			summary: "The node of the primary reboots under load."},
		{name: "primary-crashed", replicas: 3, steps: without("node-crash"),
			alone:   brief("node-crash", 15*time.Second),
			summary: "The node of the primary crashes, and boots when the group has gone on."},
		{name: "primary-crashed-kubelet-killed", replicas: 3,
			steps: without("node-crash", Fault("kubelet-kill", 1, time.Second, 2*time.Minute)),
			alone: []plan.Step{Within("node-crash", 0, bound, Fault("kubelet-kill", 1, time.Second, 2*time.Minute))},
			summary: "The node of the primary crashes, and the kubelet of another instance is killed before the " +
				"group has gone on."},
		{name: "primary-power-lost", replicas: 3, steps: without("power-loss"),
			alone:   brief("power-loss", 15*time.Second),
			summary: "The node of the primary loses its power under load, and what was not synced there is lost."},
		{name: "power-lost", replicas: 3, steps: without("power-loss"), not: multi,
			change:  func(w *plan.Workload) { w.Pinned, w.Parallel = true, true },
			summary: "The node of all instances loses its power under load, and what was not synced there is lost."},
		{name: "primary-full", replicas: 3, steps: brief("volume-full", 15*time.Second),
			summary: "The volume of the primary is full for 15 s under load."},
		{name: "primary-cut", replicas: 3, steps: without("node-partition"), not: groups,
			alone:   brief("node-partition", 20*time.Second),
			summary: "The node of the primary is cut off under load; clients on both sides write on."},
		// Members decide by themselves: a cut from the control plane alone is none for them.
		{name: "primary-cut", replicas: 3, not: promoted,
			steps: []plan.Step{With(Within("node-isolate", 0, bound, Load(40)), plan.Params{"peer": 1})},
			summary: "The nodes of the primary and of another instance are cut off from each other under load; both " +
				"reach the third."},
		{name: "primary-minority", replicas: 3, steps: brief("node-isolate", 15*time.Second), not: groups,
			summary: "Both replicas are cut off from the primary for 15 s under load; clients and promoter reach all."},
		{name: "primary-minority", replicas: 3, steps: without("node-isolate"), not: promoted,
			summary: "The primary is cut off from both others under load, and clients reach all; the others go on."},
		{name: "replica-minority", replicas: 3, not: multi,
			steps:   []plan.Step{Within("node-isolate", 1, bound, Load(40))},
			summary: "A replica is cut off from both others under load; they go on."},
		{name: "replica-late", replicas: 3, not: groups,
			steps: []plan.Step{behind(1, 10), Load(60),
				// Clients write on: whose last transaction is older is late.
				shown(1, "MAX(LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP) < NOW(6) - INTERVAL 1 SECOND",
					"replication_applier_status_by_worker"), behind(1, 0)},
			summary: "A replica is to be 10 s behind for a while; who reads there reads what was before."},
		{name: "replica-lost", replicas: 3, steps: lost(1), not: multi,
			summary: "The claim of a replica is deleted under load, and its pod: it begins again without data."},
		{name: "primary-lost", replicas: 3, steps: lost(0),
			summary: "The claim of the primary is deleted under load, and its pod: it begins again without data."},
		{name: "primary-lost-killed", replicas: 3,
			steps: lost(0, Await(plan.AwaitCreated, 0, time.Minute), unready(0),
				Fault("container-kill", 0, time.Second, 2*time.Minute)),
			summary: "The claim of the primary is deleted under load, and its pod: it begins again without data, and " +
				"is killed as it gets it back."},
		{name: "updated", replicas: 3, summary: "A rolling update under load, the last pod first as a canary.",
			steps: []plan.Step{partition(2), update("v2"), Load(60), Checksum("canary"), partition(0, Load(30)),
				Load(30)}},
		{name: "scaled", replicas: 5, summary: "Five are scaled to three, to five, and to three again, under load.",
			steps: []plan.Step{Scale(3), Load(60), Checksum("three"), Scale(5), Load(60), Checksum("five"), Scale(3)}},
	}
	for _, t := range all {
		if t.name == "primary-cut" || t.name == "primary-minority" {
			t.name, t.oneWay = t.name+"-one-way", true
			t.summary += " Only packets one way are cut, the seed says which."
			all = append(all, t)
		}
	}
	return all
}

// oneWay has the faults cut packets to the victim's node only, or from it.
func oneWay(steps []plan.Step, direction string) []plan.Step {
	steps = slices.Clone(steps)
	for i, s := range steps {
		if s.Fault == nil {
			continue
		}
		f := *s.Fault
		f.Params = plan.Params{"direction": direction}
		maps.Copy(f.Params, s.Fault.Params)
		f.During = oneWay(f.During, direction)
		steps[i].Fault = &f
	}
	return steps
}

// lost takes the volume of an instance away for good, and carries out steps as it comes back. How far the new one has
// come is not looked at before the end.
func lost(ordinal int, steps ...plan.Step) []plan.Step {
	steps = append([]plan.Step{deleteClaim(ordinal), deletePod(ordinal)}, steps...)
	return append(steps, settled(), Load(60))
}

// topologies are the trials of a group of databases, each topology with each trouble.
func topologies() []plan.Scenario {
	var all []plan.Scenario
	for _, topology := range []struct{ name, summary string }{
		{plan.TopologyAsync, "A group of databases, asynchronous replication, a promoter."},
		{plan.TopologySemiSync, "A group of databases, lossless semi-synchronous replication, a promoter."},
		{plan.TopologyGroup, "A group of databases, group replication with one primary."},
		{plan.TopologyMulti, "A group of databases, group replication in which each takes writes."},
	} {
		for _, trouble := range groupTroubles() {
			if slices.Contains(trouble.not, topology.name) {
				continue
			}
			if topology.name == plan.TopologyAsync && trouble.alone != nil {
				trouble.steps = trouble.alone
			}
			if strings.HasPrefix(trouble.name, "primary-") {
				trouble.steps = slices.Concat([]plan.Step{writes()}, trouble.steps)
			}
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
					steps := slices.Clone(trouble.steps)
					if trouble.oneWay {
						steps = oneWay(steps, []string{"in", "out"}[r.IntN(2)])
					}
					for i, s := range steps {
						if s.Await != nil && s.Await.For == plan.AwaitUnready { // At whatever stage of its return.
							late := *s.Await
							late.Delay = plan.Duration(r.IntN(25_000)) * plan.Duration(time.Millisecond)
							steps[i].Await = &late
						}
					}
					p := inGroup(r, trouble.replicas, topology.name, steps...)
					p.Workload.Transfers = 4
					if topology.name == plan.TopologySemiSync || topology.name == plan.TopologyGroup {
						p.Workload.Transactions = 4
					}
					if trouble.change != nil {
						trouble.change(&p.Workload)
					}
					switch {
					case strings.HasSuffix(trouble.name, "-kubelet-killed"):
						p.Bounds.MaxNodes = 2
					case slices.ContainsFunc(p.Steps, func(s plan.Step) bool { return s.Do == plan.ActionDeleteClaim }):
						// A checksum would find the new volume empty still.
						p.Steps = slices.DeleteFunc(p.Steps, func(s plan.Step) bool { return s.Label == "after" })
					}
					return p
				},
			})
		}
	}
	return append(all, selftestsOfGroups()...)
}

// selftestsOfGroups bring about what must not be in a group of databases.
func selftestsOfGroups() []plan.Scenario {
	// Each group of commits of theirs takes half a second, so that they have more and more to apply.
	slow := func(micros int) []plan.Step {
		sql := fmt.Sprintf("SET GLOBAL binlog_group_commit_sync_delay = %d", micros)
		return []plan.Step{statement(1, sql), statement(2, sql)}
	}
	backlog := func(name, consistency, summary string) plan.Scenario {
		return plan.Scenario{
			Name: "topology-group-single-" + name,
			Summary: "A group of databases, group replication with one primary. The primary is killed while the " +
				"others have not applied all that they got from it: " + summary,
			Build: func(r *rand.Rand) plan.Plan {
				steps := []plan.Step{writes()}
				for i := range 3 {
					steps = append(steps, statement(i, "SET GLOBAL group_replication_member_expel_timeout = 0; "+
						"SET GLOBAL group_replication_consistency = "+consistency))
				}
				steps = append(append(steps, slow(500_000)...), Load(100))
				for i := range 2 {
					steps = append(steps, shown(1+i, "MAX(MEMBER_ID = @@server_uuid AND "+
						"COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE >= 20)", "replication_group_member_stats"))
				}
				steps = append(steps, Within("container-kill", 0, 5*time.Minute, Load(40)))
				p := inGroup(r, 3, plan.TopologyGroup, append(steps, slow(0)...)...)
				p.Workload.Transactions = 4
				return p
			},
		}
	}
	return []plan.Scenario{
		selftest("fell-back", "UNKNOWN", "a primary waits for its replicas for half a second only, is cut off, "+
			"acknowledges by itself and is replaced: what is lost was not promised, and",
			plan.Sign{Check: "acknowledged", Says: "fell back around then"}, func(r *rand.Rand) plan.Plan {
				return inGroup(r, 3, plan.TopologySemiSync, writes(),
					statement(0, "SET GLOBAL rpl_semi_sync_source_timeout = 500"),
					Within("node-partition", 0, 5*time.Minute, Load(80)))
			}),
		{
			Name: "topology-semisync-clone-killed",
			Summary: "A group of databases, lossless semi-synchronous replication, a promoter. A replica is cloned " +
				"again under load, and the replica or the primary is killed half-way.",
			Build: func(r *rand.Rand) plan.Plan { return cloneKilled(r, r.IntN(2), 8) },
		},
		backlog("backlog", "BEFORE_ON_PRIMARY_FAILOVER", "the new one waits until it has."),
		backlog("eventual", "EVENTUAL", "the new one may show less than was acknowledged."),
		selftest("after-commit", "UNKNOWN", "others see what a primary has committed before a replica has it, the "+
			"primary is cut off and replaced: what they saw and is lost is documented, and",
			plan.Sign{Check: "isolation", Says: "with AFTER_COMMIT others see what a failover loses"},
			func(r *rand.Rand) plan.Plan {
				p := inGroup(r, 3, plan.TopologySemiSync, writes(),
					statement(0, "SET GLOBAL rpl_semi_sync_source_wait_point = AFTER_COMMIT"),
					Within("node-partition", 0, 5*time.Minute, Load(80)))
				p.Workload.Transactions = 20 // One that only reads must come after one that waits.
				return p
			}),
		selftest("lost-in-failover", "FAIL", "an acknowledged row is deleted on both replicas, past the binary log, "+
			"before the node of the primary crashes;", plan.Sign{Check: "acknowledged", Says: "is lost"},
			func(r *rand.Rand) plan.Plan {
				return inGroup(r, 3, plan.TopologySemiSync, tamper(plan.Tamper{Kind: "delete-row"}),
					Within("node-crash", 0, 4*time.Minute, Load(40)))
			}),
		selftest("two-writers", "FAIL", "a replica is opened for writes, and a client writes there while the others "+
			"write to the primary;", plan.Sign{Check: "one-writer", Says: "Two instances acknowledged at once"},
			func(r *rand.Rand) plan.Plan {
				return inGroup(r, 3, plan.TopologySemiSync, writes(),
					tamper(plan.Tamper{Kind: "second-writer", Ordinal: 1 + r.IntN(2)}))
			}),
		selftest("clone-killed", "FAIL", "a replica is killed half-way through a clone, and nobody may clone it again;",
			plan.Sign{Check: "in-sync", Says: "lacks transactions of"}, func(r *rand.Rand) plan.Plan {
				return settling(30*time.Second,
					cloneKilled(r, 1, 60, statement(0, "REVOKE BACKUP_ADMIN ON *.* FROM operator")))
			}),
		// The group does not let the member in again.
		selftest("errant-transaction", "FAIL", "a member writes while it has left its group;",
			plan.Sign{Check: "errant-gtid", Says: "has transactions that"}, func(r *rand.Rand) plan.Plan {
				return settling(30*time.Second, inGroup(r, 3, plan.TopologyGroup, statement(1+r.IntN(2),
					"STOP GROUP_REPLICATION; SET GLOBAL super_read_only = OFF; CREATE DATABASE errant")))
			}),
		// It holds a transaction for its own that the primary carries out a second later.
		selftest("skipped-transaction", "FAIL", "a replica skips a transaction of the primary;",
			plan.Sign{Check: "in-sync", Says: "has other rows in table"}, func(r *rand.Rand) plan.Plan {
				return inGroup(r, 3, plan.TopologySemiSync, writes(), statement(1+r.IntN(2), "SET @source = (SELECT "+
					"SOURCE_UUID FROM performance_schema.replication_connection_status WHERE CHANNEL_NAME = ''); "+
					"SET @last = REGEXP_SUBSTR(REGEXP_SUBSTR(@@GLOBAL.gtid_executed, CONCAT(@source, "+
					"':[0-9]+-[0-9]+')), '[0-9]+$'); "+
					"SET GTID_NEXT = CONCAT(@source, ':', CAST(@last + 30 AS UNSIGNED)); BEGIN; COMMIT"))
			}),
		// As in selftest-cached-page.
		selftest("replica-page", "FAIL", "a byte is flipped on disk in a page that a replica has in memory;",
			plan.Sign{Check: "integrity", Says: "has a wrong checksum"}, func(r *rand.Rand) plan.Plan {
				replica := 1 + r.IntN(2)
				return inGroup(r, 3, plan.TopologySemiSync, Fault("pod-delete", replica, time.Second, 3*time.Minute),
					settled(), Load(40), Checksum("restarted"), tamper(plan.Tamper{Kind: "flip-byte", Ordinal: replica,
						Page: 5 + r.IntN(14), Byte: 38 + r.IntN(16384-8-38)}))
			}),
	}
}

// cloneKilled has a replica get a transaction of its own, so that the promoter clones it again, and kills one of the
// two servers meanwhile: the replica must have dropped its tables then. The clone waits for the delay after that, and
// copies for some seconds. The primary has no binary logs of what came before. Steps come right before the kill.
func cloneKilled(r *rand.Rand, killed, delay int, before ...plan.Step) plan.Plan {
	purge := statement(0, "FLUSH BINARY LOGS; DO SLEEP(2); PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")
	errant := statement(1, fmt.Sprintf("SET GLOBAL clone_delay_after_data_drop = %d; "+
		"SET GLOBAL clone_autotune_concurrency = OFF; SET GLOBAL clone_max_concurrency = 1; "+
		"SET GLOBAL clone_max_data_bandwidth = 2; SET GLOBAL super_read_only = OFF; CREATE DATABASE errant", delay))
	wait := plan.Step{Do: plan.ActionPause, Lasting: plan.Duration(5+r.IntN(6)) * plan.Duration(time.Second),
		Bound: plan.Duration(time.Minute)}
	dropped := statement(1, "USE seatrial")
	dropped.Exec.Refused = "Unknown database"
	steps := append([]plan.Step{purge, errant, wait, dropped}, before...)
	return inGroup(r, 3, plan.TopologySemiSync,
		append(steps, Within("container-kill", killed, 4*time.Minute, Load(40)), settled())...)
}

// behind has a replica carry out everything some seconds late, or as soon as it can.
func behind(ordinal, seconds int) plan.Step {
	return statement(ordinal, fmt.Sprintf("STOP REPLICA SQL_THREAD; CHANGE REPLICATION SOURCE TO SOURCE_DELAY = %d; "+
		"START REPLICA SQL_THREAD", seconds))
}

// shown ends the trial without a verdict unless the condition, an aggregate, holds for a table of performance_schema:
// MySQL refuses EXP(1000).
func shown(ordinal int, condition, table string) plan.Step {
	return statement(ordinal, fmt.Sprintf("SELECT EXP(1000 * (1 - COALESCE(%s, 0))) FROM performance_schema.%s",
		condition, table))
}

// statement has the administrator of an instance carry out SQL.
func statement(ordinal int, sql string) plan.Step {
	return plan.Step{Do: plan.ActionExec, Bound: plan.Duration(time.Minute), Exec: &plan.Exec{Ordinal: ordinal,
		Command: []string{"mysql", "--no-defaults", "--user=root", "--socket=/tmp/mysql.sock", "-e", sql}}}
}

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
			Holds:   []string{"acknowledged", "in-sync", "rows"},
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
