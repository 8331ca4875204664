package scenarios

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// setScenario is a scenario of a StatefulSet. Its variants have databases under load or containers that do nothing,
// each without a fault and with each of several faults at a moment that the API watch chooses.
type setScenario struct {
	name    string
	summary string
	light   bool     // No variant has databases: their data would be gone, or they show no more.
	heavy   bool     // Every variant has databases: it is about their data.
	local   bool     // No variant is on disks that are attached: it is about local volumes.
	faults  []string // The faults of its variants; nil is the usual ones.
	build   func(v variant) plan.Plan
}

// setHold is how long a variant's fault is held: on a busy machine, three databases that start leave a fourth no more
// than four operations a second.
const setHold = 2 * time.Second

type variant struct {
	r     *rand.Rand
	light bool
	disk  bool   // On disks that are attached, not on local volumes; all pods on one node, which some steps need.
	fault string // Empty without a fault.
}

func (s setScenario) variants() []plan.Scenario {
	var all []plan.Scenario
	faults := s.faults
	if faults == nil {
		faults = []string{"kubelet-kill", "manager-kill", "node-partition", "node-reboot"}
	}
	for _, light := range []bool{false, true} {
		if light && s.heavy || !light && s.light {
			continue
		}
		for _, fault := range append([]string{""}, faults...) {
			name, summary := s.name, s.summary
			if light {
				name, summary = name+"-light", summary+" Containers that do nothing."
			}
			if fault != "" {
				name, summary = name+"-"+fault, summary+" Meanwhile: "+fault+"."
			}
			all = append(all, plan.Scenario{
				Name: name, Summary: summary,
				Build: func(r *rand.Rand) plan.Plan { return s.build(variant{r: r, light: light, fault: fault}) },
			})
		}
	}
	if !s.heavy && !s.local {
		all = append(all, plan.Scenario{
			Name: s.name + "-disk", Summary: s.summary + " Containers that do nothing, on disks that are attached.",
			Build: func(r *rand.Rand) plan.Plan { return s.build(variant{r: r, light: true, disk: true}) },
		})
	}
	return all
}

func (v variant) workload(replicas int) plan.Workload {
	switch {
	case v.disk:
		w := Light(replicas)
		w.Storage, w.Fencing, w.Pinned = plan.StorageSharedDisk, "single", true
		return w
	case v.light:
		return Light(replicas)
	}
	return MySQL(replicas)
}

// trial is a plan with a load and a checksum before the steps and after them, where there is data.
func (v variant) trial(w plan.Workload, steps ...plan.Step) plan.Plan {
	if v.light {
		return Trial(w, slices.DeleteFunc(steps, func(s plan.Step) bool {
			return s.Do == plan.ActionLoad || s.Do == plan.ActionChecksum
		})...)
	}
	before := []plan.Step{Load(200 + v.r.IntN(50)), Checksum("before")}
	return Trial(w, slices.Concat(before, steps, []plan.Step{Load(60), Checksum("after")})...)
}

// meanwhile is the fault of the variant, if any, at a moment in the life of a pod, on the node of that pod.
func (v variant) meanwhile(moment string, ordinal int) []plan.Step {
	if v.fault == "" {
		return nil
	}
	return append([]plan.Step{Await(moment, ordinal, 2*time.Minute)}, v.hit(ordinal)...)
}

// hit is the fault of the variant, if any, on the node of a pod.
func (v variant) hit(ordinal int) []plan.Step {
	bounds := map[string]time.Duration{"node-partition": 3 * time.Minute, "node-reboot": 4 * time.Minute}
	if v.fault == "" {
		return nil
	}
	return []plan.Step{Fault(v.fault, ordinal, setHold, max(2*time.Minute, bounds[v.fault]))}
}

// either keeps one of two lists of steps, as the seed chooses.
func (v variant) either(first, second []plan.Step) (a, b []plan.Step) {
	if v.r.IntN(2) == 0 {
		return first, nil
	}
	return nil, second
}

// twoNodes allows the fault of the variant while another node is cordoned or gone.
func (v variant) twoNodes(p plan.Plan) plan.Plan {
	if v.fault != "" {
		p.Bounds.MaxNodes = 2
	}
	return p
}

// quiet waits until no pod was created or deleted for 5 to 9 seconds.
func (v variant) quiet() plan.Step { return still(time.Duration(5+v.r.IntN(5)) * time.Second) }

