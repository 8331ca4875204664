package history

import (
	"strings"
	"testing"
)

func TestPlaceOf(t *testing.T) {
	t.Parallel()
	const (
		pods    = "/var/lib/kubelet/pods/"
		plugins = "/var/lib/kubelet/plugins/kubernetes.io/csi/"
		flex    = "/var/lib/kubelet/plugins/kubernetes.io/flexvolume/"
		devices = plugins + "volumeDevices/"
		uid     = "0b5e1f3a-0d5c-4a55-a5b1-8f6e8a9c2d11"
		local   = "kubernetes.io~local-volume"
	)
	hash := HandleHash("disk-pvc-0")
	mounted := Place{Pod: uid, Volume: "pv-1", Kind: PlacePod}
	part := Place{Pod: uid, Volume: "pv-1", Kind: PlaceSubpath}
	global, block := Place{Hash: hash, Kind: PlaceGlobal}, Place{Pod: uid, Volume: "pv-1", Kind: PlaceBlock}
	staged := Place{Volume: "pv-1", Kind: PlaceBlock}
	for _, c := range []struct {
		path string
		want Place // The zero Place is not the mount point of a persistent volume.
	}{
		{pods + uid + "/volumes/" + local + "/pv-1", mounted},
		{pods + uid + "/volumes/kubernetes.io~csi/pv-1/mount", mounted},
		{pods + uid + "/volumes/kubernetes.io~csi/pv-1/other", Place{}},
		{pods + uid + "/volumes/kubernetes.io~csi/pv-1/mount/x", Place{}},
		{pods + uid + "/volumes/kubernetes.io~secret/pv-1", Place{}},
		{pods + uid + "/volumes/" + local, Place{}},
		{pods + uid + "/volumes/" + local + "/", Place{}},
		{pods + "/volumes/" + local + "/pv-1", Place{}},
		{pods[1:] + uid + "/volumes/" + local + "/pv-1", Place{}},
		{pods + uid + "/volume-subpaths/pv-1/mysql/0", part},
		{pods + uid + "/volume-subpaths/pv-1", Place{}},
		{pods + uid + "/volumeDevices/kubernetes.io~csi/pv-1", block},
		{pods + uid + "/volumeDevices/" + local + "/pv-1", block},
		{pods + uid + "/volumeDevices/" + local, Place{}},
		{pods + "../volumeDevices/a/b", Place{}},

		{devices + "staging/pv-1", staged},
		{devices + "staging/pv-1/device", staged},
		{devices + "staging/", Place{}},
		{devices + "staging/..", Place{}},
		{devices + "publish/pv-1/" + uid, block},
		{devices + "publish/pv-1", Place{}},
		{devices + "publish//" + uid, Place{}},
		{devices + "publish/pv-1/" + uid + "/x", Place{}},
		{devices + "pv-1/dev/" + uid, block},
		{devices + "pv-1/data/vol_data.json", Place{}},
		{devices[:len(devices)-1], Place{}},

		{plugins + "disk.example.com/" + hash + "/globalmount", global},
		{plugins + "disk.example.com/" + hash + "/globalmount/", Place{}},
		{flex + "seatrial/disk/mounts/pv-1", Place{Volume: "pv-1", Kind: PlaceGlobal}},
		{flex + "disk/mounts/pv-1", Place{Volume: "pv-1", Kind: PlaceGlobal}},
		{flex + "disk/mounts", Place{}},
		{flex + "disk/mounts/pv-1/x", Place{}},
		{pods + uid + "/volumes/seatrial~disk/pv-1", mounted},
		{plugins + "disk.example.com/" + hash, Place{}},
		{plugins + "disk.example.com/" + hash + "/vol_data.json", Place{}},
		{plugins + "disk.example.com/" + hash[2:] + "/globalmount", Place{}},
		{plugins + "disk.example.com/" + strings.ToUpper(hash) + "/globalmount", Place{}},
		{plugins + "disk.example.com/" + strings.Repeat("g", 64) + "/globalmount", Place{}},
		{plugins + "../" + hash + "/globalmount", Place{}},
		{plugins + "/" + hash + "/globalmount", Place{}},
		{plugins + "volumeDevices/" + hash + "/globalmount", Place{}},
		{plugins + "pv/pv-1/globalmount", Place{}}, // The layout before v1.24.
		{"/mnt" + plugins + "d/" + hash + "/globalmount", Place{}},

		{"/mnt/by-hand", Place{}},
		{"/dev/loop5", Place{}},
		{"", Place{}},
	} {
		if got, ok := PlaceOf(c.path); got != c.want || ok != (c.want != Place{}) {
			t.Errorf("PlaceOf(%q) = %+v, %t, want %+v", c.path, got, ok, c.want)
		}
	}
	if len(hash) != 64 {
		t.Errorf("the hash of a handle has %d characters: %s", len(hash), hash)
	}
}

// FuzzPlaceOf holds that what was read from a path is in it, as names that lead nowhere else, and is of its kind.
func FuzzPlaceOf(f *testing.F) {
	f.Add("/var/lib/kubelet/plugins/kubernetes.io/csi/d/" + strings.Repeat("0af3", 16) + "/globalmount")
	f.Add("/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/publish/pv-1/uid")
	f.Add("/var/lib/kubelet/plugins/kubernetes.io/csi/volumeDevices/pv-1/dev/uid")
	f.Add("/var/lib/kubelet/pods/uid/volumeDevices/kubernetes.io~csi/pv-1")
	f.Add("/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pv/mount")
	f.Add("/var/lib/kubelet/pods/u/volumes/p/n")
	f.Add("/var/lib/kubelet/pods////")
	f.Fuzz(func(t *testing.T, path string) {
		p, ok := PlaceOf(path)
		if !ok {
			if p != (Place{}) {
				t.Fatalf("%q is no volume and yet %+v", path, p)
			}
			return
		}
		for _, read := range []string{p.Pod, p.Volume, p.Hash} {
			if strings.Contains(read, "/") || !strings.Contains(path, read) {
				t.Errorf("%q: read %q", path, read)
			}
		}
		whole := map[PlaceKind]bool{
			PlaceGlobal: p.Hash != "" && p.Volume == "" && p.Pod == "", PlacePod: p.Volume != "" && p.Pod != "",
			PlaceSubpath: p.Volume != "" && p.Pod != "", PlaceBlock: p.Volume != "",
		}
		if !whole[p.Kind] || p.Kind != PlaceGlobal && p.Hash != "" {
			t.Errorf("PlaceOf(%q) = %+v", path, p)
		}
	})
}
