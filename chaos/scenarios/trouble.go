package scenarios

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// troubles are scenarios of faults that hurt the databases for a moment at most. With them every fault that kind
// clusters can carry out on every kernel meets MySQL under load.
func troubles() []plan.Scenario {
	const replicas = 2
	return []plan.Scenario{
		{
			Name: "control-plane-trouble",
			Summary: "API server and etcd killed, etcd stopped, controller manager and scheduler frozen, scheduler " +
				"stopped, one after another, MySQL under load; then scale 2 to 1 to 2.",
			Build: func(r *rand.Rand) plan.Plan {
				return Trial(MySQL(replicas), inTurn(r,
					Fault("apiserver-kill", 0, 3*time.Second, 5*time.Minute),
					Fault("etcd-kill", 0, 3*time.Second, 5*time.Minute),
					Fault("etcd-stop", 0, 10*time.Second, 5*time.Minute),
					Fault("manager-freeze", 0, 10*time.Second, 5*time.Minute),
					Fault("scheduler-freeze", 0, 10*time.Second, 5*time.Minute),
					Fault("scheduler-stop", 0, 10*time.Second, 5*time.Minute),
				)...)
			},
		},
		{
			Name: "node-trouble",
			Summary: "kubelet frozen, containerd stopped, kube-proxy killed, a pod cut off from DNS, a node cut off " +
				"from the other, from everything, paused, crashed, one after another, MySQL under load; then scale 2 " +
				"to 1 to 2.",
			Build: func(r *rand.Rand) plan.Plan {
				isolated := r.IntN(replicas)
				faults := slices.Concat(nodeTroubles(r, replicas), []plan.Step{
					Fault("kube-proxy-kill", r.IntN(replicas), 3*time.Second, 3*time.Minute),
					Fault("dns-block", r.IntN(replicas), 10*time.Second, 3*time.Minute),
					Fault("node-dark", r.IntN(replicas), 5*time.Second, 4*time.Minute),
					With(Fault("node-isolate", isolated, 10*time.Second, 3*time.Minute),
						plan.Params{"peer": (isolated + 1) % replicas}),
				})
				return Trial(MySQL(replicas), inTurn(r, faults...)...)
			},
		},
		{
			// A node that comes back must find its volumes attached to it, and mount them again in order.
			Name: "node-trouble-disk",
			Summary: "kubelet frozen, containerd stopped, the node paused and crashed, one after another, MySQL on " +
				"disks that could move; none may move, and each is staged and published in order again.",
			Build: func(r *rand.Rand) plan.Plan {
				steps := inTurn(r, nodeTroubles(r, replicas)...)
				return Trial(eitherFileSystem(r, Disk(replicas, "single")), steps...)
			},
		},
		{
			// The kubelet's volume manager runs beside its main loop, so that a slow mount holds up its own pod alone.
			Name: "slow-mount",
			Summary: "All MySQL instances of a node are deleted, and the stage of one's disk hangs for a minute: the " +
				"others are Ready and take writes meanwhile, and that one is after it.",
			Build: func(r *rand.Rand) plan.Plan {
				const replicas = 3
				w := Disk(replicas, "single")
				w.Pinned, w.Parallel = true, true
				slow := r.IntN(replicas)
				during := append(each(replicas, deletePod),
					awaitCSI(plan.AwaitCSIBegin, "NodeStageVolume", slow, time.Minute))
				for i := range replicas {
					if i != slow {
						during = append(during, Await(plan.AwaitReady, i, time.Minute))
					}
				}
				hold := CSIPoint(plan.Params{"rpc": "NodeStageVolume", "act": "hold"}, slow, 8*time.Minute,
					append(during, Load(60))...)
				hold.Fault.Hold = plan.Duration(time.Minute)
				return Trial(eitherFileSystem(r, w), Load(100), Checksum("before"), hold, Load(60), readBack(),
					Checksum("after"))
			},
		},
		{
			// The provisioner gives the claim back (rescheduling, CSI spec on CreateVolume and RESOURCE_EXHAUSTED), and
			// the scheduler's bind fails after it has chosen a node.
			Name: "bind-fails",
			Summary: "A StatefulSet is scaled up while no disk can be made: a node is chosen, the claim is not " +
				"bound, the scheduler begins anew, again and again; the pod comes up after it.",
			Build: func(r *rand.Rand) plan.Plan {
				w := Light(replicas + 1)
				w.Storage, w.Fencing, w.WhenScaled = plan.StorageSharedDisk, "single", plan.PolicyDelete
				call := plan.Params{"rpc": "CreateVolume", "act": "fail", "code": "ResourceExhausted", "every": true}
				full := CSIPoint(call, r.IntN(replicas), 6*time.Minute, observed(Scale(replicas+1)),
					Await(plan.AwaitCreated, replicas, time.Minute), still(30*time.Second))
				return Trial(w, Scale(replicas, Await(plan.AwaitClaimGone, replicas, time.Minute)), full, settled())
			},
		},
		{
			// The scheduler writes the node that it chose into the claim before it binds the pod.
			Name: "bind-refused",
			Summary: "A StatefulSet is scaled up while the API server takes no claim from the scheduler: the pod " +
				"stays Pending, again and again; it comes up after it.",
			Build: bindRefused(replicas, "scheduler"),
		},
		{
			// The PV controller asks for a volume by an annotation of the claim, and binds the claim to it.
			Name: "bind-unasked",
			Summary: "A StatefulSet is scaled up while the API server takes no claim from the PV controller: the pod " +
				"stays Pending; it comes up after it.",
			Build: bindRefused(replicas, "persistent-volume-binder"),
		},
		{
			// CSI topology: the volume's node affinity names the zone that it was made in.
			Name: "zone-down",
			Summary: "The only worker of a zone is switched off: the MySQL instance whose disk is there is Pending " +
				"although the other zone has room, and comes back with its node and every row.",
			Build: func(r *rand.Rand) plan.Plan {
				w, lost := Disk(replicas, "single"), r.IntN(replicas)
				w.Zones = 2
				down := Within("node-stop", lost, 12*time.Minute, Await(plan.AwaitNotReady, lost, 3*time.Minute),
					Within("out-of-service", lost, 6*time.Minute, Await(plan.AwaitPending, lost, 2*time.Minute),
						still(30*time.Second), Load(40)))
				return Trial(eitherFileSystem(r, w), Load(100), Checksum("before"), down, Load(60), readBack(),
					Checksum("after"))
			},
		},
		{
			// The node is well, and the API server does not take what its kubelet says. So volumesInUse stays as it
			// was, and what the kubelet has unmounted waits six minutes until it is detached.
			Name: "heartbeats-lost",
			Summary: "The API server takes no lease and no status from a node that is well: the node is not Ready, " +
				"its pod is evicted, its kubelet ends it and unmounts its volume, which is detached six minutes later.",
			Build: func(r *rand.Rand) plan.Plan {
				w, lost := Disk(replicas, "single"), r.IntN(replicas)
				w.EvictAfter = plan.Duration(30 * time.Second)
				unheard := rejected("", lost, 20*time.Minute, []string{"leases", "nodes/status"},
					[]string{"patch", "update"}, Await(plan.AwaitNotReady, lost, 3*time.Minute),
					Await(plan.AwaitMoved, lost, 12*time.Minute), Load(60), Checksum("moved"))
				return Trial(w, Load(100), Checksum("before"), unheard, Load(60), readBack(), Checksum("after"))
			},
		},
		{
			Name: "node-overloaded",
			Summary: "The kubelet of a node with MySQL is short of processor time until its heartbeats are lost, and " +
				"then has it again: its pods go on.",
			Build: func(r *rand.Rand) plan.Plan {
				w, slow := MySQL(replicas), r.IntN(replicas)
				return Trial(w, Load(100), Checksum("before"), Within("kubelet-starve", slow, 8*time.Minute,
					Await(plan.AwaitNotReady, slow, 5*time.Minute), Load(60)), Load(60), readBack(), Checksum("after"))
			},
		},
		{
			// The claim goes when its pod goes, and with it the way back to its rows: so its deletion comes last.
			Name: "object-trouble",
			Summary: "A node is drained, a quota keeps a deleted pod from coming back for a while, the API server " +
				"fails what a node's kubelet asks about claims while a pod comes back there, and a claim is " +
				"deleted under its MySQL instance: claim and volume stay while the instance writes.",
			Build: func(r *rand.Rand) plan.Plan {
				missing, blind := r.IntN(replicas), r.IntN(replicas)
				unread := claimsUnread(blind, 10*time.Minute, deletePod(blind),
					Await(plan.AwaitScheduled, blind, time.Minute), Load(40))
				return Trial(MySQL(replicas), Load(100), Checksum("before"),
					Fault("drain", r.IntN(replicas), 10*time.Second, 5*time.Minute), Load(60), Checksum("after"),
					Within("pod-quota", missing, 5*time.Minute, deletePod(missing),
						Await(plan.AwaitGone, missing, time.Minute), Load(40)),
					Load(60), Checksum("after"), unread, Load(60), Checksum("after"),
					Fault("claim-delete", r.IntN(replicas), 10*time.Second, 3*time.Minute), Load(60), readBack(),
					Checksum("settled"))
			},
		},
	}
}

