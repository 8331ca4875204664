package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// EtcdFreeze returns the fault that freezes etcd. The API server takes requests and cannot carry them out: reads and
// writes hang, leases run out, and nothing is refused.
//
// What: a mark on the node that says which process, and SIGSTOP to it, for every etcd on the nodes of the control
// plane, whichever node the plan names.
//
// Shown: the kernel says that the process is stopped (state T), nothing answers at its health endpoint, on IPv4 and on
// IPv6 where it did before, and a request of the harness to the API server is not answered within 3 s. At the end of
// the hold it is stopped still.
//
// Healed: SIGCONT to the process of the mark, if it is still the same; a timer on the node does it when nobody heals
// it. It, or a later one that the kubelet has started, tells that it is well, and the API server answers, the
// kube-controller-manager and the kube-scheduler renew their leases twice after that, and the kubelet of the victim's
// node renews its lease.
func EtcdFreeze() fault.Definition {
	return freezing(theEtcd(), fault.Definition{
		Name:    "etcd-freeze",
		Summary: "Freezes etcd with SIGSTOP for the hold, whatever the victim.",
		// Machines of etcd were suspended, and the whole control plane hung.
		Upstream: "k/k#5589",
	})
}
