package controlplane

import "github.com/seatrial/seatrial/chaos/fault"

// EtcdKill returns the fault that kills etcd with SIGKILL, with writes on their way. What it has acknowledged is in its
// log, which it reads when it is started again.
//
// What: kill -s KILL of every etcd on the nodes of the control plane, whichever node the plan names.
//
// Shown: no process with the old pid and start time is there.
//
// Healed: the kubelet starts it again. On every node of the control plane a later one tells that it is well, on IPv4
// and on IPv6 where the old one did, and the API server answers, the kube-controller-manager and the kube-scheduler
// renew their leases twice after that, and the kubelet of the victim's node renews its lease.
func EtcdKill() fault.Definition {
	return killing(theEtcd(), fault.Definition{
		Name:    "etcd-kill",
		Summary: "Kills etcd with SIGKILL, whatever the victim.",
		// Its own project does this to it all the time.
		Upstream: "etcd-io/etcd tests/robustness/failpoint: KillFailpoint",
	})
}
