package history

import (
	"strings"
	"testing"
)

func TestParseCSIGlobalMount(t *testing.T) {
	t.Parallel()
	const csi = "/var/lib/kubelet/plugins/kubernetes.io/csi/"
	hash := strings.Repeat("0af3", 16)
	tests := []struct {
		path string
		want CSIGlobalMount
		ok   bool
	}{
		{csi + "disk.example.com/" + hash + "/globalmount", CSIGlobalMount{"disk.example.com", hash}, true},
		{csi + "disk.example.com/" + hash + "/globalmount/", CSIGlobalMount{}, false},
		{csi + "disk.example.com/" + hash, CSIGlobalMount{}, false},
		{csi + "disk.example.com/" + hash + "/vol_data.json", CSIGlobalMount{}, false},
		{csi + "disk.example.com/" + hash[2:] + "/globalmount", CSIGlobalMount{}, false},
		{csi + "disk.example.com/" + strings.ToUpper(hash) + "/globalmount", CSIGlobalMount{}, false},
		{csi + "disk.example.com/" + strings.Repeat("g", 64) + "/globalmount", CSIGlobalMount{}, false},
		{csi + "../" + hash + "/globalmount", CSIGlobalMount{}, false},
		{csi + "/" + hash + "/globalmount", CSIGlobalMount{}, false},
		{csi + "volumeDevices/" + hash + "/globalmount", CSIGlobalMount{}, false},
		{csi + "pv/pv-1/globalmount", CSIGlobalMount{}, false}, // The layout before v1.24.
		{"/mnt" + csi + "d/" + hash + "/globalmount", CSIGlobalMount{}, false},
		{"", CSIGlobalMount{}, false},
	}
	for _, tt := range tests {
		if got, ok := ParseCSIGlobalMount(tt.path); got != tt.want || ok != tt.ok {
			t.Errorf("ParseCSIGlobalMount(%q) = %+v, %t, want %+v, %t", tt.path, got, ok, tt.want, tt.ok)
		}
	}
}

func TestParseKubeletBlockPath(t *testing.T) {
	t.Parallel()
	const devices = "/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/"
	const pods = "/var/lib/kubelet/pods/"
	const csi = "kubernetes.io~csi"
	tests := []struct {
		path string
		want KubeletBlock
	}{
		{devices + "staging/pv-1", KubeletBlock{BlockStaging, csi, "pv-1", ""}},
		{devices + "staging/pv-1/device", KubeletBlock{BlockStaging, csi, "pv-1", ""}},
		{devices + "publish/pv-1/uid", KubeletBlock{BlockPublish, csi, "pv-1", "uid"}},
		{devices + "pv-1/dev/uid", KubeletBlock{BlockMap, csi, "pv-1", "uid"}},
		{pods + "uid/volumeDevices/" + csi + "/pv-1", KubeletBlock{BlockPod, csi, "pv-1", "uid"}},
		{pods + "uid/volumeDevices/kubernetes.io~local-volume/pv-1",
			KubeletBlock{BlockPod, "kubernetes.io~local-volume", "pv-1", "uid"}},
		{devices + "publish/pv-1", KubeletBlock{}},
		{devices + "publish//uid", KubeletBlock{}},
		{devices + "publish/pv-1/uid/x", KubeletBlock{}},
		{devices + "staging/", KubeletBlock{}},
		{devices + "staging/..", KubeletBlock{}},
		{devices + "pv-1/data/vol_data.json", KubeletBlock{}},
		{pods + "uid/volumes/" + csi + "/pv-1", KubeletBlock{}},
		{pods + "uid/volumeDevices/" + csi, KubeletBlock{}},
		{pods + "../volumeDevices/a/b", KubeletBlock{}},
		{"/dev/loop5", KubeletBlock{}},
	}
	for _, tt := range tests {
		got, ok := ParseKubeletBlockPath(tt.path)
		if got != tt.want || ok != (tt.want != KubeletBlock{}) || ok != IsKubeletBlockPath(tt.path) {
			t.Errorf("ParseKubeletBlockPath(%q) = %+v, %t, want %+v", tt.path, got, ok, tt.want)
		}
	}
}

// FuzzKubeletPaths holds the parsers of paths to this: a path is of one kind at most, and what was read from it is in
// it, as names that lead nowhere else.
func FuzzKubeletPaths(f *testing.F) {
	f.Add("/var/lib/kubelet/plugins/kubernetes.io/csi/d/" + strings.Repeat("0af3", 16) + "/globalmount")
	f.Add("/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv-1/uid")
	f.Add("/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pv-1/dev/uid")
	f.Add("/var/lib/kubelet/pods/uid/volumeDevices/kubernetes.io~csi/pv-1")
	f.Add("/var/lib/kubelet/pods/uid/volumes/kubernetes.io~csi/pv-1/mount")
	f.Fuzz(func(t *testing.T, path string) {
		global, isGlobal := ParseCSIGlobalMount(path)
		block, isBlock := ParseKubeletBlockPath(path)
		volume, isVolume := ParseKubeletPath(path)
		kinds := 0
		for _, is := range []bool{isGlobal, isBlock, isVolume} {
			if is {
				kinds++
			}
		}
		if kinds > 1 {
			t.Errorf("%q is of %d kinds", path, kinds)
		}
		for _, read := range []string{
			global.Driver, global.Hash, block.Name, block.PodUID, block.Plugin, volume.Name, volume.PodUID,
		} {
			if strings.Contains(read, "/") || kinds == 1 && block.Role == "" && !strings.Contains(path, read) {
				t.Errorf("%q: read %q", path, read)
			}
		}
	})
}
