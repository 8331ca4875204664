// Package scenarios holds the named templates of trials, and the cases: scenarios that reproduce a report. Each is one
// entry of a list; steps.go has the builders that they share.
//
// All chance comes from the *rand.Rand they are given, so the package is pure.
package scenarios

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// All returns every scenario, in alphabetical order. One that does not say what it expects expects PASS.
func All() []plan.Scenario {
	all := slices.Concat(trials(), troubles(), topologies(), selftests(), upgrades())
	for _, s := range sets() {
		all = append(all, s.variants()...)
	}
	for i := range all {
		all[i].Expect = cmp.Or(all[i].Expect, "PASS")
	}
	slices.SortFunc(all, func(a, b plan.Scenario) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// trials are the scenarios of databases under load that a sound cluster passes.
func trials() []plan.Scenario {
	return []plan.Scenario{
		{
			// The first trial of any cluster, on nodes and in an order that the seed chooses.
			Name:    "smoke",
			Summary: "Kubelet kill, partition and reboot under load, each once, then scale 3 to 1 to 3.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 3
				faults := []plan.Step{
					Fault("kubelet-kill", r.IntN(replicas), 5*time.Second, 2*time.Minute),
					// Lease evidence takes 15 s, so the cut lasts 35 s: well beyond a lost packet, short of eviction.
					Fault("node-partition", r.IntN(replicas), 20*time.Second, 3*time.Minute),
					Fault("node-reboot", r.IntN(replicas), 5*time.Second, 4*time.Minute),
				}
				return Trial(MySQL(replicas), append(shuffled(r, 100, faults), Scale(1), Load(20), Scale(3), Load(100),
					Checksum("settled"))...)
			},
		},
		{
			// The node is cut off for less than the grace period of its lease.
			Name: "smoke-disk",
			Summary: "Kubelet killed, container runtime killed, node cut off for a moment, node rebooted, MySQL on " +
				"disks that could move: every step of attach, stage, publish and back is judged.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 2
				steps := inTurn(r,
					Fault("kubelet-kill", r.IntN(replicas), 3*time.Second, 2*time.Minute),
					Fault("runtime-kill", r.IntN(replicas), 3*time.Second, 2*time.Minute),
					Fault("node-partition", r.IntN(replicas), 2*time.Second, 3*time.Minute),
					Fault("node-reboot", r.IntN(replicas), 5*time.Second, 4*time.Minute),
				)
				return Trial(eitherFileSystem(r, Disk(replicas, "single")), steps...)
			},
		},
		{
			// Nothing but the kubelets puts a volume onto a node and takes it away.
			Name: "smoke-unattached",
			Summary: "Kubelet killed, node rebooted, each pod moved to the other node, MySQL on disks that need no " +
				"attach (CSIDriver attachRequired false): every step of stage, publish and back is judged.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 2
				faults := []plan.Step{
					Fault("kubelet-kill", r.IntN(replicas), 3*time.Second, 2*time.Minute),
					Fault("node-reboot", r.IntN(replicas), 5*time.Second, 4*time.Minute),
				}
				shuffle(r, faults)
				// Then both are on one node, and none would work while that is down.
				first := r.IntN(replicas)
				for _, i := range []int{first, 1 - first} {
					faults = append(faults, Within("cordon", i, 6*time.Minute, deletePod(i),
						Await(plan.AwaitMoved, i, 3*time.Minute), Load(20)))
				}
				return Trial(eitherFileSystem(r, Disk(replicas, plan.FencingUnattached)), oneByOne(faults)...)
			},
		},
		{
			// The database does not need the control plane meanwhile.
			Name: "control-plane",
			Summary: "API server stopped for 30 s, etcd frozen, scheduler killed, controller manager stopped, one " +
				"after another, MySQL under load; then scale 2 to 1 to 2.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 2
				// Each takes its hold, three minutes until it is shown to be healed, and one until it is shown.
				return Trial(MySQL(replicas), oneByOne([]plan.Step{
					Fault("apiserver-stop", r.IntN(replicas), 30*time.Second, 5*time.Minute),
					Fault("etcd-freeze", r.IntN(replicas), 10*time.Second, 5*time.Minute),
					Fault("scheduler-kill", r.IntN(replicas), 3*time.Second, 5*time.Minute),
					Fault("manager-stop", r.IntN(replicas), 10*time.Second, 5*time.Minute),
				})...)
			},
		},
		{
			Name: "database-trouble",
			Summary: "A MySQL server frozen for 3 s, one frozen for 30 s and one killed, each while it is at work; " +
				"what it acknowledged is there when it goes on.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 2
				return Trial(MySQL(replicas), inTurn(r,
					Fault("container-freeze", r.IntN(replicas), 3*time.Second, 4*time.Minute),
					Fault("container-freeze", r.IntN(replicas), 30*time.Second, 4*time.Minute),
					Fault("container-kill", r.IntN(replicas), 3*time.Second, 4*time.Minute),
				)...)
			},
		},
		{
			Name: "point-in-time",
			Summary: "A careless operator drops a table of MySQL. A copy is restored from an earlier backup and " +
				"brought forward to the last transaction before the drop; the first instance is cloned from it.",
			Build: func(r *rand.Rand) plan.Plan {
				w, steps := tableDropped(r, restored(), Load(50))
				return Trial(w, steps...)
			},
		},
		{
			Name: "transactions",
			Summary: "Clients carry out transactions at all isolation levels while kubelet and database are killed, " +
				"the database is frozen and the node reboots; each sees of the others what its level allows.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 2
				return Trial(transacting(replicas), inTurn(r,
					Fault("kubelet-kill", r.IntN(replicas), 3*time.Second, 2*time.Minute),
					Fault("container-kill", r.IntN(replicas), 3*time.Second, 4*time.Minute),
					Fault("container-freeze", r.IntN(replicas), 3*time.Second, 4*time.Minute),
					Fault("node-reboot", r.IntN(replicas), 5*time.Second, 4*time.Minute),
				)...)
			},
		},
		{
			Name: "disk-trouble",
			Summary: "A disk that is gone, one that is full and one that is read-only, each under a MySQL instance " +
				"at work; no acknowledged row may be lost.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 3
				w := eitherFileSystem(r, MySQL(replicas))
				victims := r.Perm(replicas)
				steps := []plan.Step{Load(150), Checksum("before")}
				for i, name := range []string{"device-gone", "volume-full", "volume-read-only"} {
					steps = append(steps, Fault(name, victims[i], 15*time.Second, 5*time.Minute))
					if name == "volume-full" {
						// A MySQL server that has met a full disk looks for space once a minute (Reference Manual, How
						// MySQL Handles a Full Disk).
						again := Await(plan.AwaitTime, 0, 2*time.Minute)
						again.Await.After, again.Await.Since = plan.Duration(65*time.Second), plan.SinceStep
						steps = append(steps, again)
					}
					steps = append(steps, Load(100), readBack(), Checksum("after"))
				}
				return Trial(w, steps...)
			},
		},
		{
			// Partial faults of the network: tools that make them often hurt the other half as well, or nothing.
			Name: "network",
			Summary: "Partitions of one direction each, one that rejects, 30 % of the packets lost, and a pod cut " +
				"off from another, each once under load.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 3
				on := func(name string, hold time.Duration, params plan.Params) plan.Step {
					return With(Fault(name, r.IntN(replicas), hold, 3*time.Minute), params)
				}
				faults := []plan.Step{
					on("node-partition", 5*time.Second, plan.Params{"direction": "in"}),
					on("node-partition", 5*time.Second, plan.Params{"direction": "out"}),
					on("node-partition", 5*time.Second, plan.Params{"reject": true}),
					on("packet-loss", 10*time.Second, plan.Params{"percent": 30}),
					on("pod-partition", 5*time.Second, nil),
				}
				cut := faults[len(faults)-1].Fault
				cut.Params = plan.Params{"peer": (cut.Ordinal + 1 + r.IntN(replicas-1)) % replicas}
				return Trial(MySQL(replicas), shuffled(r, 50, faults)...)
			},
		},
		{
			// The kubelet is killed as soon as the cut is shown, and the node is let in again once the kill is shown.
			Name: "overlap",
			Summary: "The kubelet of one node killed while another node is cut off, under load: two faults in force " +
				"at once, each shown and healed.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 3
				cut := r.IntN(replicas)
				killed := (cut + 1 + r.IntN(replicas-1)) % replicas
				whenCut := Await(plan.AwaitFault, 0, 2*time.Minute)
				whenKilled := Await(plan.AwaitFault, 0, 2*time.Minute)
				whenCut.Await.Delay = plan.Duration(time.Duration(r.IntN(500)) * time.Millisecond)
				p := Trial(MySQL(replicas), Load(100), Checksum("before"),
					plan.Step{Do: plan.ActionTogether, Bound: plan.Duration(6 * time.Minute), Branches: [][]plan.Step{
						{Within("node-partition", cut, 5*time.Minute, whenKilled)},
						{whenCut, Fault("kubelet-kill", killed, 2*time.Second, 2*time.Minute)},
					}},
					Load(60), Checksum("after"))
				p.Workers, p.Bounds.MaxNodes = 3, 2
				plan.Number(p.Steps)
				branches := p.Steps[2].Branches
				whenCut.Await.Step, whenKilled.Await.Step = branches[0][0].N, branches[1][1].N
				return p
			},
		},
		{
			Name: "power-loss",
			Summary: "The node of four MySQL instances loses its power five times under load; every commit is " +
				"synced, and no acknowledged row may be lost.",
			Build: func(r *rand.Rand) plan.Plan { return losingPower(r, nil) },
		},
	}
}

