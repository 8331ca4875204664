package check

import "testing"

func TestPlaceOf(t *testing.T) {
	const plugins, pods = "/var/lib/kubelet/plugins/kubernetes.io/csi/", "/var/lib/kubelet/pods/"
	hash := handleHash("disk-pvc-0")
	for _, c := range []struct {
		path string
		want place
		ok   bool
	}{
		{pods + "u/volumes/kubernetes.io~csi/pvc-0/mount", place{pod: "u", volume: "pvc-0"}, true},
		{pods + "u/volumes/kubernetes.io~local-volume/pv", place{pod: "u", volume: "pv"}, true},
		{pods + "u/volumes/kubernetes.io~secret/s", place{pod: "u", volume: "s"}, false},
		{pods + "u/volume-subpaths/pvc-0/mysql/0", place{pod: "u", volume: "pvc-0"}, true},
		{pods + "u/volume-subpaths/pvc-0", place{}, false},
		{plugins + "shared.disk/" + hash + "/globalmount", place{hash: hash}, true},
		{plugins + "shared.disk/" + hash, place{}, false},
		{plugins + "volumeDevices/staging/pvc-0", place{volume: "pvc-0"}, true},
		{plugins + "volumeDevices/staging/pvc-0/data", place{volume: "pvc-0"}, true},
		{plugins + "volumeDevices/publish/pvc-0/u", place{pod: "u", volume: "pvc-0"}, true},
		{plugins + "volumeDevices/pvc-0/dev/u", place{pod: "u", volume: "pvc-0"}, true},
		{plugins + "volumeDevices", place{}, false},
		{"/mnt/by-hand", place{}, false},
		{"", place{}, false},
	} {
		if got, ok := placeOf(c.path); ok != c.ok || ok && got != c.want {
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
		p, ok := placeOf(path)
		if ok && p.volume == "" && p.hash == "" && p.pod == "" {
			t.Errorf("placeOf(%q) is the place of nothing", path)
		}
	})
}