func sets() []setScenario {
	const (
		gone, terminating = plan.AwaitGone, plan.AwaitTerminating
		scheduled, ready  = plan.AwaitScheduled, plan.AwaitReady
		pending           = plan.AwaitPending
	)
	podDelete := func(ordinal int) plan.Step { return Fault("pod-delete", ordinal, time.Second, 2*time.Minute) }
	return []setScenario{
		{
			// Alpha in v1.37: its clusters are made with the gate. In MySQL's case no row may be lost although the
			// pods of all instances are gone at once.
			name: "recreate",
			summary: "With the strategy Recreate no pod of the new revision is made before all of the old one are " +
				"gone; then rolled back.",
			faults: []string{"kubelet-kill", "manager-kill"},
			build: func(v variant) plan.Plan {
				w := v.workload(3 + v.r.IntN(2))
				w.UpdateStrategy = plan.StrategyRecreate
				forth, back := v.either(v.meanwhile(terminating, 2), v.meanwhile(scheduled, 1))
				p := v.trial(w, update("v2", forth...), Load(60), Checksum("updated"),
					rollback(back...))
				p.Kubernetes, p.FeatureGates = minors()[len(minors())-1], []string{plan.RecreateGate}
				return p
			},
		},
		{
			name:    "set-blocked",
			summary: "Scaled down while the first pod cannot be scheduled: nothing is deleted until it is Ready again.",
			build: func(v variant) plan.Plan {
				blocked := []plan.Step{podDelete(0), Await(pending, 0, time.Minute)}
				blocked = append(blocked, v.hit(2)...) // On the node of the pod that is to be deleted first.
				blocked = append(blocked, observed(Scale(1)), v.quiet())
				return v.twoNodes(v.trial(v.workload(3),
					Within("cordon", 0, 10*time.Minute, blocked...), settled(), Load(60), Scale(3)))
			},
		},
		{
			// Without order, a pod that cannot be scheduled keeps no other from being deleted or made.
			name:    "set-burst",
			summary: "Parallel: scaled down while the first pod cannot be scheduled, and up again, all at once.",
			build: func(v variant) plan.Plan {
				w := v.workload(3 + v.r.IntN(2))
				w.Parallel = true
				last := w.Replicas - 1
				down, up := v.either(v.meanwhile(terminating, last), v.meanwhile(scheduled, last))
				return v.twoNodes(v.trial(w,
					Within("cordon", 0, 8*time.Minute,
						podDelete(0),
						Await(pending, 0, time.Minute),
						observed(Scale(1, down...)),
						Await(gone, last, 2*time.Minute),
						Await(gone, 1, 2*time.Minute),
					),
					settled(), Load(60), Checksum("down"), Scale(w.Replicas, up...),
				))
			},
		},
		{
			// The revision is first above all pods, then at the last one, then at all. A pod below the partition that
			// is deleted comes back as it was.
			name: "set-canary",
			summary: "A rolling update behind a partition: no pod, the last one as a canary, all; a pod below it " +
				"deleted on the way; then rolled back.",
			build: func(v variant) plan.Plan {
				w := v.workload(3)
				w.Partition = 3 + v.r.IntN(3)
				canary, back := v.either(v.meanwhile(terminating, 2), v.meanwhile(terminating, 1))
				return v.trial(w,
					update("v2"), still(3*time.Second),
					partition(2, canary...), Load(60), Checksum("canary"),
					podDelete(v.r.IntN(2)), settled(), Load(60), Checksum("deleted"),
					partition(1), partition(0), Load(30), rollback(back...),
				)
			},
		},
		setBinding("set-binding-immediate", "When claims are bound at once, the last pod is Pending while the node "+
			"of its volume is cordoned, although another node has a volume and room.", plan.BindingImmediate),
		setBinding("set-binding-late", "When a claim waits for its pod, the last pod comes up on another node with a "+
			"volume while the node with the smallest is cordoned.", ""),
		{
			// The pods can come back nowhere while the template is edited: the update goes on once the node is
			// schedulable.
			name:    "set-drain",
			summary: "The node of the first pod drained, and the StatefulSet updated meanwhile.",
			light:   true,
			build: func(v variant) plan.Plan {
				down, up := v.either(v.meanwhile(terminating, 2), v.meanwhile(scheduled, 1))
				return v.trial(v.workload(3),
					Within("drain", 0, 6*time.Minute,
						Await(pending, 0, time.Minute), observed(update("second")), v.quiet()),
					settled(), Scale(1, down...), Scale(3, up...),
				)
			},
		},
		{
			name:    "set-max-unavailable", // KEP-961.
			summary: "A rolling update that may have two pods unavailable at once, and no more.",
			build: func(v variant) plan.Plan {
				w := v.workload(4 + v.r.IntN(2))
				w.MaxUnavailable = 2
				return v.trial(w, update("v2", v.meanwhile(terminating, 2+v.r.IntN(2))...))
			},
		},
		{
			name:    "set-min-ready", // An update is the case k8s-136831.
			summary: "With minReadySeconds, scaled up and down: each pod waits until the one before it is available.",
			build: func(v variant) plan.Plan {
				w := v.workload(3)
				w.MinReadySeconds = 4 + v.r.IntN(4)
				down, up := v.either(v.meanwhile(terminating, 2), v.meanwhile(ready, 1))
				return v.trial(w, Scale(1, down...), Load(30), Scale(3, up...))
			},
		},
		setNodeGone("set-node-gone", "is cloned from the first instance and caught up by GTID", plan.ActionRecover),
		setNodeGone("set-node-gone-backup", "is restored from a backup, catches up by GTID and goes on following the "+
			"first instance", plan.ActionRestore),
		{
			name: "set-on-delete",
			summary: "With the strategy OnDelete a new revision replaces no pod; one that is deleted comes back " +
				"with it.",
			build: func(v variant) plan.Plan {
				w := v.workload(3)
				w.UpdateStrategy = plan.StrategyOnDelete
				victim := v.r.IntN(3)
				return v.trial(w,
					update("v2"), still(5*time.Second), Load(60),
					Within("pod-delete", victim, 6*time.Minute, v.meanwhile(scheduled, victim)...),
					Await(plan.AwaitUpdated, victim, 2*time.Minute), settled(), Load(60),
					Scale(2), Load(30), Scale(3),
				)
			},
		},
		{
			name: "set-recreate",
			summary: "The StatefulSet deleted and made again: without its pods, which are adopted, and with them, " +
				"which come back on their volumes.",
			build: func(v variant) plan.Plan {
				cascade := []string{plan.CascadeBackground, plan.CascadeForeground}[v.r.IntN(2)]
				down, back := v.either(v.meanwhile(terminating, 1), v.meanwhile(scheduled, 1))
				return v.trial(v.workload(3),
					deleteSet(plan.CascadeOrphan), Load(30), createSet(), Load(30),
					deleteSet(cascade, down...), createSet(back...),
				)
			},
		},
		setRetention("set-retention", "kept", "", ""),
		setRetention("set-retention-deleted", "deleted with it and kept when it is scaled down", plan.PolicyDelete, ""),
		setRetention("set-retention-scaled", "deleted when it is scaled down and kept when it is deleted", "",
			plan.PolicyDelete),
		setRetention("set-retention-delete", "deleted with it and when it is scaled down", plan.PolicyDelete,
			plan.PolicyDelete),
		{
			// The article's ng-0 fails while ng-2 is wanted.
			name: "set-scale-blocked",
			summary: "Scaled up while the first pod cannot be scheduled: the next pod is not made until that one is " +
				"Ready again, and is made then.",
			build: func(v variant) plan.Plan {
				blocked := []plan.Step{podDelete(0), Await(pending, 0, time.Minute)}
				blocked = append(blocked, v.hit(1)...)
				blocked = append(blocked, observed(Scale(3)), v.quiet())
				return v.twoNodes(v.trial(v.workload(3), Scale(2), Load(30), Checksum("fewer"),
					Within("cordon", 0, 10*time.Minute, blocked...), settled()))
			},
		},
		{
			// Down in reverse order, each pod once those above it are gone; up in order, each once those before it are
			// Ready.
			name:    "set-scale",
			summary: "Scaled from 3 pods, or 4, to 1 and back, in order.",
			build: func(v variant) plan.Plan {
				most := 3 + v.r.IntN(2)
				down, up := v.either(v.meanwhile(terminating, most-1), v.meanwhile(scheduled, 1))
				return v.trial(v.workload(most), Scale(1, down...), Load(30), Scale(most, up...))
			},
		},
		{
			// A volume whose claim is gone is given to no other claim, not even one of the same name, until it is
			// recycled.
			name: "set-storage-full",
			summary: "Scaled up when every local volume is taken: the pod is Pending although the nodes have room, " +
				"until a volume is recycled.",
			light: true, local: true, faults: []string{},
			build: func(v variant) plan.Plan {
				w := v.workload(3)
				w.WhenScaled, w.LocalVolumes = plan.PolicyDelete, [][]int{{w.VolumeMiB, w.VolumeMiB}, {w.VolumeMiB}}
				fewer := 1 + v.r.IntN(2)
				return v.trial(w, Scale(fewer), observed(Scale(3)), Await(pending, fewer, time.Minute), v.quiet(),
					recycle(), settled())
			},
		},
		{
			name:    "set-start", // KEP-3335.
			summary: "Scaled and updated with ordinals that do not begin at 0.",
			light:   true,
			build: func(v variant) plan.Plan {
				w := v.workload(3)
				w.Start = 2 + v.r.IntN(8)
				scaled, updated := v.either(v.meanwhile(scheduled, w.Start+1), v.meanwhile(terminating, w.Start+2))
				return v.trial(w, Scale(1), Scale(3, scaled...), update("v2", updated...))
			},
		},
	}
}

