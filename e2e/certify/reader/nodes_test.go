package reader

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/seatrial/seatrial/clusters/fake"
	"github.com/seatrial/seatrial/e2e/certify/apitest"
	"github.com/seatrial/seatrial/e2e/certify/audit"
)

// TestReadNodes: all of all nodes, or nothing and the reason.
func TestReadNodes(t *testing.T) {
	const config = "kind: KubeletConfiguration\nfailCgroupV1: false\n"
	const mount = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pv-1/mount"
	for name, c := range map[string]struct {
		change func(*apitest.Server)
		table  string
		want   string // Why nothing was read.
	}{
		"all": {func(*apitest.Server) {}, "90 28 7:3 / " + mount +
			" rw,noatime shared:4 - ext4 /dev/loop3 rw\n91 28 0:30 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n", ""},
		"no such path": {func(*apitest.Server) {}, "", "read the mounts of node"},
		"no mounts":    {func(*apitest.Server) {}, "what is this\n", "read the mounts of node"},
		"forbidden": {func(s *apitest.Server) {
			s.Wrong["/api/v1/nodes/t-worker/proxy/metrics"] = http.StatusForbidden
		}, "90 28 7:3 / / rw - ext4 /dev/loop3 rw\n", "read the metrics of the kubelet of node t-worker: "},
		"no number": {func(s *apitest.Server) {
			s.Kubelet["t-worker"] = certificateMetric + " soon\n"
		}, "90 28 7:3 / / rw - ext4 /dev/loop3 rw\n", "read the metrics of the kubelet of node t-worker: "},
	} {
		t.Run(name, func(t *testing.T) {
			s := apitest.Serve(t)
			cluster := fake.NewCluster("t", 1)
			nodes, err := cluster.Nodes(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.Kubelet = map[string]string{}
			for _, n := range nodes {
				s.Kubelet[n.Name()] = `kubernetes_feature_enabled{name="SELinuxMount",stage="BETA"} 1` + "\n" +
					certificateMetric + " 3600\n"
			}
			reply := fake.Reply{Stdout: c.table}
			if c.table == "" {
				reply = fake.Reply{ExitCode: 1, Stderr: "no such file"}
			}
			cluster.On([]string{"cat", "/proc/1/mountinfo"}, reply)
			cluster.On([]string{"cat", audit.KubeletConfig}, fake.Reply{Stdout: config})
			c.change(s)
			r, err := Open(t.Context(), s.Config())
			if err != nil {
				t.Fatal(err)
			}
			got := audit.Cluster{Missing: map[audit.Part]string{}}
			r.ReadNodes(t.Context(), nodes, &got)
			why := got.Missing[audit.NodeData]
			if c.want != "" {
				if !strings.Contains(why, c.want) || got.OnNodes != nil {
					t.Errorf("%q, %+v", why, got.OnNodes)
				}
				return
			}
			if why != "" || len(got.OnNodes) != 2 {
				t.Fatalf("%q, %+v", why, got.OnNodes)
			}
			for i, one := range got.OnNodes {
				ends := time.Until(one.CertificateEnds)
				one.CertificateEnds = time.Time{}
				want := audit.OnNode{Node: nodes[i].Name(), Gates: map[string]bool{"SELinuxMount": true},
					Mounts:   []audit.Mount{{Path: mount, Device: "7:3"}, {Path: cgroups, Device: "0:30"}},
					CgroupV1: true, CgroupV1Taken: true}
				if diff := cmp.Diff(want, one); diff != "" || ends < 59*time.Minute || ends > time.Hour {
					t.Errorf("ends in %s, %s", ends, diff)
				}
			}
		})
	}
}