func shuffle(r *rand.Rand, steps []plan.Step) {
	r.Shuffle(len(steps), func(i, j int) { steps[i], steps[j] = steps[j], steps[i] })
}

// shuffled has the workload meet faults under load, in an order that the seed chooses.
func shuffled(r *rand.Rand, commits int, faults []plan.Step) []plan.Step {
	shuffle(r, faults)
	steps := []plan.Step{Load(150)}
	for _, f := range faults {
		steps = append(steps, Checksum("before"), f, Load(commits), Checksum("after"))
	}
	return steps
}

// inTurn is oneByOne in an order that the seed chooses.
func inTurn(r *rand.Rand, faults ...plan.Step) []plan.Step {
	shuffle(r, faults)
	return oneByOne(faults)
}

func eitherFileSystem(r *rand.Rand, w plan.Workload) plan.Workload {
	if r.IntN(2) == 0 {
		w.FileSystem = "xfs"
	}
	return w
}

// oneByOne has two instances meet faults one after another, and scales them to one and back at the end.
func oneByOne(faults []plan.Step) []plan.Step {
	steps := []plan.Step{Load(100), Checksum("before")}
	for _, f := range faults {
		steps = append(steps, f, Load(60), Checksum("after"))
	}
	return append(steps, Scale(1), Load(20), Scale(2), Load(40), Checksum("settled"))
}

