package draft

import (
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
)

// MySQL is the workload of all scenarios so far: small volumes, so that three fit on any machine, and an operation
// every 50 ms for each client, which two cores carry beside a cluster without becoming the bottleneck.
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

// Bounds are what a machine with two cores keeps, with room for a bad day.
func Bounds() plan.Bounds {
	return plan.Bounds{
		Ready:     plan.Duration(3 * time.Minute),
		Settle:    plan.Duration(2 * time.Minute),
		BlindGap:  plan.Duration(5 * time.Second),
		MinOps:    50,
		MinAround: 5,
	}
}

// Load lets the clients write until so many more inserts are acknowledged.
func Load(commits int) plan.Step {
	return plan.Step{Do: plan.ActionLoad, Commits: commits, Bound: plan.Duration(2 * time.Minute)}
}

// Checksum takes the checksums of the quiet tables.
func Checksum(label string) plan.Step {
	return plan.Step{Do: plan.ActionChecksum, Label: label, Bound: plan.Duration(2 * time.Minute)}
}

// Read reads every row back.
func Read() plan.Step { return plan.Step{Do: plan.ActionRead, Bound: plan.Duration(2 * time.Minute)} }

// Scale sets the replicas of the StatefulSet.
func Scale(replicas int) plan.Step {
	return plan.Step{Do: plan.ActionScale, Replicas: &replicas, Bound: plan.Duration(3 * time.Minute)}
}

// Fault is a fault on the node of an ordinal, held for a time, with address families for those that have them.
func Fault(name string, ordinal int, hold, bound time.Duration, families ...string) plan.Step {
	f := &plan.Fault{Name: name, Ordinal: ordinal, Hold: plan.Duration(hold)}
	if len(families) > 0 {
		f.Params = plan.Params{"families": families}
	}
	return plan.Step{Do: plan.ActionFault, Fault: f, Bound: plan.Duration(bound)}
}

// Disk is MySQL on shared disks with a fencing, see plan.Workload.
func Disk(replicas int, fencing string) plan.Workload {
	w := MySQL(replicas)
	w.Storage, w.Fencing = plan.StorageSharedDisk, fencing
	return w
}

// Within is a fault during which steps are carried out, once its effect was shown.
func Within(name string, ordinal int, bound time.Duration, during ...plan.Step) plan.Step {
	s := Fault(name, ordinal, time.Second, bound)
	s.Fault.During = during
	return s
}

// Provoked is a fault whose act waits on the node of an ordinal until a CSI call for its volume begins, which the steps
// bring about.
func Provoked(name, rpc string, ordinal int, bound time.Duration, provoke ...plan.Step) plan.Step {
	s := Fault(name, ordinal, time.Second, bound)
	s.Fault.When = &plan.Await{For: plan.AwaitCSIBegin, RPC: rpc, Ordinal: ordinal}
	s.Fault.Provoke = provoke
	return s
}

// CSIPoint is a fault point of the CSI driver during which steps are carried out.
func CSIPoint(call plan.Params, ordinal int, bound time.Duration, during ...plan.Step) plan.Step {
	s := Within("csi-point", ordinal, bound, during...)
	s.Fault.Params = plan.Params{"csi": call}
	return s
}

// Await waits for something that concerns an ordinal, see plan.Awaits.
func Await(what string, ordinal int, bound time.Duration) plan.Step {
	a := &plan.Await{For: what, Ordinal: ordinal}
	return plan.Step{Do: plan.ActionAwait, Await: a, Bound: plan.Duration(bound)}
}

// AwaitCall waits for the begin or the end of a CSI call for the volume of an ordinal.
func AwaitCall(what, rpc string, ordinal int, bound time.Duration) plan.Step {
	s := Await(what, ordinal, bound)
	s.Await.RPC = rpc
	return s
}
