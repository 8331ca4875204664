package history

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"regexp"
	"slices"
	"strings"
)

// kubeletRoot is the kubelet's root directory, which is the same on every node of kubeadm and kind.
const kubeletRoot = "/var/lib/kubelet/"

// Place is what a path below the kubelet's root directory says about the volume that is mounted there.
type Place struct {
	Pod    string // UID of the pod; "" for a global mount, which all pods of a node share.
	Volume string // Name of the PersistentVolume; "" if the path has a hash instead.
	Hash   string // Hash of the volume handle, see HandleHash.
	Kind   PlaceKind
}

// PlaceKind says what is mounted at a place.
type PlaceKind string

// The kinds of places.
const (
	PlaceGlobal  PlaceKind = "global"  // The one mount of a CSI volume on a node, of which each pod's is a bind mount.
	PlacePod     PlaceKind = "pod"     // The volume in the pod's own directory.
	PlaceSubpath PlaceKind = "subpath" // A part of the volume, for one container.
	PlaceBlock   PlaceKind = "block"   // The device of a volume of volumeMode Block, or where it is staged.
)

// The paths below the kubelet's root. The layout is that of k8s.io/kubernetes v1.37.0: pkg/volume/csi
// (makeDeviceMountPath, csi_block.go), pkg/volume/flexvolume (getDeviceMountPath) and pkg/kubelet/config
// (GetPodVolumeDir, GetPodVolumeSubpathsDir). A CSI driver may stage below the staging path of a block volume, so that
// is its prefix.
const (
	csiPlugins = `^plugins/kubernetes\.io/csi/`
	csiDevices = csiPlugins + `volumeDevices/`
)

var (
	podPath     = regexp.MustCompile(`^pods/(?P<pod>[^/]+)/volumes/(?P<plugin>[^/]+)/(?P<volume>[^/]+)(?:/mount)?$`)
	subpath     = regexp.MustCompile(`^pods/(?P<pod>[^/]+)/volume-subpaths/(?P<volume>[^/]+)/[^/]+/[^/]+$`)
	devicePath  = regexp.MustCompile(`^pods/(?P<pod>[^/]+)/volumeDevices/[^/]+/(?P<volume>[^/]+)$`)
	stagingPath = regexp.MustCompile(csiDevices + `staging/(?P<volume>[^/]+)(?:/.*)?$`)
	publishPath = regexp.MustCompile(csiDevices + `publish/(?P<volume>[^/]+)/(?P<pod>[^/]+)$`)
	mapPath     = regexp.MustCompile(csiDevices + `(?P<volume>[^/]+)/dev/(?P<pod>[^/]+)$`)
	otherDevice = regexp.MustCompile(csiDevices)
	globalPath  = regexp.MustCompile(csiPlugins + `[^/]+/(?P<hash>[0-9a-f]{64})/globalmount$`)
	flexPath    = regexp.MustCompile(`^plugins/kubernetes\.io/flexvolume/.+/mounts/(?P<volume>[^/]+)$`)
)

// layout returns the kinds of paths; the first that matches counts. The kind is empty where no volume is mounted.
func layout() []place {
	return []place{
		{PlacePod, podPath}, {PlaceSubpath, subpath}, {PlaceBlock, devicePath}, {PlaceBlock, stagingPath},
		{PlaceBlock, publishPath}, {PlaceBlock, mapPath}, {"", otherDevice}, {PlaceGlobal, globalPath},
		{PlaceGlobal, flexPath},
	}
}

type place struct {
	kind    PlaceKind
	pattern *regexp.Regexp
}

// PlaceOf parses a path. It returns false if the path is not the mount point of a persistent volume.
func PlaceOf(p string) (Place, bool) {
	rest, ok := strings.CutPrefix(p, kubeletRoot)
	if !ok || path.Clean(p) != p {
		return Place{}, false
	}
	for _, l := range layout() {
		m := l.pattern.FindStringSubmatch(rest)
		if m == nil {
			continue
		}
		group := func(name string) string {
			if i := l.pattern.SubexpIndex(name); i > 0 {
				return m[i]
			}
			return ""
		}
		if l.kind == "" || ephemeral(group("plugin")) {
			return Place{}, false
		}
		return Place{Pod: group("pod"), Volume: group("volume"), Hash: group("hash"), Kind: l.kind}, true
	}
	return Place{}, false
}

// HandleHash returns the directory name that the kubelet gives a global mount: the SHA-256 of the volume handle.
func HandleHash(handle string) string {
	sum := sha256.Sum256([]byte(handle))
	return hex.EncodeToString(sum[:])
}

// ephemeral reports whether a volume plugin's mounts are not persistent volumes.
func ephemeral(plugin string) bool {
	return slices.Contains([]string{
		"configmap", "downward-api", "empty-dir", "git-repo", "image", "projected", "secret",
	}, strings.TrimPrefix(plugin, "kubernetes.io~"))
}
