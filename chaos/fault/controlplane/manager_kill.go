package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// ManagerKill returns the fault that kills the kube-controller-manager with SIGKILL, at any moment of whatever its
// controllers are doing. What they knew and had not written is lost; another begins from what the API says.
//
// What: kill -s KILL of every kube-controller-manager on the nodes of the control plane, whichever node the plan names.
//
// Shown: no process with the old pid and start time is there.
//
// Healed: the kubelet starts it again. On every node of the control plane a later one tells that it is well, on IPv4
// and on IPv6 where the old one did, and its lease is renewed twice after that: it leads.
func ManagerKill() fault.Definition {
	return killing(theManager(), fault.Definition{
		Name:    "manager-kill",
		Summary: "Kills the kube-controller-manager with SIGKILL, whatever the victim.",
		// Its controllers must make and delete nothing because of it.
		Upstream: "kubernetes/kubernetes test/e2e/apps/daemon_restart.go",
	})
}