// setBinding scales a StatefulSet up while the node of its first pod is cordoned. The volumes of the first worker are
// the smallest that fit: who looks at volumes alone takes those.
func setBinding(name, summary, mode string) setScenario {
	return setScenario{
		name: name, summary: summary, light: true, local: true, faults: []string{},
		build: func(v variant) plan.Plan {
			w := v.workload(2)
			w.Binding, w.WhenScaled = mode, plan.PolicyDelete // A claim of its own for each pod that is made.
			w.LocalVolumes = [][]int{slices.Repeat([]int{w.VolumeMiB}, 3), slices.Repeat([]int{2 * w.VolumeMiB}, 3)}
			cordoned := []plan.Step{Scale(2), v.quiet()}
			if mode == plan.BindingImmediate {
				cordoned = []plan.Step{observed(Scale(2)), Await(plan.AwaitPending, 1, time.Minute), v.quiet()}
			}
			return v.trial(w, Scale(1), Within("cordon", 0, 10*time.Minute, cordoned...), settled())
		},
	}
}

// setRetention keeps or deletes claims, as the policy of the StatefulSet says (KEP-1847).
func setRetention(name, said, whenDeleted, whenScaled string) setScenario {
	return setScenario{
		name:    name,
		summary: "The StatefulSet scaled down, deleted and made again; its claims are " + said + ".",
		light:   said != "kept", // Databases would begin with nothing.
		build: func(v variant) plan.Plan {
			w := v.workload(3)
			w.WhenDeleted, w.WhenScaled = whenDeleted, whenScaled
			cascade := []string{plan.CascadeBackground, plan.CascadeForeground}[v.r.IntN(2)]
			last := 2 // A volume is claimed once, and each worker has 3.
			if said == "kept" {
				last = 3 // The claims of all are kept, and what was written to each is read back.
			}
			return v.trial(w,
				Scale(1, v.meanwhile(plan.AwaitTerminating, 1)...), Load(20),
				deleteSet(cascade), createSet(), Load(20), Scale(last),
			)
		},
	}
}

