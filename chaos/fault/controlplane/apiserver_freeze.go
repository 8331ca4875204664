package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// APIServerFreeze returns the fault that freezes the kube-apiserver. Connections stay open and nothing is answered,
// which takes a client longer to find out than a refusal. Kubelets cannot renew their leases.
//
// What: a mark on the node that says which process, and SIGSTOP to it, for every kube-apiserver on the nodes of the
// control plane, whichever node the plan names.
//
// Shown: the kernel says that the process is stopped (state T), nothing answers at its health endpoint, on IPv4 and on
// IPv6 where it did before, and a request of the harness to the API server is not answered within 3 s. At the end of
// the hold it is stopped still.
//
// Healed: SIGCONT to the process of the mark, if it is still the same; a timer on the node does it when nobody heals
// it. It, or a later one that the kubelet has started, tells that it is well, and the API server answers, the
// kube-controller-manager and the kube-scheduler renew their leases twice after that, and the kubelet of the victim's
// node renews its lease.
func APIServerFreeze() fault.Definition {
	return freezing(theAPIServer(), fault.Definition{
		Name:    "apiserver-freeze",
		Summary: "Freezes the kube-apiserver with SIGSTOP for the hold, whatever the victim.",
		// What was read of a server that lags behind is taken for the truth.
		Upstream: "k/k#59848",
	})
}
