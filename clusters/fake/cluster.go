// Package fake is a cluster in memory that does what a test scripted and keeps a transcript of what it was asked. It
// can answer, refuse, crash half-way and hang. A node refuses every command without a scripted answer, so that code
// which does the wrong thing fails.
package fake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/seatrial/seatrial/clusters"
)

// Cluster is a cluster in memory. It is safe for concurrent use once it is made.
type Cluster struct {
	Transcript *Transcript           // Shared by all nodes.
	Config     []byte                // What Kubeconfig returns; nil makes it fail.
	Able       clusters.Capabilities // What Capabilities returns; by default everything, on one kernel.

	name  string
	nodes []*Node
}

// NewCluster returns a running cluster of one control plane and some workers, named and addressed as kind does it:
// 172.18.0.2 and fc00::2 for the control plane, one up for each worker.
func NewCluster(name string, workers int) *Cluster {
	c := &Cluster{Transcript: &Transcript{}, Config: []byte("kind: Config\n"), name: name}
	c.Able.Can = []string{ // Everything; of real clusters none has both CanReset and OneKernel.
		clusters.CanAPI, clusters.CanClock, clusters.CanNetem, clusters.CanNFTables, clusters.CanPower,
		clusters.CanReboot, clusters.CanReset, clusters.CanSharedDir, clusters.CanStaticPods, clusters.CanSystemd,
		clusters.CanTBF, clusters.OneKernel,
	}
	c.nodes = append(c.nodes, c.node(name+"-control-plane", clusters.RoleControlPlane, 2))
	for i := range workers {
		suffix := "-worker"
		if i > 0 {
			suffix = fmt.Sprintf("-worker%d", i+1)
		}
		c.nodes = append(c.nodes, c.node(name+suffix, clusters.RoleWorker, byte(3+i)))
	}
	return c
}

func (c *Cluster) node(name string, role clusters.Role, last byte) *Node {
	v6 := netip.MustParseAddr("fc00::").As16()
	v6[15] = last
	return NewNode(name, role, c.Transcript, netip.AddrFrom4([4]byte{172, 18, 0, last}), netip.AddrFrom16(v6))
}

// Name returns the cluster's name.
func (c *Cluster) Name() string { return c.name }

// Capabilities returns Able.
func (c *Cluster) Capabilities() clusters.Capabilities { return c.Able }

// Kubeconfig returns Config.
func (c *Cluster) Kubeconfig(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get kubeconfig of cluster %q: %w", c.name, err)
	}
	if c.Config == nil {
		return nil, fmt.Errorf("get kubeconfig of cluster %q: it has none", c.name)
	}
	return c.Config, nil
}

// Nodes returns the nodes, the control plane first.
func (c *Cluster) Nodes(ctx context.Context) ([]clusters.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list nodes of cluster %q: %w", c.name, err)
	}
	out := make([]clusters.Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		out = append(out, n)
	}
	return out, nil
}

// Node returns a node by the end of its name: "control-plane", "worker", "worker2". It panics when there is none, since
// that is a mistake in the test.
func (c *Cluster) Node(suffix string) *Node {
	i := slices.IndexFunc(c.nodes, func(n *Node) bool { return strings.HasSuffix(n.name, "-"+suffix) })
	if i < 0 {
		panic(fmt.Sprintf("fake cluster %q has no node %q", c.name, suffix))
	}
	return c.nodes[i]
}

// On scripts the answers to a command on every node. See Node.On.
func (c *Cluster) On(pattern []string, replies ...Reply) {
	for _, n := range c.nodes {
		n.On(pattern, replies...)
	}
}
