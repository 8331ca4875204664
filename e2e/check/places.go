package check

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/seatrial/seatrial/e2e/history"
)

// place is what a path of the kubelet's says of the volume that is mounted there.
type place struct {
	pod    string // The uid of the pod it is for; "" for a place that all pods of a node share.
	volume string // The PersistentVolume's name, "" where the path has a hash instead.
	hash   string // Of the volume's handle, see handleHash.
}

// pluginsDir is where the kubelet mounts what all pods of a node share, and where it publishes block devices.
const pluginsDir = "/var/lib/kubelet/plugins/kubernetes.io/csi/"

// placeOf takes a path apart. It returns false for every path that is not the place of a persistent volume.
//
// The layouts are those of k8s.io/kubernetes: pkg/kubelet/config (GetPodVolumeDir, GetPodVolumeSubpathsDir),
// pkg/volume/csi/csi_attacher.go (makeDeviceMountPath: <driver>/<hash>/globalmount) and pkg/volume/csi/csi_block.go
// (volumeDevices/staging/<volume>, volumeDevices/publish/<volume>/<pod>, volumeDevices/<volume>/dev/<pod>).
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
	rest, ok := strings.CutPrefix(path, pluginsDir)
	if !ok {
		return place{}, false
	}
	parts := strings.Split(rest, "/")
	switch {
	case parts[0] != "volumeDevices" && len(parts) == 3 && parts[2] == "globalmount":
		return place{hash: parts[1]}, true
	case parts[0] == "volumeDevices" && len(parts) >= 3 && parts[1] == "staging":
		return place{volume: parts[2]}, true
	case parts[0] == "volumeDevices" && len(parts) == 4 && parts[1] == "publish":
		return place{pod: parts[3], volume: parts[2]}, true
	case parts[0] == "volumeDevices" && len(parts) == 4 && parts[2] == "dev":
		return place{pod: parts[3], volume: parts[1]}, true
	}
	return place{}, false
}

// handleHash is the name by which the kubelet calls the directory of a global mount: the SHA-256 of the handle.
func handleHash(handle string) string {
	sum := sha256.Sum256([]byte(handle))
	return hex.EncodeToString(sum[:])
}
