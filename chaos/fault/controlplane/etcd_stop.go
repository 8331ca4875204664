package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// EtcdStop returns the fault that takes etcd away for a time. The API server can read nothing and write nothing, and
// the kubelet may start it again and again.
//
// What: the manifest of the static pod is replaced, at once, by one of a pod of the same name that runs nothing, on
// every node of the control plane, whichever node the plan names; it is kept with a mark of ours, and the kubelet ends
// the pod.
//
// Shown: no process and no running container of it is there, nothing answers at its health endpoint, on IPv4 and on
// IPv6 where it did before, and a request of the harness to the API server is not answered within 3 s. At the end of
// the hold there still is none.
//
// Healed: the manifest that bears our mark is put back, byte for byte and at once; a timer on the node does it when
// nobody heals it. The kubelet starts it: it tells that it is well, and the API server answers, the
// kube-controller-manager and the kube-scheduler renew their leases twice after that, and the kubelet of the victim's
// node renews its lease.
func EtcdStop() fault.Definition {
	return stopping(theEtcd(), fault.Definition{
		Name:    "etcd-stop",
		Summary: "Takes etcd away for the hold by its manifest, whatever the victim.",
		// Scheduler and controllers ended with it, and nobody started them again.
		Upstream: "k/k#28350",
	})
}
