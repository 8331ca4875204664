package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// APIServerStop returns the fault that takes the kube-apiserver away for a time. Whatever runs goes on and nothing can
// be changed; nobody can renew a lease, and the controllers end themselves because of that.
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
func APIServerStop() fault.Definition {
	return stopping(theAPIServer(), fault.Definition{
		Name:    "apiserver-stop",
		Summary: "Takes the kube-apiserver away for the hold by its manifest, whatever the victim.",
		// Pods with volumes must get over it; its manifest is moved away and back.
		Upstream: "k/k#117745",
	})
}
