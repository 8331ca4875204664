package node

import (
	"context"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/clusters"
)

// Crash returns the fault that ends a node at once, and boots it after the hold. Nothing is told, nothing is
// unmounted, nobody takes leave of the API.
//
// What: every process in the node's container is killed with SIGKILL, and the container stays down until it is healed.
// The kernel and its page cache stay on kind: it is not a power loss.
//
// Shown: the container runtime says that it is down, its kubelet answers another node on none of its addresses, of
// either family, and its lease is not renewed while that of another node is.
//
// Healed: the container is started. The node has a later boot, none of the workload's old processes is there, the
// kubelet is active, the lease renewed by it and the node Ready, all its pods are Ready with new containers, and routes
// and mounts of local volumes are back. A process beside the cluster starts it when nobody heals it.
func Crash() fault.Definition {
	return takingAway(fault.Definition{
		Name:    "node-crash",
		Summary: "Kills every process on the victim's node with SIGKILL, and boots the node after the hold.",
		// A node that is gone without a word, with its volumes attached.
		Upstream: "KEP-2268 non-graceful node shutdown",
	}, func(ctx context.Context, n clusters.PowerNode) error { return n.Kill(ctx) })
}