// setNodeGone loses the node of a replica for good. How it gets its data back is the step that recovers it. The
// out-of-service taint says that the node will not come back (KEP-2268): the new pod stays Pending, since its claim is
// bound to a volume of that node. Once the claim is deleted, the next one is bound on another node. The node is started
// in the end for the next trial, and brings nothing back.
func setNodeGone(name, how string, recovers plan.Action) setScenario {
	return setScenario{
		name: name,
		summary: "The node of a replica on a local volume is gone for good: its pod is Pending until its claim is " +
			"deleted, comes up empty on another node, and " + how + ".",
		heavy:  true,
		faults: []string{"kubelet-kill", "manager-kill"}, // There is one worker left, which has to stay.
		build: func(v variant) plan.Plan {
			const lost = 1
			w := v.workload(2)
			w.Replicated, w.VolumeMiB = true, 768 // A clone is put beside what is there before it takes its place.
			during := []plan.Step{
				Await(plan.AwaitPending, lost, 3*time.Minute), v.quiet(), deleteClaim(lost),
			}
			if v.fault != "" {
				during = append(during, Await(plan.AwaitScheduled, lost, 2*time.Minute),
					Fault(v.fault, 0, setHold, 2*time.Minute))
			}
			during = append(during, Await(plan.AwaitMoved, lost, 3*time.Minute),
				// A database of this size is copied within seconds.
				onPod(recovers, lost, 2*time.Minute), Load(50))
			steps := []plan.Step{Within("node-stop", lost, 18*time.Minute,
				Await(plan.AwaitNotReady, lost, 3*time.Minute),
				Within("out-of-service", lost, 12*time.Minute, during...))}
			if recovers == plan.ActionRestore {
				steps = append([]plan.Step{Load(30), onPod(plan.ActionBackup, 0, time.Minute), Load(30)}, steps...)
			}
			p := v.trial(w, steps...)
			p.Bounds.MaxNodes = 2 // The other worker's kubelet may be killed while one is gone.
			return p
		},
	}
}
