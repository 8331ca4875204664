package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// SchedulerFreeze returns the fault that freezes the kube-scheduler. It goes on later with its view of the cluster of
// then, and with a lease that may be over.
//
// What: a mark on the node that says which process, and SIGSTOP to it, for every kube-scheduler on the nodes of the
// control plane, whichever node the plan names.
//
// Shown: the kernel says that the process is stopped (state T), nothing answers at its health endpoint, on IPv4 and on
// IPv6 where it did before, and its lease is not renewed, while the API server answers. At the end of the hold it is
// stopped still.
//
// Healed: SIGCONT to the process of the mark, if it is still the same; a timer on the node does it when nobody heals
// it. It, or a later one that the kubelet has started, tells that it is well, and its lease is renewed twice after
// that: it leads.
func SchedulerFreeze() fault.Definition {
	return freezing(theScheduler(), fault.Definition{
		Name:    "scheduler-freeze",
		Summary: "Freezes the kube-scheduler with SIGSTOP for the hold, whatever the victim.",
		// A binding that was given up half-way, and a pod that could not be bound again.
		Upstream: "k/k#101877",
	})
}
