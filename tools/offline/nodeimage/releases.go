package nodeimage

import "github.com/seatrial/seatrial/clusters/offline"

// DefaultVersion is the Kubernetes version of the published image that the pinned kind release uses.
const DefaultVersion = offline.DefaultKubernetesVersion

// publishedImages are kind's own node images by Kubernetes version, by digest; the default one is the one in the
// pinned kind release's source.
func publishedImages() map[string]string {
	return map[string]string{
		"v1.37.0": "kindest/node:v1.37.0@sha256:a1ed56cfb0e7b93589bdf97c8cd566405a265939e3620fc4f5de89adff580ae5",
	}
}

// release is what goes with one Kubernetes version: the names and versions kubeadm of that version asks for.
type release struct {
	Kubernetes string
	// Etcd and CoreDNS are module versions.
	Etcd, CoreDNS string
	// EtcdTag, CoreDNSTag and PauseTag are the tags of kubeadm's image list.
	EtcdTag, CoreDNSTag, PauseTag string
}

// releases are the Kubernetes versions that are pinned; a new one is a line here and a run of the pin program.
func releases() []release {
	return []release{
		{"v1.37.0", "v3.7.0", "v1.14.6", "3.7.0-0", "v1.14.6", "3.10.2"},
		{"v1.36.3", "v3.6.8", "v1.14.2", "3.6.8-0", "v1.14.2", "3.10.2"},
	}
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
