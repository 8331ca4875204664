package history

import (
	"path"
	"regexp"
	"strings"
)

// The paths of volumes below the kubelet's root directory, which is the same on every node of kubeadm and kind. The
// layout is that of k8s.io/kubernetes v1.37.0: pkg/volume/csi (makeDeviceMountPath, csi_block.go) and
// pkg/kubelet/config (GetPodVolumeDir).
const (
	kubeletRoot = "/var/lib/kubelet/"
	csiPlugin   = "kubernetes.io~csi"
)

var (
	globalMountPath = regexp.MustCompile(`^plugins/kubernetes\.io/csi/([^/]+)/([0-9a-f]{64})/globalmount$`)
	volumePath      = regexp.MustCompile(`^pods/([^/]+)/volumes/([^/]+)/([^/]+)(?:/mount)?$`)
	devicePath      = regexp.MustCompile(`^plugins/kubernetes\.io/csi/volumeDevices/` +
		`(?:staging/([^/]+)(?:/.*)?|publish/([^/]+)/([^/]+)|([^/]+)/dev/([^/]+))$`)
	podDevicePath = regexp.MustCompile(`^pods/([^/]+)/volumeDevices/([^/]+)/([^/]+)$`)
)

// submatch returns the groups of a pattern in a path below the kubelet's root, nil for a path that does not match or
// leads somewhere else.
func submatch(pattern *regexp.Regexp, p string) []string {
	rest, ok := strings.CutPrefix(p, kubeletRoot)
	if !ok || path.Clean(p) != p {
		return nil
	}
	return pattern.FindStringSubmatch(rest)
}

// CSIGlobalMount is what the path of a CSI volume's global mount says: the one mount of a volume on a node, made by
// NodeStageVolume, of which each pod's is a bind mount.
type CSIGlobalMount struct {
	Driver string // The CSI driver's name.
	Hash   string // SHA-256 of the volume handle, lower-case hex.
}

// ParseCSIGlobalMount takes a path like /var/lib/kubelet/plugins/kubernetes.io/csi/<driver>/<SHA-256 of the volume
// handle>/globalmount apart. It returns false for every other path.
func ParseCSIGlobalMount(path string) (CSIGlobalMount, bool) {
	m := submatch(globalMountPath, path)
	if m == nil || m[1] == "volumeDevices" {
		return CSIGlobalMount{}, false
	}
	return CSIGlobalMount{Driver: m[1], Hash: m[2]}, true
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
// <name>/dev/<pod uid>; and /var/lib/kubelet/pods/<uid>/volumeDevices/<plugin>/<name>. A CSI driver may stage below the
// staging path, so that is its prefix. It returns false for every other path.
func ParseKubeletBlockPath(path string) (KubeletBlock, bool) {
	if m := submatch(podDevicePath, path); m != nil {
		return KubeletBlock{Role: BlockPod, Plugin: m[2], Name: m[3], PodUID: m[1]}, true
	}
	m := submatch(devicePath, path)
	switch {
	case m == nil:
		return KubeletBlock{}, false
	case m[1] != "":
		return KubeletBlock{Role: BlockStaging, Plugin: csiPlugin, Name: m[1]}, true
	case m[2] != "":
		return KubeletBlock{Role: BlockPublish, Plugin: csiPlugin, Name: m[2], PodUID: m[3]}, true
	}
	return KubeletBlock{Role: BlockMap, Plugin: csiPlugin, Name: m[4], PodUID: m[5]}, true
}

// IsKubeletBlockPath reports that a path is one of a volume of volumeMode Block.
func IsKubeletBlockPath(path string) bool {
	_, ok := ParseKubeletBlockPath(path)
	return ok
}

// KubeletVolume is what a mount path below the kubelet's root directory says.
type KubeletVolume struct {
	PodUID string
	Plugin string // As the kubelet escapes it, for example "kubernetes.io~local-volume".
	Name   string // The volume's name: the PV's for a persistent volume.
}

// ParseKubeletPath takes a path like /var/lib/kubelet/pods/<uid>/volumes/<plugin>/<name>[/mount] apart. It returns
// false for every other path.
func ParseKubeletPath(path string) (KubeletVolume, bool) {
	m := submatch(volumePath, path)
	if m == nil {
		return KubeletVolume{}, false
	}
	return KubeletVolume{PodUID: m[1], Plugin: m[2], Name: m[3]}, true
}
