package network

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/clusters"
)

// The ports that answer on every cluster of kubeadm's making, kind's among them.
const (
	apiServerPort = 6443
	kubeletPort   = 10250
)

// end is one side of what is cut, as it is reached: a node, or a pod by the network namespace of its processes.
type end struct {
	name      string
	node      clusters.Node
	pid       int // Of one of the pod's processes; 0 for a node.
	addresses []netip.Addr
	port      uint16         // Where TCP is answered; 0 is nowhere.
	prefixes  []netip.Prefix // All that belongs to it: its own addresses, and for a node the range of its pods.
}

// add adds an address.
func (e *end) add(a netip.Addr) {
	a = a.Unmap()
	e.addresses = append(e.addresses, a)
	e.prefixes = append(e.prefixes, netip.PrefixFrom(a, a.BitLen()))
}

// agent is the agent of the end's node, in the end's network namespace. Nothing is needed in a container, and it works
// although the node is cut off.
func (e end) agent() nodeagent.Agent {
	agent := nodeagent.On(e.node)
	if e.pid > 0 {
		agent = agent.InNetworkOf(e.pid)
	}
	return agent
}

// nodeEnds returns nodes as ends, with the ports of the API server and of kubelets.
func nodeEnds(ctx context.Context, env fault.Env, nodes ...clusters.Node) ([]end, error) {
	var ends []end
	for _, n := range nodes {
		e := end{name: n.Name(), node: n, port: kubeletPort}
		if n.Role() == clusters.RoleControlPlane {
			e.port = apiServerPort
		}
		all, err := n.Addresses(ctx)
		if err != nil {
			return nil, fmt.Errorf("get addresses of node %q: %w", n.Name(), err)
		}
		for _, a := range all { // Those that others can reach.
			if a.Unmap().IsGlobalUnicast() {
				e.add(a)
			}
		}
		pods, err := env.PodCIDRs(ctx, n.Name())
		if err != nil {
			return nil, err
		}
		e.prefixes = append(e.prefixes, pods...)
		ends = append(ends, e)
	}
	return ends, nil
}

// between returns the victim's node and others as sides.
func between(ctx context.Context, env fault.Env, others []clusters.Node) (sides, error) {
	ends, err := nodeEnds(ctx, env, append([]clusters.Node{env.Node}, others...)...)
	if err != nil {
		return sides{}, err
	}
	return sides{mine: ends[0], others: ends[1:]}, nil
}

// to returns how the victim's node and others are found as sides.
func to(env fault.Env, others func(context.Context) ([]clusters.Node, error)) func(context.Context) (sides, error) {
	return func(ctx context.Context) (sides, error) {
		nodes, err := others(ctx)
		if err != nil {
			return sides{}, err
		}
		return between(ctx, env, nodes)
	}
}

// podEnd returns a pod as an end. Its port is the first that its containers declare.
func podEnd(ctx context.Context, env fault.Env, namespace, name string) (end, error) {
	e := end{name: "pod " + name}
	pod, err := env.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return e, fmt.Errorf("get pod %q: %w", name, err)
	}
	if pod.Spec.HostNetwork {
		return e, fmt.Errorf("pod %q has the network of its node: cut the nodes off from each other instead", name)
	}
	nodes, err := env.Cluster.Nodes(ctx)
	if err != nil {
		return e, fmt.Errorf("list nodes: %w", err)
	}
	i := slices.IndexFunc(nodes, func(n clusters.Node) bool { return n.Name() == pod.Spec.NodeName })
	if i < 0 || pod.DeletionTimestamp != nil || len(pod.Status.PodIPs) == 0 {
		return e, fmt.Errorf("pod %q on node %q is %s, being deleted: %t, with %d addresses", name, pod.Spec.NodeName,
			pod.Status.Phase, pod.DeletionTimestamp != nil, len(pod.Status.PodIPs))
	}
	e.node = nodes[i]
	for _, ip := range pod.Status.PodIPs {
		a, err := netip.ParseAddr(ip.IP)
		if err != nil {
			return e, fmt.Errorf("get pod %q: address: %w", name, err)
		}
		e.add(a)
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			tcp := p.Protocol == "" || p.Protocol == corev1.ProtocolTCP
			if e.port == 0 && tcp && p.ContainerPort > 0 && p.ContainerPort <= 65535 {
				e.port = uint16(p.ContainerPort)
			}
		}
	}
	found, err := nodeagent.On(e.node).Processes(ctx, probe.Query{PodUIDs: []string{string(pod.UID)}})
	if err == nil && len(found.Processes) == 0 {
		err = errors.New("it has no process")
	}
	if err != nil {
		return e, fmt.Errorf("find the network namespace of pod %q: %w", name, err)
	}
	e.pid = found.Processes[0].PID
	return e, nil
}

// victimEnd returns the victim's pod as an end. One that has moved to another node is an error.
func victimEnd(ctx context.Context, env fault.Env) (end, error) {
	mine, err := podEnd(ctx, env, env.Namespace, env.Pod)
	if err == nil && mine.node.Name() != env.Node.Name() {
		err = fmt.Errorf("pod %q has moved from node %q to %q", env.Pod, env.Node.Name(), mine.node.Name())
	}
	return mine, err
}

// sides are the two sides of a cut: the victim, and one or more others.
type sides struct {
	mine   end
	others []end
	beside []way // Ways that the fault must leave alone, and that are shown to be open all the while.
}

// ways are those between the sides, the victim's own first.
func (s sides) ways() []way {
	var out, in []way
	for _, other := range s.others {
		out = append(out, way{from: s.mine, to: other, direction: directionOut})
		in = append(in, way{from: other, to: s.mine, direction: directionIn})
	}
	return append(out, in...)
}

// out are the ways that leave the victim.
func (s sides) out() []way { return s.ways()[:len(s.others)] }

// reachable reports whether the sides have an address family in common.
func (s sides) reachable() bool {
	return slices.ContainsFunc(s.ways(), func(w way) bool { return len(w.addresses()) > 0 })
}

// way is one direction in which packets go, by all address families that both ends have.
type way struct {
	from, to  end
	direction string // Of the first packet, as the victim sees it; empty for a way that the fault must leave alone.
}

// addresses are those of the far end that the near one can reach.
func (w way) addresses() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(w.to.addresses), func(a netip.Addr) bool {
		return !slices.ContainsFunc(w.from.addresses, func(mine netip.Addr) bool { return mine.Is4() == a.Is4() })
	})
}

// targets are the addresses with the port; none when there is no port.
func (w way) targets() []netip.AddrPort {
	if w.to.port == 0 {
		return nil
	}
	var out []netip.AddrPort
	for _, a := range w.addresses() {
		out = append(out, netip.AddrPortFrom(a, w.to.port))
	}
	return out
}

// path is one way by one address.
type path struct {
	from string
	to   netip.AddrPort
}

// String names both ends: "TCP worker -> 172.18.0.2:6443", and without a port "ICMP worker -> 172.18.0.2".
func (p path) String() string {
	if p.to.Port() == 0 {
		return fmt.Sprintf("ICMP %s -> %s", p.from, p.to.Addr())
	}
	return fmt.Sprintf("TCP %s -> %s", p.from, p.to)
}
