package volfault

import (
	"strings"
	"testing"
)

func TestVolumeWithoutAFileSystemOfItsOwn(t *testing.T) {
	t.Parallel()
	const kubelet = "/var/lib/kubelet/"
	const pod = kubelet + "pods/u1/volumes/"
	for _, tt := range []struct {
		name, hit string // Hit is what would be damaged beside the volume.
		paths     []string
	}{
		{"a local disk", "", []string{"/mnt/pv-1", pod + "kubernetes.io~local-volume/pv-1"}},
		{"a disk of a CSI driver", "", []string{
			kubelet + "plugins/kubernetes.io/csi/disk.example/5c1e/globalmount", pod + "kubernetes.io~csi/pv-1/mount"}},
		{"a path within it", "", []string{
			pod + "kubernetes.io~csi/pv-1/mount", kubelet + "pods/u1/volume-subpaths/pv-1/mysql/0"}},
		{"a second pod of the node", "", []string{pod + "kubernetes.io~csi/pv-1/mount",
			kubelet + "pods/u2/volumes/kubernetes.io~csi/pv-1/mount"}},
		{"a directory of the node's disk", `"/"`, []string{"/", pod + "kubernetes.io~local-volume/pv-1"}},
		{"a directory of the kubelet's disk", `"/var"`, []string{"/var", pod + "kubernetes.io~local-volume/pv-1"}},
		{"a directory beside another volume", "pv-10", []string{"/mnt/disk",
			pod + "kubernetes.io~local-volume/pv-1", kubelet + "pods/u2/volumes/kubernetes.io~local-volume/pv-10"}},
	} {
		v := Volume{PV: "pv-1"}
		for _, path := range tt.paths {
			v.Mounts = append(v.Mounts, Mount{Path: path})
		}
		if err := v.alone(); (err == nil) != (tt.hit == "") || err != nil && !strings.Contains(err.Error(), tt.hit) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
