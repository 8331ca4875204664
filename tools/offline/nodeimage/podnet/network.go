package main

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// route says that a range is reached through a gateway.
type route struct {
	Dst netip.Prefix
	Via netip.Addr
}

// network is what this node's network should be.
type network struct {
	// Own are this node's pod ranges, and Addresses its own addresses.
	Own       []netip.Prefix
	Addresses []netip.Addr
	// Routes lead to the other nodes' pod ranges.
	Routes []route
	// Inside is what pods reach without their address being changed: all pod ranges and all nodes.
	Inside []netip.Prefix
}

// plan works out this node's network from the cluster's nodes. A node without a range or without an address of the
// range's family is left out until it has them; only this node's own range is needed to begin.
func plan(self string, nodes []*corev1.Node) (network, error) {
	var n network
	found := false
	for _, node := range nodes {
		cidrs, err := podCIDRs(node)
		if err != nil {
			return network{}, err
		}
		addresses := internalIPs(node)
		n.Inside = append(n.Inside, cidrs...)
		for _, a := range addresses {
			n.Inside = append(n.Inside, netip.PrefixFrom(a, a.BitLen()))
		}
		if node.Name == self {
			found, n.Own, n.Addresses = true, cidrs, addresses
			continue
		}
		for _, cidr := range cidrs {
			i := slices.IndexFunc(addresses, func(a netip.Addr) bool { return a.Is4() == cidr.Addr().Is4() })
			if i >= 0 {
				n.Routes = append(n.Routes, route{cidr, addresses[i]})
			}
		}
	}
	if !found {
		return network{}, fmt.Errorf("plan network: no node %q among %d nodes", self, len(nodes))
	}
	if len(n.Own) == 0 {
		return network{}, fmt.Errorf("plan network: node %q has no pod range yet", self)
	}
	slices.SortFunc(n.Routes, func(a, b route) int { return a.Dst.Compare(b.Dst) })
	slices.SortFunc(n.Inside, netip.Prefix.Compare)
	n.Inside = slices.Compact(n.Inside)
	return n, nil
}

func podCIDRs(node *corev1.Node) ([]netip.Prefix, error) {
	texts := node.Spec.PodCIDRs
	if len(texts) == 0 && node.Spec.PodCIDR != "" {
		texts = []string{node.Spec.PodCIDR}
	}
	cidrs := make([]netip.Prefix, 0, len(texts))
	for _, text := range texts {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("plan network: read podCIDRs of node %q: %w", node.Name, err)
		}
		cidrs = append(cidrs, cidr.Masked())
	}
	return cidrs, nil
}

func internalIPs(node *corev1.Node) []netip.Addr {
	var ips []netip.Addr
	for _, a := range node.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			ips = append(ips, ip.Unmap())
		}
	}
	return ips
}

// difference says which routes to add to have what is wanted, and which to take away. A range that is reached through
// the wrong gateway is in both.
func difference(have, want []route) (add, remove []route) {
	for _, r := range want {
		if !slices.Contains(have, r) {
			add = append(add, r)
		}
	}
	for _, r := range have {
		if !slices.Contains(want, r) {
			remove = append(remove, r)
		}
	}
	return add, remove
}
