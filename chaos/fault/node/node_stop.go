package node

import (
	"context"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/clusters"
)

// orderly is what a node has to shut down in: its services stop in turn, and what runs in its containers is asked to
// end before it is killed.
const orderly = 20 * time.Second

// Stop returns the fault that shuts a node down and leaves it down for the hold, as somebody does who takes a
// machine out for repair without draining it. A reboot is over before anybody notices; this one is noticed.
//
// What: the node's container is stopped with 20 s to do it, and stays down until it is healed.
//
// Shown: the container runtime says that it is down, its kubelet answers another node on none of its addresses, of
// either family, and its lease is not renewed while that of another node is.
//
// Healed: as node-crash.
func Stop() fault.Definition {
	return takingAway(fault.Definition{
		Name:    "node-stop",
		Summary: "Shuts the victim's node down within 20 seconds, and boots it after the hold.",
		// What is left of pods and volumes when their node is shut down under them.
		Upstream: "KEP-2000 graceful node shutdown, KEP-2268 non-graceful node shutdown",
	}, func(ctx context.Context, n clusters.PowerNode) error { return n.Stop(ctx, orderly) })
}
