package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// SchedulerStop returns the fault that takes the kube-scheduler away for a time. Pods that are made meanwhile stay
// Pending; all others go on.
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
func SchedulerStop() fault.Definition {
	return stopping(theScheduler(), fault.Definition{
		Name:    "scheduler-stop",
		Summary: "Takes the kube-scheduler away for the hold by its manifest, whatever the victim.",
		// Its manifest is moved away and back.
		Upstream: "kubernetes/kubernetes test/e2e/storage/static_pods.go",
	})
}
