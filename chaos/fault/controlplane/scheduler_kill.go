package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// SchedulerKill returns the fault that kills the kube-scheduler with SIGKILL, with pods in its queues, or between the
// choice of a node and the binding to it. Another begins from what the API says.
//
// What: kill -s KILL of every kube-scheduler on the nodes of the control plane, whichever node the plan names.
//
// Shown: no process with the old pid and start time is there.
//
// Healed: the kubelet starts it again. On every node of the control plane a later one tells that it is well, on IPv4
// and on IPv6 where the old one did, and its lease is renewed twice after that: it leads.
func SchedulerKill() fault.Definition {
	return killing(theScheduler(), fault.Definition{
		Name:    "scheduler-kill",
		Summary: "Kills the kube-scheduler with SIGKILL, whatever the victim.",
		// It must go on to find nodes for pods, each once.
		Upstream: "kubernetes/kubernetes test/e2e/apps/daemon_restart.go",
	})
}
