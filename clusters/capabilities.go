package clusters

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// What clusters can do or have. The needs of faults name these.
const (
	CanAPI        = "api"         // The harness reaches the API server.
	CanClock      = "clock"       // Every node has a wall clock of its own, which can be set.
	CanNetem      = "netem"       // The kernel delays packets.
	CanNFTables   = "nftables"    // The kernel filters packets by nftables.
	CanPower      = "power"       // Nodes are PowerNodes.
	CanReboot     = "reboot"      // Nodes are Rebooters.
	CanReset      = "reset"       // Nodes are Resetters, which is so only if none shares its kernel.
	CanSharedDir  = "shared-dir"  // All nodes see SharedDir.
	CanStaticPods = "static-pods" // The control plane runs as static pods of a kubelet.
	CanSystemd    = "systemd"     // Nodes run their services, kubelet and containerd among them, by systemd.
	CanTBF        = "tbf"         // The kernel limits bandwidth.
	CanUpgrade    = "upgrade"     // It is a Stocker.
	OneKernel     = "one-kernel"  // All nodes share the kernel, and so the boot clock, of the harness.
)

// Capabilities say what a cluster can do and, if known, why it cannot do the rest.
type Capabilities struct {
	Can    []string
	Cannot map[string]string // The reason by capability.
}

// Lacks returns the needs that are not met, with the reasons.
func (c Capabilities) Lacks(needs []string) map[string]string {
	lacks := map[string]string{}
	for _, need := range needs {
		if slices.Contains(c.Can, need) {
			continue
		}
		lacks[need] = "the cluster does not have it"
		if why := c.Cannot[need]; why != "" {
			lacks[need] = why
		}
	}
	return lacks
}

// NodeClock relates the boot clock of a node to the harness's: a node's t is t plus Offset, plus or minus Error.
type NodeClock struct {
	Offset, Error time.Duration
}

// Span converts a span of the node's boot clock, in nanoseconds, to the harness's.
func (c NodeClock) Span(earliest, latest int64) (int64, int64) {
	return earliest + int64(c.Offset-c.Error), latest + int64(c.Offset+c.Error)
}

// ClockedNode is a node whose boot clock can be related to the harness's.
type ClockedNode interface {
	Node
	BootClock(ctx context.Context) (NodeClock, error)
}

// BootClock relates the boot clock of a node to the harness's. On one kernel they are the same.
func BootClock(ctx context.Context, c Cluster, n Node) (NodeClock, error) {
	if slices.Contains(c.Capabilities().Can, OneKernel) {
		return NodeClock{}, nil
	}
	clocked, ok := n.(ClockedNode)
	if !ok {
		return NodeClock{}, fmt.Errorf("read boot clock of node %q: cluster %q does not tell it", n.Name(), c.Name())
	}
	return clocked.BootClock(ctx)
}
