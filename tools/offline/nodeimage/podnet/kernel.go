package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// routeProtocol marks our routes; the number is free in rtnetlink's list.
const routeProtocol = 83

// kernel is this node's kernel.
type kernel struct{}

// routes lists our routes.
func (kernel) routes() ([]route, error) {
	filter := &netlink.Route{Table: unix.RT_TABLE_MAIN, Protocol: routeProtocol}
	found, err := netlink.RouteListFiltered(netlink.FAMILY_ALL, filter,
		netlink.RT_FILTER_TABLE|netlink.RT_FILTER_PROTOCOL)
	if err != nil {
		return nil, fmt.Errorf("list routes: %w", err)
	}
	var all []route
	for _, r := range found {
		if r.Dst == nil {
			continue
		}
		via, _ := netip.AddrFromSlice(r.Gw)
		all = append(all, route{prefixOf(r.Dst), via.Unmap()})
	}
	return all, nil
}

// addRoute adds a route, in place of any other to the same range.
func (kernel) addRoute(r route) error {
	if err := netlink.RouteReplace(netlinkRoute(r)); err != nil {
		return fmt.Errorf("add route to %s via %s: %w", r.Dst, r.Via, err)
	}
	return nil
}

// removeRoute removes one of our routes; one that is gone is no error.
func (kernel) removeRoute(r route) error {
	if err := netlink.RouteDel(netlinkRoute(r)); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("remove route to %s via %s: %w", r.Dst, r.Via, err)
	}
	return nil
}

func netlinkRoute(r route) *netlink.Route {
	return &netlink.Route{
		Dst:      &net.IPNet{IP: r.Dst.Addr().AsSlice(), Mask: net.CIDRMask(r.Dst.Bits(), r.Dst.Addr().BitLen())},
		Gw:       r.Via.AsSlice(),
		Protocol: routeProtocol,
		Table:    unix.RT_TABLE_MAIN,
	}
}

func prefixOf(n *net.IPNet) netip.Prefix {
	addr, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(addr.Unmap(), ones)
}

// mtu returns the MTU of the link that has one of the addresses, or 0 when no link has.
func (kernel) mtu(addresses []netip.Addr) (int, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return 0, fmt.Errorf("list links: %w", err)
	}
	for _, link := range links {
		found, err := netlink.AddrList(link, netlink.FAMILY_ALL)
		if err != nil {
			return 0, fmt.Errorf("list addresses of %s: %w", link.Attrs().Name, err)
		}
		for _, a := range found {
			ip, _ := netip.AddrFromSlice(a.IP)
			for _, own := range addresses {
				if ip.Unmap() == own {
					return link.Attrs().MTU, nil
				}
			}
		}
	}
	return 0, nil
}

// applyRules gives commands to nft.
func (kernel) applyRules(ctx context.Context, rules string) error {
	cmd := exec.CommandContext(ctx, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("apply masquerade rules: %w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

// forward lets packets of that family pass from one link to another.
func (kernel) forward(is6 bool) error {
	path := "/proc/sys/net/ipv4/ip_forward"
	if is6 {
		path = "/proc/sys/net/ipv6/conf/all/forwarding"
	}
	now, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(now)) == "1" {
		return nil
	}
	if err := os.WriteFile(path, []byte("1"), 0o644); err != nil {
		return fmt.Errorf("enable forwarding: %w", err)
	}
	return nil
}

// changes sends something whenever a route or a link of this node changes, until ctx ends.
func (kernel) changes(ctx context.Context) (<-chan struct{}, error) {
	routes, links := make(chan netlink.RouteUpdate), make(chan netlink.LinkUpdate)
	if err := netlink.RouteSubscribe(routes, ctx.Done()); err != nil {
		return nil, fmt.Errorf("watch routes: %w", err)
	}
	if err := netlink.LinkSubscribe(links, ctx.Done()); err != nil {
		return nil, fmt.Errorf("watch links: %w", err)
	}
	kicks := make(chan struct{}, 1)
	go func() {
		defer close(kicks)
		for {
			var ok bool
			select {
			case _, ok = <-routes:
			case _, ok = <-links:
			}
			if !ok {
				return // The next periodic look finds out what was missed.
			}
			kick(kicks)
		}
	}()
	return kicks, nil
}
