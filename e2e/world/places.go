package world

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// Place is what a kubelet path says about the volume that is mounted there.
type Place struct {
	Pod    string // UID of the pod; "" for a global mount, which all pods of a node share.
	Volume string // Name of the PersistentVolume; "" if the path has a hash instead.
	Hash   string // Hash of the volume handle, see handleHash.
}

// PlaceOf parses a path. It returns false if the path is not the mount point of a persistent volume.
//
// The layout of subpaths is that of k8s.io/kubernetes pkg/kubelet/config (GetPodVolumeSubpathsDir).
func PlaceOf(path string) (Place, bool) {
	if kv, ok := history.ParseKubeletPath(path); ok {
		return Place{Pod: kv.PodUID, Volume: kv.Name}, !ephemeral(kv.Plugin)
	}
	if rest, ok := strings.CutPrefix(path, "/var/lib/kubelet/pods/"); ok {
		parts := strings.Split(rest, "/")
		if len(parts) == 5 && parts[1] == "volume-subpaths" {
			return Place{Pod: parts[0], Volume: parts[2]}, true
		}
		return Place{}, false
	}
	if g, ok := history.ParseCSIGlobalMount(path); ok {
		return Place{Hash: g.Hash}, true
	}
	if b, ok := history.ParseKubeletBlockPath(path); ok {
		return Place{Pod: b.PodUID, Volume: b.Name}, true
	}
	return Place{}, false
}

// shortPath shortens the hash in the path of a global mount: it would double the length of a sentence that names the
// volume anyway.
func shortPath(path string) string {
	g, ok := history.ParseCSIGlobalMount(path)
	if !ok {
		return path
	}
	return strings.Replace(path, g.Hash, g.Hash[:8]+"...", 1)
}

// handleHash returns the directory name that the kubelet gives a global mount: the SHA-256 of the volume handle.
func handleHash(handle string) string {
	sum := sha256.Sum256([]byte(handle))
	return hex.EncodeToString(sum[:])
}

// ephemeral reports whether a volume plugin's mounts are not persistent volumes.
func ephemeral(plugin string) bool {
	switch strings.TrimPrefix(plugin, "kubernetes.io~") {
	case "configmap", "downward-api", "empty-dir", "git-repo", "image", "projected", "secret":
		return true
	}
	return false
}
