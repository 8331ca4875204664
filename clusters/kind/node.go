package kind

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sync/semaphore"
	"sigs.k8s.io/kind/pkg/cluster/constants"

	"github.com/seatrial/seatrial/clusters"
)

// The labels by which kind finds its containers.
const (
	clusterLabel = "io.x-k8s.kind.cluster"
	roleLabel    = "io.x-k8s.kind.role"
)

// node is a node container. It keeps nothing but its name: everything else is asked of the engine.
type node struct {
	engine engine
	name   string
	role   clusters.Role
	netns  *netnsCache
	turn   *semaphore.Weighted // Nodes of a provider come back one after the other. See hold.
}

var _ clusters.PowerNode = (*node)(nil)

// Name returns the name of the container and of the Kubernetes node.
func (n *node) Name() string { return n.name }

func (n *node) Role() clusters.Role { return n.role }

// Addresses asks the engine for the container's current addresses, IPv4 first. A node that does not run has none; that
// is an error.
func (n *node) Addresses(ctx context.Context) ([]netip.Addr, error) {
	c, err := n.inspect(ctx)
	if err != nil {
		return nil, fmt.Errorf("get addresses of node %q: %w", n.name, err)
	}
	addrs := c.addresses()
	if len(addrs) == 0 {
		return nil, fmt.Errorf("get addresses of node %q: it has none; its state is %q", n.name, c.state())
	}
	return addrs, nil
}

func (n *node) inspect(ctx context.Context) (container, error) {
	list, err := n.engine.inspect(ctx, n.name)
	if err != nil {
		return container{}, err
	}
	if len(list) != 1 {
		return container{}, fmt.Errorf("inspect node %q: no such container", n.name)
	}
	return list[0], nil
}

// roleOf returns the role of a kind container, and false for one that is no Kubernetes node, such as a load balancer.
func roleOf(c container) (clusters.Role, bool) {
	switch c.Config.Labels[roleLabel] {
	case constants.ControlPlaneNodeRoleValue:
		return clusters.RoleControlPlane, true
	case constants.WorkerNodeRoleValue:
		return clusters.RoleWorker, true
	default:
		return "", false
	}
}
