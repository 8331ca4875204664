package nodeimage

import "github.com/seatrial/seatrial/tools/offline/debian"

// nodeSuite is Debian's release in the node: its systemd (252) runs on cgroup v1 and v2, while 256 and later refuse v1.
const nodeSuite = "bookworm"

// nodeRoot is the root file system of a node: what kind's own base image installs, and what the faults need there.
func nodeRoot() debian.Spec {
	return debian.Spec{
		Name:  "node-root",
		Suite: nodeSuite,
		Packages: []string{
			"systemd", "dbus", // Services, and transient units for the agent's timers.
			"conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod",
			"e2fsprogs", "xfsprogs", // File systems of volumes.
			"bash", "ca-certificates", "curl", "jq", "procps", "socat",
		},
	}
}
