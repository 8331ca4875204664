package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// APIServerKill returns the fault that kills the kube-apiserver with SIGKILL, with requests on their way: a client
// cannot tell which of them were carried out. Every watch ends, and is begun anew.
//
// What: kill -s KILL of every kube-apiserver on the nodes of the control plane, whichever node the plan names.
//
// Shown: no process with the old pid and start time is there.
//
// Healed: the kubelet starts it again. On every node of the control plane a later one tells that it is well, on IPv4
// and on IPv6 where the old one did, and the API server answers, the kube-controller-manager and the kube-scheduler
// renew their leases twice after that, and the kubelet of the victim's node renews its lease.
func APIServerKill() fault.Definition {
	return killing(theAPIServer(), fault.Definition{
		Name:    "apiserver-kill",
		Summary: "Kills the kube-apiserver with SIGKILL, whatever the victim.",
		// Controllers that cannot renew their leases end themselves.
		Upstream: "k/k#65966",
	})
}