// losingPower cuts the power of the node of several databases under load, several times, and reads every row back after
// each: what was acknowledged must be there.
func losingPower(r *rand.Rand, flush *int) plan.Plan {
	const instances, losses = 4, 5
	w := MySQL(instances)
	w.Pinned, w.Parallel, w.FlushLogAtTrxCommit = true, true, flush
	w.Interval = plan.Duration(25 * time.Millisecond) // What is lost is what came within the last second.
	w = eitherFileSystem(r, w)
	steps := []plan.Step{Load(200), Checksum("before")}
	for range losses {
		// All instances are down at first: what is acknowledged during the fault is so by those that are back.
		fault := Within("power-loss", r.IntN(instances), 5*time.Minute, Load(40))
		steps = append(steps, fault, readBack(), Load(200), Checksum("after"))
	}
	return Trial(w, steps...)
}

// selftest sabotages a trial: one that ends PASS would have missed what happened. How ends before what the verdict is.
func selftest(name, expect, how string, finding plan.Sign, build func(*rand.Rand) plan.Plan) plan.Scenario {
	return plan.Scenario{
		Name: "selftest-" + name, Summary: "Self-test: " + how + " the verdict must be " + expect + ".", Expect: expect,
		Finding: finding, Build: build,
	}
}

func selftests() []plan.Scenario {
	return []plan.Scenario{
		selftestDamage("file-truncate", "the second half is cut off one"),
		selftestDamage("page-flip", "bytes are flipped in a page of one"),
		selftestFlush(0, "written and synced once a second"),
		selftestFlush(2, "written at each commit, and synced once a second"),
		// Only the verification on disk, after the servers have ended, finds the flips: the servers have the pages
		// in memory and never read them again. Each server is restarted before, so that the whole file is on the
		// disk, and the checksum reads its pages into memory.
		selftest("cached-page", "FAIL", "a byte is flipped on disk in each of 20 pages that the databases have in "+
			"memory;", plan.Sign{Check: "integrity", Says: "has a wrong checksum"}, func(r *rand.Rand) plan.Plan {
			const (
				replicas  = 2
				flips     = 10
				firstLeaf = 5  // Of the quiet table's file: behind its header, maps and root.
				leaves    = 14 // 1000 rows fill these and some more.
			)
			w := eitherFileSystem(r, MySQL(replicas))
			steps := []plan.Step{Load(100), Checksum("before")}
			for i := range replicas {
				steps = append(steps, Fault("pod-delete", i, time.Second, 3*time.Minute), Load(40))
			}
			steps = append(steps, Checksum("restarted"))
			for i := range replicas {
				for _, page := range r.Perm(leaves)[:flips] {
					steps = append(steps, tamper(plan.Tamper{
						Kind: "flip-byte", Ordinal: i, Page: firstLeaf + page, Byte: 38 + r.IntN(16384-8-38)}))
				}
			}
			return Trial(w, append(steps, Load(40))...)
		}),
		selftest("deleted-row", "FAIL", "one acknowledged row is deleted behind the workload's back;",
			plan.Sign{Check: "rows", Says: "lost a row"}, func(r *rand.Rand) plan.Plan {
				deleted := tamper(plan.Tamper{Kind: "delete-row", Ordinal: r.IntN(2)})
				w := MySQL(2)
				w.FileSystem = "xfs" // The smoke scenario has ext4: so both are shown on a real cluster.
				return Trial(w, Load(150), Checksum("before"),
					Fault("kubelet-kill", r.IntN(2), 2*time.Second, 2*time.Minute), Load(50), Checksum("after"),
					deleted, Load(20))
			}),
		selftest("dropped-table", "FAIL", "the clients' table is dropped and not restored;",
			plan.Sign{Check: "rows", Says: "lost a row"}, func(r *rand.Rand) plan.Plan {
				w, steps := tableDropped(r)
				return Trial(w, steps...)
			}),
		selftest("short-restore", "FAIL", "the clients' table is dropped and restored without the last binary log;",
			plan.Sign{Check: "rows", Says: "lost a row"}, func(r *rand.Rand) plan.Plan {
				w, steps := tableDropped(r, restored(), Load(50))
				return Trial(w, slices.Insert(steps, 4, tamper(plan.Tamper{Kind: "lose-log"}))...)
			}),
		selftest("lost-append", "FAIL", "one acknowledged number is taken out of a list that transactions append "+
			"to;", plan.Sign{Check: "isolation", Says: "lost"}, func(r *rand.Rand) plan.Plan {
			return Trial(transacting(2), Load(150), Checksum("before"),
				Fault("kubelet-kill", r.IntN(2), 2*time.Second, 2*time.Minute), Load(50), Checksum("after"),
				tamper(plan.Tamper{Kind: "lose-append", Ordinal: r.IntN(2)}), Load(20))
		}),
		selftestLost("lose-write", "registers", "found nothing", "a register that was written is deleted"),
		selftestLost("lose-money", "balances", "in all accounts together", "money is taken from an account"),
		selftest("ipv6-open", "UNKNOWN", "a partition leaves IPv6 open and so cuts nothing off;",
			plan.Sign{Check: "coverage", Says: "]:6443 connects"}, func(r *rand.Rand) plan.Plan {
				half := Fault("node-partition", r.IntN(2), 5*time.Second, 3*time.Minute)
				return Trial(MySQL(2), Load(150), Checksum("before"),
					With(half, plan.Params{"families": []string{"ipv4"}}), Load(50), Checksum("after"))
			}),
		selftest("silent-clients", "UNKNOWN", "the clients never reach the database;",
			plan.Sign{Check: "rows", Says: "acknowledged 0 inserts"}, func(r *rand.Rand) plan.Plan {
				w := MySQL(2)
				w.Silent = true
				starved := Load(20)
				starved.Bound = plan.Duration(15 * time.Second) // It never ends before its bound.
				return settling(noneBack,                       // The clients never write again.
					Trial(w, starved, Fault("kubelet-kill", r.IntN(2), 2*time.Second, 2*time.Minute)))
			}),
	}
}

