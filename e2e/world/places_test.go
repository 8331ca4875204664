package world

import "testing"

func TestPlaceOf(t *testing.T) {
	const plugins, pods = "/var/lib/kubelet/plugins/kubernetes.io/csi/", "/var/lib/kubelet/pods/"
	hash := handleHash("disk-pvc-0")
	for _, c := range []struct {
		path string
		want Place
		ok   bool
	}{
		{pods + "u/volumes/kubernetes.io~csi/pvc-0/mount", Place{Pod: "u", Volume: "pvc-0"}, true},
		{pods + "u/volumes/kubernetes.io~local-volume/pv", Place{Pod: "u", Volume: "pv"}, true},
		{pods + "u/volumes/kubernetes.io~secret/s", Place{Pod: "u", Volume: "s"}, false},
		{pods + "u/volume-subpaths/pvc-0/mysql/0", Place{Pod: "u", Volume: "pvc-0"}, true},
		{pods + "u/volume-subpaths/pvc-0", Place{}, false},
		{plugins + "shared.disk/" + hash + "/globalmount", Place{Hash: hash}, true},
		{plugins + "shared.disk/" + hash, Place{}, false},
		{plugins + "volumeDevices/staging/pvc-0", Place{Volume: "pvc-0"}, true},
		{plugins + "volumeDevices/staging/pvc-0/data", Place{Volume: "pvc-0"}, true},
		{plugins + "volumeDevices/publish/pvc-0/u", Place{Pod: "u", Volume: "pvc-0"}, true},
		{plugins + "volumeDevices/pvc-0/dev/u", Place{Pod: "u", Volume: "pvc-0"}, true},
		{plugins + "volumeDevices", Place{}, false},
		{"/mnt/by-hand", Place{}, false},
		{"", Place{}, false},
	} {
		if got, ok := PlaceOf(c.path); ok != c.ok || ok && got != c.want {
			t.Errorf("placeOf(%q) = %+v, %v, want %+v, %v", c.path, got, ok, c.want, c.ok)
		}
	}
	if len(hash) != 64 {
		t.Errorf("the hash of a handle has %d characters: %s", len(hash), hash)
	}
}

func FuzzPlaceOf(f *testing.F) {
	f.Add("/var/lib/kubelet/plugins/kubernetes.io/csi/d/h/globalmount")
	f.Add("/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/v/mount")
	f.Fuzz(func(t *testing.T, path string) {
		p, ok := PlaceOf(path)
		if ok && p.Volume == "" && p.Hash == "" && p.Pod == "" {
			t.Errorf("placeOf(%q) is the place of nothing", path)
		}
	})
}
