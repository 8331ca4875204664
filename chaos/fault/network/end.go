package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/undo"
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

// argv is a command that runs on the end's node, in the end's network namespace. Nothing is needed in a container.
func (e end) argv(argv ...string) []string {
	if e.pid == 0 {
		return argv
	}
	return append([]string{"nsenter", "--target", strconv.Itoa(e.pid), "--net", "--"}, argv...)
}

// nodeEnd returns a node as an end.
func nodeEnd(ctx context.Context, env fault.Env, n clusters.Node, port uint16) (end, error) {
	e := end{name: n.Name(), node: n, port: port}
	all, err := n.Addresses(ctx)
	if err != nil {
		return e, fmt.Errorf("get addresses of node %q: %w", n.Name(), err)
	}
	for _, a := range all { // Those that others can reach.
		if a = a.Unmap(); a.IsGlobalUnicast() {
			e.addresses = append(e.addresses, a)
			e.prefixes = append(e.prefixes, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	pods, err := evidence.PodCIDRs(ctx, env, n.Name())
	e.prefixes = append(e.prefixes, pods...)
	return e, err
}

// podEnd returns a pod of the workload as an end. Its port is the first that its containers declare.
func podEnd(ctx context.Context, env fault.Env, name string) (end, error) {
	e := end{name: "pod " + name}
	pod, err := env.Kube.CoreV1().Pods(env.Namespace).Get(ctx, name, metav1.GetOptions{})
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
	for _, n := range nodes {
		if n.Name() == pod.Spec.NodeName {
			e.node = n
		}
	}
	if e.node == nil || pod.DeletionTimestamp != nil || len(pod.Status.PodIPs) == 0 {
		return e, fmt.Errorf("pod %q on node %q is %s, being deleted: %t, with %d addresses", name, pod.Spec.NodeName,
			pod.Status.Phase, pod.DeletionTimestamp != nil, len(pod.Status.PodIPs))
	}
	for _, ip := range pod.Status.PodIPs {
		a, err := netip.ParseAddr(ip.IP)
		if err != nil {
			return e, fmt.Errorf("get pod %q: address: %w", name, err)
		}
		e.addresses = append(e.addresses, a.Unmap())
		e.prefixes = append(e.prefixes, netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()))
	}
	for _, c := range pod.Spec.Containers {
		for _, p := range c.Ports {
			tcp := p.Protocol == "" || p.Protocol == corev1.ProtocolTCP
			if e.port == 0 && tcp && p.ContainerPort > 0 && p.ContainerPort <= 65535 {
				e.port = uint16(p.ContainerPort)
			}
		}
	}
	e.pid, err = processOf(ctx, e.node, string(pod.UID))
	if err != nil {
		return e, fmt.Errorf("find the network namespace of pod %q: %w", name, err)
	}
	return e, nil
}

// processOf returns a process of the pod.
func processOf(ctx context.Context, node clusters.Node, uid string) (int, error) {
	found, err := ask[probe.Processes](ctx, end{name: node.Name(), node: node}, "process", "--pod", uid)
	if err != nil {
		return 0, err
	}
	if len(found.Processes) == 0 {
		return 0, errors.New("it has no process")
	}
	return found.Processes[0].PID, nil
}

// ask runs a probe of the agent at an end and decodes its answer. It goes through the container runtime, and works
// although the node is cut off.
func ask[T any](ctx context.Context, from end, args ...string) (answer T, err error) {
	argv := append([]string{undo.AgentPath, "probe"}, args...)
	out, err := clusters.Run(ctx, from.node, from.argv(argv...)...)
	if err != nil {
		return answer, fmt.Errorf("probe from %s: %w", from.name, err)
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return answer, fmt.Errorf("probe from %s: decode answer %.80q: %w", from.name, out, err)
	}
	return answer, nil
}

// way is one direction in which packets go, by all address families that both ends have.
type way struct {
	from, to  end
	direction string // Of the first packet, as the victim sees it; empty for a way that the fault must leave alone.
}

// addresses are those of the far end that the near one can reach.
func (w way) addresses() []netip.Addr {
	var out []netip.Addr
	for _, a := range w.to.addresses {
		for _, mine := range w.from.addresses {
			if mine.Is4() == a.Is4() {
				out = append(out, a)
				break
			}
		}
	}
	return out
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