// tableDropped is MySQL with a copy, and steps in which its table is dropped after a backup, followed by others.
func tableDropped(r *rand.Rand, then ...plan.Step) (plan.Workload, []plan.Step) {
	w := MySQL(2)
	w.Replicated, w.VolumeMiB = true, 768 // A clone is put beside what is there before it takes its place.
	return w, append([]plan.Step{Load(100), onPod(plan.ActionBackup, 0, time.Minute), Load(100),
		Fault("kubelet-kill", r.IntN(2), 2*time.Second, 2*time.Minute), Load(50),
		tamper(plan.Tamper{Kind: "drop-table"})}, then...)
}

// restored takes the first instance back to the moment before its table was dropped.
func restored() plan.Step { return onPod(plan.ActionRestore, 0, 3*time.Minute) }

// transacting is MySQL with clients that carry out transactions of each kind.
func transacting(replicas int) plan.Workload {
	w := MySQL(replicas)
	w.Transactions, w.Registers, w.Transfers = 4, 3, 3
	return w
}

func tamper(t plan.Tamper) plan.Step {
	return plan.Step{Do: plan.ActionTamper, Tamper: &t, Bound: plan.Duration(time.Minute)}
}

// selftestLost has an instance lose what transactions wrote.
func selftestLost(kind, check, says, how string) plan.Scenario {
	return selftest(kind, "FAIL", how+" behind the clients' backs;", plan.Sign{Check: check, Says: says},
		func(r *rand.Rand) plan.Plan {
			return Trial(transacting(2), Load(300), Checksum("before"),
				Fault("kubelet-kill", r.IntN(2), 2*time.Second, 2*time.Minute), Load(50), Checksum("after"),
				tamper(plan.Tamper{Kind: kind, Ordinal: r.IntN(2)}), Load(20))
		})
}

