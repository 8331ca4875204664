package volfault

import (
	"strings"
	"testing"
)

func TestVolumeWithoutAFileSystemOfItsOwn(t *testing.T) {
	t.Parallel()
	const pods = "/var/lib/kubelet/pods/"
	const local = pods + "u1/volumes/kubernetes.io~local-volume/pv-1"
	const csi = pods + "u1/volumes/kubernetes.io~csi/pv-1/mount"
	for _, tt := range []struct {
		name, hit string // Hit is what would be damaged beside the volume.
		mounts    []Mount
	}{
		{"a local disk", "", []Mount{{Path: "/mnt/pv-1", Root: "/"}, {Path: local, Root: "/"}}},
		{"a local disk with another name", "", []Mount{{Path: "/mnt/ssd0", Root: "/"}, {Path: local, Root: "/"}}},
		{"a directory of it", "", []Mount{{Path: "/mnt/pv-1", Root: "/"}, {Path: local, Root: "/data"}}},
		{"a disk of a CSI driver", "", []Mount{
			{Path: "/var/lib/kubelet/plugins/kubernetes.io/csi/disk.example/5c1e/globalmount", Root: "/"},
			{Path: csi, Root: "/"}, {Path: pods + "u1/volume-subpaths/pv-1/mysql/0", Root: "/data"}}},
		{"a second pod of the node", "", []Mount{{Path: csi, Root: "/"},
			{Path: pods + "u2/volumes/kubernetes.io~csi/pv-1/mount", Root: "/"}}},
		{"a directory of the node's disk", `"/"`, []Mount{{Path: "/", Root: "/"}, {Path: local, Root: "/mnt/pv-1"}}},
		{"a directory of a disk for data", `"/data"`, []Mount{
			{Path: "/data", Root: "/"}, {Path: local, Root: "/pv-1"}}},
		{"a directory beside another volume", "pv-10", []Mount{{Path: local, Root: "/pv-1"},
			{Path: pods + "u2/volumes/kubernetes.io~local-volume/pv-10", Root: "/pv-10"}}},
	} {
		v := Volume{PV: "pv-1", Mounts: tt.mounts}
		if err := v.alone(); (err == nil) != (tt.hit == "") || err != nil && !strings.Contains(err.Error(), tt.hit) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
