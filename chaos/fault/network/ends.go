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

// end is an endpoint of a cut: a node, a pod through the network namespace of one of its processes, or the API servers
// of a control plane on no node of the cluster.
type end struct {
	name      string
	node      clusters.Node // nil for those: nothing can be run there.
	pid       int           // Of a process of the pod; 0 for a node.
	addresses []netip.Addr
	port      uint16         // The TCP port to probe; 0 if there is none.
	prefixes  []netip.Prefix // Its own addresses and, for a node, those of its links and its pods, with their ranges.
}

func (e *end) add(a netip.Addr) {
	a = a.Unmap()
	e.addresses = append(e.addresses, a)
	e.prefixes = append(e.prefixes, netip.PrefixFrom(a, a.BitLen()))
}

// agent returns the agent of the end's node, in the end's network namespace. It needs nothing in the container and
// works while the node's network is cut.
func (e end) agent() nodeagent.Agent {
	agent := nodeagent.On(e.node)
	if e.pid > 0 {
		agent = agent.InNetworkOf(e.pid)
	}
	return agent
}

// nodeEnds returns ends for nodes, with the port of the API server or of the kubelet.
func nodeEnds(ctx context.Context, env fault.Env, nodes ...clusters.Node) ([]end, error) {
	var ends []end
	for _, n := range nodes {
		e := end{name: n.Name(), node: n}
		var err error
		if n.Role() == clusters.RoleControlPlane {
			e.port, err = env.APIServerPort(ctx)
		} else {
			e.port, err = env.KubeletPort(ctx, n.Name())
		}
		if err != nil {
			return nil, err
		}
		all, err := n.Addresses(ctx)
		if err != nil {
			return nil, fmt.Errorf("get addresses of node %q: %w", n.Name(), err)
		}
		for _, a := range all { // Skip link-local addresses and the like.
			if a.Unmap().IsGlobalUnicast() {
				e.add(a)
			}
		}
		if linked, ok := n.(clusters.LinkedNode); ok {
			more, err := linked.LinkAddresses(ctx)
			if err != nil { // Without these a kubelet may have another way: its lease will show that.
				env.Log.Warn("only the addresses that the API knows are meant", "node", n.Name(), "error", err)
			}
			for _, a := range more {
				e.prefixes = append(e.prefixes, netip.PrefixFrom(a, a.BitLen()))
			}
		}
		pods, err := env.PodCIDRs(ctx, n.Name())
		if err != nil {
			return nil, err
		}
		running, err := podAddresses(ctx, env, n)
		if err != nil {
			return nil, err
		}
		e.prefixes = slices.Concat(e.prefixes, pods, running)
		ends = append(ends, e)
	}
	return ends, nil
}

// podAddresses returns the addresses of the pods on a node: with many network plugins they are in no range of its Node.
func podAddresses(ctx context.Context, env fault.Env, node clusters.Node) (all []netip.Prefix, err error) {
	env.Node = node
	pods, err := env.PodsOn(ctx)
	for _, p := range pods {
		for _, ip := range p.Status.PodIPs {
			a, err := netip.ParseAddr(ip.IP)
			if err != nil {
				return nil, fmt.Errorf("get pod %q: address: %w", p.Name, err)
			}
			if !p.Spec.HostNetwork {
				all = append(all, netip.PrefixFrom(a, a.BitLen()))
			}
		}
	}
	return all, err
}

// controlPlane returns the ends of the control plane: its nodes, or where it is on no node, the endpoints of the API
// servers' Service.
func controlPlane(ctx context.Context, env fault.Env) ([]end, error) {
	nodes, err := env.ControlPlane(ctx)
	if err == nil {
		return nodeEnds(ctx, env, nodes...)
	}
	if !errors.Is(err, fault.ErrNoControlPlane) {
		return nil, err
	}
	at, readErr := env.APIServers(ctx)
	if readErr != nil || len(at) == 0 {
		return nil, errors.Join(err, readErr, errors.New("the Service of the API servers has no endpoint"))
	}
	e := end{name: "the API server"}
	for _, a := range at {
		e.port = a.Port()
		e.add(a.Addr())
	}
	return []end{e}, nil
}

