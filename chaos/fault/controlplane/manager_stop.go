package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// ManagerStop returns the fault that takes the kube-controller-manager away for a time. Nobody makes or deletes pods,
// attaches or detaches volumes, or notices that a node is lost.
//
// What: the manifest of the static pod is replaced, at once, by one of a pod of the same name that runs nothing, on
// every node of the control plane, whichever node the plan names; it is kept with a mark of ours, and the kubelet ends
// the pod.
//
// Shown: no process and no running container of it is there, nothing answers at its health endpoint, on IPv4 and on
// IPv6 where it did before, and its lease is not renewed, while the API server answers. At the end of the hold there
// still is none.
//
// Healed: the manifest that bears our mark is put back, byte for byte and at once; a timer on the node does it when
// nobody heals it. The kubelet starts it: it tells that it is well, and its lease is renewed twice after that: it
// leads.
func ManagerStop() fault.Definition {
	return stopping(theManager(), fault.Definition{
		Name:    "manager-stop",
		Summary: "Takes the kube-controller-manager away for the hold by its manifest, whatever the victim.",
		// A volume was detached by the one that was started again, for what it did not know yet.
		Upstream: "k/k#115297",
	})
}
