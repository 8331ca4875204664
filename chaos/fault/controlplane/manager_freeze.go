package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// ManagerFreeze returns the fault that freezes the kube-controller-manager. It goes on later with all that it knew then
// and with a lease that may be over: it must not act on either.
//
// What: a mark on the node that says which process, and SIGSTOP to it, for every kube-controller-manager on the nodes
// of the control plane, whichever node the plan names.
//
// Shown: the kernel says that the process is stopped (state T), nothing answers at its health endpoint, on IPv4 and on
// IPv6 where it did before, and its lease is not renewed, while the API server answers. At the end of the hold it is
// stopped still.
//
// Healed: SIGCONT to the process of the mark, if it is still the same; a timer on the node does it when nobody heals
// it. It, or a later one that the kubelet has started, tells that it is well, and its lease is renewed twice after
// that: it leads.
func ManagerFreeze() fault.Definition {
	return freezing(theManager(), fault.Definition{
		Name:    "manager-freeze",
		Summary: "Freezes the kube-controller-manager with SIGSTOP for the hold, whatever the victim.",
		// One that did not go on to lead when the API server answered again.
		Upstream: "k/k#107678",
	})
}