// between returns sides with the victim's node on one side and others on the other.
func between(ctx context.Context, env fault.Env, others []clusters.Node) (sides, error) {
	ends, err := nodeEnds(ctx, env, append([]clusters.Node{env.Node}, others...)...)
	if err != nil {
		return sides{}, err
	}
	return sides{mine: ends[0], others: ends[1:]}, nil
}

// nodeSides returns a function that finds the sides: the victim's node and the nodes that others returns.
func nodeSides(env fault.Env, others func(context.Context) ([]clusters.Node, error),
) func(context.Context) (sides, error) {
	return func(ctx context.Context) (sides, error) {
		nodes, err := others(ctx)
		if err != nil {
			return sides{}, err
		}
		return between(ctx, env, nodes)
	}
}

// podEnd returns the end for a pod. Its port is the first TCP port that its containers declare.
func podEnd(ctx context.Context, env fault.Env, namespace, name string) (end, error) {
	e := end{name: "pod " + name}
	pod, err := env.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return e, fmt.Errorf("get pod %q: %w", name, err)
	}
	if pod.Spec.HostNetwork {
		return e, fmt.Errorf("pod %q has the network of its node: a fault hits both", name)
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

// victimEnd returns the end for the victim's pod. It is an error if the pod has moved to another node.
func victimEnd(ctx context.Context, env fault.Env) (end, error) {
	mine, err := podEnd(ctx, env, env.Namespace, env.Pod)
	if err == nil && mine.node.Name() != env.Node.Name() {
		err = fmt.Errorf("pod %q has moved from node %q to %q", env.Pod, env.Node.Name(), mine.node.Name())
	}
	return mine, err
}

// sides are the two sides of a cut: the victim and one or more others.
type sides struct {
	mine   end
	others []end
	beside []way // Ways that must stay open; they are probed as well.
}

// ways returns both directions between the sides, those that leave the victim first. From an end without a node
// nothing can be sent.
func (s sides) ways() []way {
	var out, in []way
	for _, other := range s.others {
		out = append(out, way{from: s.mine, to: other, direction: directionOut})
		if other.node != nil {
			in = append(in, way{from: other, to: s.mine, direction: directionIn})
		}
	}
	return append(out, in...)
}

// deaf reports whether nothing can be run on the other side.
func (s sides) deaf() bool {
	return !slices.ContainsFunc(s.others, func(e end) bool { return e.node != nil })
}

// out returns the ways that leave the victim.
func (s sides) out() []way { return s.ways()[:len(s.others)] }

// reachable reports whether the sides share an address family.
func (s sides) reachable() bool {
	return slices.ContainsFunc(s.ways(), func(w way) bool { return len(w.addresses()) > 0 })
}

// way is one direction of traffic between two ends, over the address families that both have.
type way struct {
	from, to  end
	direction string // Of the first packet, as seen from the victim; empty if the fault must not cut it.
}

// in reports whether the way can be probed in a family.
func (w way) in(family string) bool {
	return slices.ContainsFunc(w.addresses(), func(a netip.Addr) bool { return familyOf(a) == family })
}

// families are those of addresses, as names of counters end with them.
func families() []string { return []string{"4", "6"} }

func familyOf(a netip.Addr) string {
	if a.Is4() {
		return "4"
	}
	return "6"
}

// addresses returns the addresses of the far end in families that the near end has.
func (w way) addresses() []netip.Addr {
	return slices.DeleteFunc(slices.Clone(w.to.addresses), func(a netip.Addr) bool {
		return !slices.ContainsFunc(w.from.addresses, func(mine netip.Addr) bool { return mine.Is4() == a.Is4() })
	})
}

// targets returns the addresses with the port, none if there is no port.
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

// path is a way to one address.
type path struct {
	from string
	to   netip.AddrPort
}

// String returns "TCP worker -> 172.18.0.2:6443", or without a port "ICMP worker -> 172.18.0.2".
func (p path) String() string {
	if p.to.Port() == 0 {
		return fmt.Sprintf("ICMP %s -> %s", p.from, p.to.Addr())
	}
	return fmt.Sprintf("TCP %s -> %s", p.from, p.to)
}
