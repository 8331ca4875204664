package world

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// Place is what a path of the kubelet's says of the volume that is mounted there.
type Place struct {
	Pod    string // The uid of the pod it is for; "" for a place that all pods of a node share.
	Volume string // The PersistentVolume's name, "" where the path has a hash instead.
	Hash   string // Of the volume's handle, see handleHash.
}

// PlaceOf takes a path apart. It returns false for every path that is not the place of a persistent volume.
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

// shortPath leaves the hash of a global mount out: it is as long as the rest of a sentence, and the volume is named
// beside it.
func shortPath(path string) string {
	g, ok := history.ParseCSIGlobalMount(path)
	if !ok {
		return path
	}
	return strings.Replace(path, g.Hash, g.Hash[:8]+"...", 1)
}

// handleHash is the name by which the kubelet calls the directory of a global mount: the SHA-256 of the handle.
func handleHash(handle string) string {
	sum := sha256.Sum256([]byte(handle))
	return hex.EncodeToString(sum[:])
}

// ephemeral are the plugins whose mounts are no persistent volumes.
func ephemeral(plugin string) bool {
	switch strings.TrimPrefix(plugin, "kubernetes.io~") {
	case "configmap", "downward-api", "empty-dir", "git-repo", "image", "projected", "secret":
		return true
	}
	return false
}
