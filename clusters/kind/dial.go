package kind

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// errNoNetns is wrapped when the node's network namespace cannot be entered from here: the engine's machine is another
// one, or we are not root on it.
var errNoNetns = errors.New("network namespace not within reach")

// Dial connects from inside the node's network namespace to an address that is an IP and a port: nothing resolves names
// here. Network is "tcp" or "udp", or one of them with "4" or "6".
//
// Where the harness is root on the engine's machine, the connection is a socket in the node's own network namespace:
// what is true of the node's network is true of it, and it costs no process. Elsewhere TCP goes through socat in the
// node, over the engine's exec; then an end of one direction ends the other after socatLinger.
func (n *node) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	fail := func(err error) (net.Conn, error) {
		return nil, fmt.Errorf("dial %s %s from node %q: %w", network, address, n.name, err)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return fail(fmt.Errorf("want an IP address and a port: %w", err))
	}
	family, err := withFamily(network, target.Addr())
	if err != nil {
		return fail(err)
	}
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	conn, err := n.dialInNetns(ctx, family, target)
	if err == nil {
		return conn, nil
	}
	if !errors.Is(err, errNoNetns) {
		return fail(err)
	}
	if family[:3] != "tcp" {
		return fail(err)
	}
	socat, err := n.dialSocat(ctx, family, target)
	if err != nil {
		return fail(err)
	}
	return socat, nil
}

// withFamily names the network with the family of the address, so that the resolver of this process, which knows only
// its own namespace, has no say in it.
func withFamily(network string, addr netip.Addr) (string, error) {
	family := "6"
	if addr.Unmap().Is4() {
		family = "4"
	}
	switch network {
	case "tcp", "udp":
		return network + family, nil
	case "tcp" + family, "udp" + family:
		return network, nil
	default:
		return "", fmt.Errorf("network %q does not fit the address; want tcp or udp", network)
	}
}
