package check

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/seatrial/seatrial/chaos/history"
)

// place is what a path of the kubelet's says of the volume that is mounted there.
type place struct {
	pod    string // The uid of the pod it is for; "" for a place that all pods of a node share.
	volume string // The PersistentVolume's name, "" where the path has a hash instead.
	hash   string // Of the volume's handle, see handleHash.
}

// placeOf takes a path apart. It returns false for every path that is not the place of a persistent volume.
//
// The layout of subpaths is that of k8s.io/kubernetes pkg/kubelet/config (GetPodVolumeSubpathsDir).
func placeOf(path string) (place, bool) {
	if kv, ok := history.ParseKubeletPath(path); ok {
		return place{pod: kv.PodUID, volume: kv.Name}, !ephemeral(kv.Plugin)
	}
	if rest, ok := strings.CutPrefix(path, "/var/lib/kubelet/pods/"); ok {
		parts := strings.Split(rest, "/")
		if len(parts) == 5 && parts[1] == "volume-subpaths" {
			return place{pod: parts[0], volume: parts[2]}, true
		}
		return place{}, false
	}
	if g, ok := history.ParseCSIGlobalMount(path); ok {
		return place{hash: g.Hash}, true
	}
	if b, ok := history.ParseKubeletBlockPath(path); ok {
		return place{pod: b.PodUID, volume: b.Name}, true
	}
	return place{}, false
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