// nodeTroubles take a node or what runs its pods away for less than the grace of its lease.
func nodeTroubles(r *rand.Rand, replicas int) []plan.Step {
	return []plan.Step{
		Fault("kubelet-freeze", r.IntN(replicas), 10*time.Second, 3*time.Minute),
		Fault("runtime-stop", r.IntN(replicas), 10*time.Second, 3*time.Minute),
		Fault("node-pause", r.IntN(replicas), 10*time.Second, 4*time.Minute),
		Fault("node-crash", r.IntN(replicas), 5*time.Second, 5*time.Minute),
	}
}

// bindRefused scales up a StatefulSet while the API server takes no claim from a client.
func bindRefused(replicas int, client string) func(*rand.Rand) plan.Plan {
	return func(r *rand.Rand) plan.Plan {
		w := Light(replicas + 1)
		w.Storage, w.Fencing, w.WhenScaled = plan.StorageSharedDisk, "single", plan.PolicyDelete
		refused := rejected(client, r.IntN(replicas), 8*time.Minute, []string{"persistentvolumeclaims"},
			[]string{"patch", "update"}, observed(Scale(replicas+1)),
			Await(plan.AwaitCreated, replicas, time.Minute), still(30*time.Second))
		return Trial(w, Scale(replicas, Await(plan.AwaitClaimGone, replicas, time.Minute)), refused, settled())
	}
}
