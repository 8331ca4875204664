package plan

import (
	"fmt"
	"slices"
)

// Part is a resource that a fault takes while it is active. Two faults cannot take the same one of the same victim:
// neither could be confirmed or healed without the other.
type Part string

// Parts of the victim's node, as a machine.
const (
	PartNode      Part = "node"      // All of it: it does not run, or is out of reach. It excludes other faults.
	PartProcesses Part = "processes" // Every process of the node: all have ended once the effect is confirmed.
	PartKubelet   Part = "kubelet"   // The kubelet's process.
	PartRuntime   Part = "runtime"   // The container runtime's process.
	PartProxy     Part = "proxy"     // The process of kube-proxy.
	PartNetwork   Part = "network"   // A share of its packets, or of a pod's.
	PartVolume    Part = "volume"    // The file system of the victim's volume.
	PartClock     Part = "clock"     // Its wall clock.
	PartContainer Part = "container" // The process of a container of the victim's pod.
)

// Parts of the API's view of the victim.
const (
	PartObject      Part = "node-object" // The Node object.
	PartSchedulable Part = "schedulable" // Whether pods may be scheduled to the node.
	PartService     Part = "service"     // Whether the node is said to be in service.
	PartPod         Part = "pod"         // The victim's pod.
	PartClaim       Part = "claim"       // The victim's claim.
	PartRequests    Part = "requests"    // What the API server takes from the node's kubelet.
)

// Parts of the cluster, whatever the victim.
const (
	PartControlPlane Part = "control-plane" // All of one control plane.
	PartAPIServer    Part = "api-server"
	PartEtcd         Part = "etcd"
	PartManager      Part = "controller-manager"
	PartScheduler    Part = "scheduler"
	PartQuota        Part = "quota" // How much the workload's namespace may have.
)

// Parts returns all parts.
func Parts() []Part {
	return slices.Concat(machineParts(), objectParts(), apiParts(), []Part{PartManager, PartScheduler, PartQuota})
}

func machineParts() []Part {
	return []Part{
		PartNode, PartProcesses, PartKubelet, PartRuntime, PartProxy, PartNetwork, PartVolume, PartClock, PartContainer,
	}
}

func objectParts() []Part {
	return []Part{PartObject, PartSchedulable, PartService, PartPod, PartClaim, PartRequests}
}

// apiParts are the parts that the API needs.
func apiParts() []Part { return []Part{PartControlPlane, PartAPIServer, PartEtcd} }

// OnControlPlane reports whether a fault that takes these parts does harm to the control-plane nodes, whatever its
// victim.
func OnControlPlane(parts []Part) bool {
	return slices.ContainsFunc(parts, func(p Part) bool {
		return p == PartManager || p == PartScheduler || p == PartRequests || slices.Contains(apiParts(), p)
	})
}

// hurtsNode reports whether a fault that takes these parts keeps a node from running the workload.
func hurtsNode(parts []Part) bool {
	return slices.ContainsFunc(parts, func(p Part) bool {
		machine := slices.Contains(machineParts(), p) && p != PartContainer
		return machine || p == PartObject || p == PartSchedulable || p == PartService || p == PartRequests
	})
}

// Clash says why a fault that takes some parts cannot begin while one that has others is active; it is empty if it can.
// Same is set if both have the same victim.
func Clash(has, takes []Part, same bool) string {
	for _, h := range has {
		for _, t := range takes {
			if why := clash(h, t, same); why != "" {
				return why
			}
		}
	}
	return ""
}

func clash(has, takes Part, same bool) string {
	machine := func(p Part) bool { return slices.Contains(machineParts(), p) }
	object := func(p Part) bool { return slices.Contains(objectParts(), p) }
	away := func(p Part) bool { return slices.Contains(apiParts(), p) }
	leads := func(p Part) bool { return p == PartManager || p == PartScheduler }
	switch {
	case !same && (machine(has) || object(has) || machine(takes)):
		return ""
	case has == PartNode && machine(takes):
		return "it has taken the node away"
	case takes == PartNode && machine(has):
		return fmt.Sprintf("it takes the node's %s, and this one the whole node", has)
	case has == takes && !away(has):
		return fmt.Sprintf("both take the %s", has)
	case away(has) && (away(takes) || object(takes)):
		return fmt.Sprintf("it takes the %s away, without which nothing can be done or seen", has)
	case away(has) && leads(takes), leads(has) && away(takes):
		return fmt.Sprintf("it takes the %s, and without both there is no leader", has)
	}
	return ""
}
