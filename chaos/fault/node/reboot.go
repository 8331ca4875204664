package node

import (
	"context"
	"fmt"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// Reboot returns the fault that stops a node in an orderly way, with little time to do it, and starts it again.
//
// What: the node's machine is rebooted. On kind that is its container: /var stays, /run and /tmp go, and so do mounts
// made by hand, routes and nftables. The kernel and its page cache stay: it is not a power loss.
//
// Shown: the node's first process is a later one, and the kubelet and the processes of the victim's pods that ran
// before are gone.
//
// Healed: the boot is the heal; a node that is down is started. The kubelet is active, the node's lease is renewed by
// it and the node Ready, all its pods are Ready with new containers, and the routes to the other nodes' pods and the
// mounts of local volumes that were there before are there again.
func Reboot() fault.Definition {
	return fault.Definition{
		Name:    "node-reboot",
		Summary: "Reboots the victim's node with a grace of two seconds.",
		Shown:   "The node has a later boot, and the old one's kubelet and processes of the workload are gone.",
		Healed: "It is up again: kubelet active, lease renewed, node and pods Ready with new containers, routes and " +
			"mounts back.",
		Needs: []string{"power"},
		// What is wrong after a boot: volumes reported unmounted, and leftovers taken for mounts.
		Takes:    []plan.Part{plan.PartNode},
		Upstream: "k/k#120853, k/k#124057",
		New: func(_ plan.Fault, _ int, env fault.Env) (fault.Fault, error) {
			power, ok := env.Node.(clusters.PowerNode)
			if !ok {
				return nil, fmt.Errorf("node %q cannot be rebooted: its provider has no power over it", env.Node.Name())
			}
			return &reboot{env: env, node: power}, nil
		},
	}
}

// grace is what the node has to stop in. Pods are not given their own grace: shutdown is what kills them.
const grace = 2 * time.Second

type reboot struct {
	env    fault.Env
	node   clusters.PowerNode
	before snapshot
	leases evidence.Leases // When the new boot was seen: what is renewed then was renewed by its kubelet.
}

// Inject notes what is there, and reboots the node.
func (r *reboot) Inject(ctx context.Context) error {
	before, err := takeSnapshot(ctx, r.env)
	if err != nil {
		return err
	}
	r.before = before
	return r.node.Reboot(ctx, grace)
}

// Confirm shows the later boot and the end of the old processes.
func (r *reboot) Confirm(ctx context.Context) ([]fault.Fact, error) {
	facts, err := r.before.laterBoot(ctx, r.env)
	if err != nil {
		return nil, err
	}
	r.leases, err = evidence.ReadLeases(ctx, r.env)
	return facts, err
}

// Heal starts the node if it is down.
func (r *reboot) Heal(ctx context.Context) error { return bringBack(ctx, r.node) }

// ConfirmHealed shows that the node and all that was on it is back.
func (r *reboot) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return r.before.back(ctx, r.env, r.leases)
}
