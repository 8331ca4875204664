package history

import (
	"encoding/hex"
	"strings"
)

// kubeletRoot is the kubelet's root directory on every node of kubeadm and kind, and the kubelet's own default.
const kubeletRoot = "/var/lib/kubelet/"

// CSIGlobalMount is what the path of a CSI volume's global mount says: the one mount of a volume on a node, made by
// NodeStageVolume, of which each pod's is a bind mount.
type CSIGlobalMount struct {
	Driver string // The CSI driver's name.
	Hash   string // SHA-256 of the volume handle, lower-case hex.
}

// ParseCSIGlobalMount takes a path like
// /var/lib/kubelet/plugins/kubernetes.io/csi/<driver>/<SHA-256 of the volume handle>/globalmount apart. The layout is
// that of k8s.io/kubernetes v1.37.0 pkg/volume/csi (makeDeviceMountPath). It returns false for every other path.
func ParseCSIGlobalMount(path string) (CSIGlobalMount, bool) {
	const sha256Size = 32
	rest, ok := strings.CutPrefix(path, kubeletRoot+"plugins/kubernetes.io/csi/")
	if !ok {
		return CSIGlobalMount{}, false
	}
	parts := strings.Split(rest, "/")
	if len(parts) != 3 || !isName(parts[0]) || parts[0] == "volumeDevices" || parts[2] != "globalmount" {
		return CSIGlobalMount{}, false
	}
	sum, err := hex.DecodeString(parts[1])
	if err != nil || len(sum) != sha256Size || strings.ToLower(parts[1]) != parts[1] {
		return CSIGlobalMount{}, false
	}
	return CSIGlobalMount{Driver: parts[0], Hash: parts[1]}, true
}

// BlockRole says what a path of a volume of volumeMode Block is for.
type BlockRole string

// The roles of paths of block volumes.
const (
	BlockStaging BlockRole = "staging" // The directory that is given to NodeStageVolume.
	BlockPublish BlockRole = "publish" // The device, as NodePublishVolume made it for one pod.
	BlockMap     BlockRole = "map"     // The kubelet's bind mount of the published device, in the global map path.
	BlockPod     BlockRole = "pod"     // The link to the device in the pod's own directory.
)

// KubeletBlock is what a path of a volume of volumeMode Block says. PodUID is empty for a staging path.
type KubeletBlock struct {
	Role   BlockRole
	Plugin string // As the kubelet escapes it: "kubernetes.io~csi".
	Name   string // The volume's name: the PV's.
	PodUID string
}

// ParseKubeletBlockPath takes apart the paths that the kubelet has for block volumes. Below
// /var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices they are staging/<name>, publish/<name>/<pod uid> and
// <name>/dev/<pod uid>; and /var/lib/kubelet/pods/<uid>/volumeDevices/<plugin>/<name>. The layout is that of
// k8s.io/kubernetes v1.37.0 pkg/volume/csi (csi_block.go) and pkg/kubelet/config. A CSI driver may stage below the
// staging path, so that is its prefix. It returns false for every other path.
func ParseKubeletBlockPath(path string) (KubeletBlock, bool) {
	const csi = "kubernetes.io~csi"
	if rest, ok := strings.CutPrefix(path, kubeletRoot+"plugins/kubernetes.io/csi/volumeDevices/"); ok {
		parts := strings.Split(rest, "/")
		switch {
		case len(parts) >= 2 && parts[0] == "staging" && allNames(parts):
			return KubeletBlock{Role: BlockStaging, Plugin: csi, Name: parts[1]}, true
		case len(parts) == 3 && parts[0] == "publish" && allNames(parts):
			return KubeletBlock{Role: BlockPublish, Plugin: csi, Name: parts[1], PodUID: parts[2]}, true
		case len(parts) == 3 && parts[1] == "dev" && allNames(parts):
			return KubeletBlock{Role: BlockMap, Plugin: csi, Name: parts[0], PodUID: parts[2]}, true
		}
		return KubeletBlock{}, false
	}
	if rest, ok := strings.CutPrefix(path, kubeletRoot+"pods/"); ok {
		parts := strings.Split(rest, "/")
		if len(parts) == 4 && parts[1] == "volumeDevices" && allNames(parts) {
			return KubeletBlock{Role: BlockPod, Plugin: parts[2], Name: parts[3], PodUID: parts[0]}, true
		}
	}
	return KubeletBlock{}, false
}

// IsKubeletBlockPath reports that a path is one of a volume of volumeMode Block.
func IsKubeletBlockPath(path string) bool {
	_, ok := ParseKubeletBlockPath(path)
	return ok
}

// isName reports that a part of a path can be a file's name, and leads nowhere else.
func isName(part string) bool { return part != "" && part != "." && part != ".." }

func allNames(parts []string) bool {
	for _, p := range parts {
		if !isName(p) {
			return false
		}
	}
	return true
}
