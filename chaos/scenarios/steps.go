package scenarios

import (
	"math/rand/v2"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// MySQL is a StatefulSet of databases on small volumes, so that three fit on any machine. Two clients with an operation
// every 50 ms do not make two cores the bottleneck.
func MySQL(replicas int) plan.Workload {
	return plan.Workload{
		Name:        "ledger",
		StatefulSet: "mysql",
		Replicas:    replicas,
		FileSystem:  "ext4",
		VolumeMiB:   512,
		Clients:     2,
		Interval:    plan.Duration(50 * time.Millisecond),
		QuietRows:   1000,
	}
}

// Disk is MySQL on shared disks with a fencing, see plan.Workload.
func Disk(replicas int, fencing string) plan.Workload {
	w := MySQL(replicas)
	w.Storage, w.Fencing = plan.StorageSharedDisk, fencing
	return w
}

// Light is a StatefulSet of containers that do nothing, on volumes of 16 MiB.
func Light(replicas int) plan.Workload {
	return plan.Workload{
		Name: plan.LightName, StatefulSet: plan.LightName, Light: true, Replicas: replicas, FileSystem: "ext4",
		VolumeMiB: 16,
	}
}

// Trial is a plan on two workers, with bounds that a machine with two cores keeps.
func Trial(w plan.Workload, steps ...plan.Step) plan.Plan {
	b := plan.Bounds{
		Ready:     plan.Duration(3 * time.Minute),
		Settle:    plan.Duration(2 * time.Minute),
		BlindGap:  plan.Duration(5 * time.Second),
		MinOps:    50,
		MinAround: 5,
	}
	if w.Light {
		b.MinOps, b.MinAround = 0, 0
	}
	return plan.Plan{Workers: 2, Workload: w, Bounds: b, Steps: steps}
}

// Example is a small plan whose only step is a fault.
func Example(f plan.FaultCaps, params plan.Params) plan.Plan {
	w := MySQL(2)
	if f.Storage == plan.StorageSharedDisk {
		w = Disk(2, "single")
	}
	step := With(Fault(f.Name, 0, 10*time.Second, 5*time.Minute), params)
	return plan.Make(plan.Scenario{Name: "example", Build: func(*rand.Rand) plan.Plan { return Trial(w, step) }}, 1)
}

// Load lets the clients write until so many more inserts are acknowledged.
func Load(commits int) plan.Step {
	return plan.Step{Do: plan.ActionLoad, Commits: commits, Bound: plan.Duration(2 * time.Minute)}
}

// Checksum takes the checksums of the quiet tables.
func Checksum(label string) plan.Step {
	return plan.Step{Do: plan.ActionChecksum, Label: label, Bound: plan.Duration(2 * time.Minute)}
}

func readBack() plan.Step {
	return plan.Step{Do: plan.ActionRead, Bound: plan.Duration(2 * time.Minute)}
}

// Fault is a fault on the node of an ordinal, held for a time.
func Fault(name string, ordinal int, hold, bound time.Duration) plan.Step {
	f := &plan.Fault{Name: name, Ordinal: ordinal, Hold: plan.Duration(hold)}
	return plan.Step{Do: plan.ActionFault, Fault: f, Bound: plan.Duration(bound)}
}

// With is a fault with parameters.
func With(s plan.Step, params plan.Params) plan.Step {
	s.Fault.Params = params
	return s
}

// Within is a fault with steps during it.
func Within(name string, ordinal int, bound time.Duration, during ...plan.Step) plan.Step {
	s := Fault(name, ordinal, time.Second, bound)
	s.Fault.During = during
	return s
}

// CSIPoint is a fault point of the CSI driver with steps during it.
func CSIPoint(call plan.Params, ordinal int, bound time.Duration, during ...plan.Step) plan.Step {
	return With(Within("csi-point", ordinal, bound, during...), plan.Params{"csi": call})
}

// rejected has the API server fail a client's requests; an empty one is the kubelet of the ordinal's node.
func rejected(client string, ordinal int, bound time.Duration, resources, verbs []string, during ...plan.Step,
) plan.Step {
	params := plan.Params{"resources": resources, "verbs": verbs}
	if client != "" {
		params["of"] = client
	}
	return With(Within("api-reject", ordinal, bound, during...), params)
}

// claimsUnread has the API server fail what a node's kubelet asks about claims.
func claimsUnread(ordinal int, bound time.Duration, during ...plan.Step) plan.Step {
	return rejected("", ordinal, bound, []string{"persistentvolumeclaims"}, []string{"get"}, during...)
}

// onPod is a step about a pod, its claim or its data.
func onPod(do plan.Action, ordinal int, bound time.Duration) plan.Step {
	return plan.Step{Do: do, Ordinal: &ordinal, Bound: plan.Duration(bound)}
}

// deletePod deletes a pod, whether or not another can come.
func deletePod(ordinal int) plan.Step { return onPod(plan.ActionDeletePod, ordinal, time.Minute) }

func deleteClaim(ordinal int) plan.Step { return onPod(plan.ActionDeleteClaim, ordinal, time.Minute) }

// Await waits for something that concerns an ordinal, see plan.Awaits.
func Await(what string, ordinal int, bound time.Duration) plan.Step {
	a := &plan.Await{For: what, Ordinal: ordinal}
	return plan.Step{Do: plan.ActionAwait, Await: a, Bound: plan.Duration(bound)}
}

// awaitCSI waits until a call of the driver has begun or ended, see plan.AwaitCSIBegin and plan.AwaitCSIEnd.
func awaitCSI(moment, rpc string, ordinal int, bound time.Duration) plan.Step {
	s := Await(moment, ordinal, bound)
	s.Await.RPC = rpc
	return s
}

// writes waits until the first instance acknowledges an insert, from now on.
func writes() plan.Step {
	s := Await(plan.AwaitWrites, 0, time.Minute)
	s.Await.Since = plan.SinceStep
	return s
}

// unready waits until the pod of an ordinal is started and not Ready, from now on.
func unready(ordinal int) plan.Step {
	s := Await(plan.AwaitUnready, ordinal, time.Minute)
	s.Await.Since = plan.SinceStep
	return s
}

// settled waits until the StatefulSet is as last requested.
func settled() plan.Step { return Await(plan.AwaitSettled, 0, changeBound) }

// still waits until no pod was created, deleted or asked to end for so long.
func still(lasting time.Duration) plan.Step {
	s := Await(plan.AwaitStill, 0, lasting+time.Minute)
	s.Await.Lasting = plan.Duration(lasting)
	return s
}

// changeBound is what a change of a StatefulSet of three databases keeps on a loaded machine, with a fault in it.
const changeBound = 5 * time.Minute

func change(s plan.Step, during []plan.Step) plan.Step {
	s.During, s.Bound = during, plan.Duration(changeBound)
	return s
}

// Scale sets the replicas of the StatefulSet, with steps during the change.
func Scale(replicas int, during ...plan.Step) plan.Step {
	return change(plan.Step{Do: plan.ActionScale, Replicas: &replicas}, during)
}

// update gives the pod template a revision.
func update(revision string, during ...plan.Step) plan.Step {
	return change(plan.Step{Do: plan.ActionUpdate, Update: &plan.Update{Revision: revision}}, during)
}

func partition(partition int, during ...plan.Step) plan.Step {
	return change(plan.Step{Do: plan.ActionPartition, Partition: &partition}, during)
}

func rollback(during ...plan.Step) plan.Step {
	return change(plan.Step{Do: plan.ActionRollback, Revision: plan.RevisionFirst}, during)
}

// recycle empties the local volumes whose claims are gone and makes them available.
func recycle() plan.Step {
	return plan.Step{Do: plan.ActionRecycle, Bound: plan.Duration(time.Minute)}
}

func deleteSet(cascade string, during ...plan.Step) plan.Step {
	return change(plan.Step{Do: plan.ActionDeleteSet, Cascade: cascade}, during)
}

func createSet(during ...plan.Step) plan.Step {
	return change(plan.Step{Do: plan.ActionCreateSet}, during)
}

// observed makes a change not wait until the StatefulSet has settled.
func observed(s plan.Step) plan.Step {
	s.Wait = plan.WaitObserved
	return s
}

// each makes one step for each ordinal below n.
func each(n int, step func(ordinal int) plan.Step) []plan.Step {
	steps := make([]plan.Step, n)
	for i := range steps {
		steps[i] = step(i)
	}
	return steps
}
