package kind

import (
	"fmt"

	"github.com/vishvananda/netlink"

	"github.com/seatrial/seatrial/clusters"
)

// addQdisc adds it in the thread's network namespace.
func addQdisc(kind string) error {
	kernel, err := netlink.NewHandle()
	if err != nil {
		return fmt.Errorf("talk to the kernel: %w", err)
	}
	defer kernel.Close()
	const loopback = 1
	at := netlink.QdiscAttrs{LinkIndex: loopback, Parent: netlink.HANDLE_ROOT, Handle: netlink.MakeHandle(1, 0)}
	var q netlink.Qdisc = netlink.NewNetem(at, netlink.NetemQdiscAttrs{Latency: 1000})
	if kind == clusters.CanTBF {
		q = &netlink.Tbf{QdiscAttrs: at, Rate: 125_000, Limit: 60_000, Buffer: 10_000}
	}
	return kernel.QdiscAdd(q)
}
