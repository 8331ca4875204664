package nodeimage

import (
	"strings"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/tools/offline/debian"
)

// publishedImages are kind's own node images by Kubernetes version, by digest; the default one is the one in the
// pinned kind release's source.
func publishedImages() map[string]string {
	return map[string]string{
		"v1.37.0": "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
	}
}

// release holds the versions that kubeadm of one Kubernetes version asks for. The digest of the node image covers its
// fields by name.
type release struct {
	Kubernetes string
	// Etcd and CoreDNS are module versions.
	Etcd, CoreDNS string
	// EtcdTag, CoreDNSTag and PauseTag are the tags of kubeadm's image list.
	EtcdTag, CoreDNSTag, PauseTag string
}

func releases() []release {
	var all []release
	for _, r := range offline.Releases() {
		all = append(all, releaseFrom(r))
	}
	return all
}

// releaseFrom derives module versions from the tags: etcd's has the revision of its image behind a hyphen.
func releaseFrom(r offline.Release) release {
	etcd, _, _ := strings.Cut(r.Etcd, "-")
	return release{r.Kubernetes, "v" + etcd, r.CoreDNS, r.Etcd, r.CoreDNS, r.Pause}
}

// releaseOf finds the release of a Kubernetes version.
func releaseOf(version string) (release, error) {
	for _, r := range releases() {
		if r.Kubernetes == version {
			return r, nil
		}
	}
	return release{}, offline.ValidateImages(version, "")
}

// nodeRoot is the root file system of a node: what kind's own base image installs, and what the faults need there. The
// systemd of bookworm (252) runs on cgroup v1 and v2; 256 and later refuse v1.
func nodeRoot() debian.Spec {
	return debian.Spec{
		Name:  "node-root",
		Suite: "bookworm",
		Packages: []string{
			"systemd", "dbus", // Services, and transient units for the agent's timers.
			"conntrack", "iptables", "nftables", "iproute2", "ethtool", "util-linux", "mount", "kmod",
			"e2fsprogs", "xfsprogs", // File systems of volumes.
			"bash", "ca-certificates", "curl", "jq", "procps", "socat",
		},
	}
}