// selftestFlush loses the power of databases that acknowledge commits before they are synced.
func selftestFlush(flush int, when string) plan.Scenario {
	return selftest(fmt.Sprintf("power-loss-flush-%d", flush), "FAIL", fmt.Sprintf("power-loss with "+
		"innodb_flush_log_at_trx_commit=%d (%s); rows are lost, and", flush, when),
		plan.Sign{Check: "rows", Says: "lost"}, func(r *rand.Rand) plan.Plan { return losingPower(r, &flush) })
}

// selftestDamage damages a file of a database. The database is restarted before, so that the whole file is on the disk
// and no page of it is in the doublewrite buffer, which would repair it. It is killed after, so that it reads the file
// again.
func selftestDamage(fault, what string) plan.Scenario {
	return selftest(fault, "FAIL", what+" of a database's files;", plan.Sign{Check: "integrity"},
		func(r *rand.Rand) plan.Plan {
			victim := r.IntN(2)
			quiet := plan.Params{"file": "data/seatrial/quiet.ibd"} // Where the pod has its volume.
			return Trial(eitherFileSystem(r, MySQL(2)), Load(100), Checksum("before"),
				Fault("pod-delete", victim, time.Second, 3*time.Minute), Load(40), Checksum("restarted"),
				With(Fault(fault, victim, time.Second, 2*time.Minute), quiet), Load(40),
				Fault("container-kill", victim, time.Second, 2*time.Minute), Load(40))
		})
}

// Profile is the trials of a certificate.
type Profile struct {
	Name, Summary string
	Scenarios     []string // In the order in which they are carried out.
}

// Profiles returns all profiles, the shortest first. Each has what the one before it has.
func Profiles() []Profile {
	quick := []string{"set-scale-light", "set-canary-light", "smoke", "database-trouble", "smoke-disk"}
	standard := slices.Concat(quick, []string{
		"network", "disk-trouble", "control-plane", "power-loss", "overlap", "set-scale", "set-canary", "set-on-delete",
		"set-recreate", "set-retention", "set-min-ready-light", "set-max-unavailable-light", "set-drain-light",
	})
	long := slices.Clone(standard)
	for _, s := range All() {
		own := plan.Make(s, 1).Kubernetes != "" // It needs a cluster of its own.
		if s.Expect == "PASS" && !own && !slices.Contains(long, s.Name) {
			long = append(long, s.Name)
		}
	}
	return []Profile{
		{"quick", "the first trials of a cluster, about 15 min", quick},
		{"standard", "faults of nodes, network, disks, control plane and power under MySQL, about 1 h", standard},
		{"long", "every scenario that a sound cluster passes", long},
	}
}
