package audit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/e2e/check"
)

// TestOnNodes changes one thing in what the nodes of a healthy cluster show.
func TestOnNodes(t *testing.T) {
	for name, c := range map[string]struct {
		rule   string
		change func(*Cluster)
		want   []string
	}{
		"mount left behind": {"node-mounts", func(c *Cluster) {
			c.OnNodes[1].Mounts = append(c.OnNodes[1].Mounts, Mount{strings.Replace(mountedFor(2).Path,
				"00000002", "00000009", 1), "7:1"})
			c.Volumes[2].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
		}, []string{"danger: volume pv-2 is mounted on node node-1 for pod 00000000-0000-0000-0000-000000000009, " +
			"which is not there: /var/lib/kubelet/pods/00000000-0000-0000-0000-000000000009/volumes/kubernetes.io~" +
			"csi/pv-2/mount"}},
		"two nodes": {"node-mounts", func(c *Cluster) {
			c.OnNodes[1].Mounts = append(c.OnNodes[1].Mounts, mountedFor(0))
			twin := dataPod(0, "node-1")
			c.Pods = append(c.Pods, twin)
		}, []string{"danger: volume pv-0, ReadWriteOnce, is mounted on 2 nodes at once: node-0, node-1"}},
		"staged for nobody": {"node-mounts", func(c *Cluster) {
			c.OnNodes[2].Mounts = append(c.OnNodes[2].Mounts, stagedFor(5))
		}, []string{"danger: a volume is staged on node node-2, and no pod there has it: " + stagedFor(5).Path}},
		"no data": {"node-mounts", func(c *Cluster) {
			for _, plugin := range []string{"projected", "empty-dir", "secret"} {
				c.OnNodes[0].Mounts = append(c.OnNodes[0].Mounts, Mount{"/var/lib/kubelet/pods/" + string(uid(7)) +
					"/volumes/kubernetes.io~" + plugin + "/x", "0:9"})
			}
		}, nil},
		"certificate ended": {"node-kubelets", func(c *Cluster) {
			c.OnNodes[0].CertificateEnds = c.At.Add(-time.Second)
		}, []string{"danger: the client certificate of the kubelet of node node-0 has ended"}},
		"certificate ends": {"node-kubelets", func(c *Cluster) {
			c.OnNodes[0].CertificateEnds = c.At.Add(90 * time.Minute)
		}, []string{"warning: the client certificate of the kubelet of node node-0 ends in 1h30m0s"}},
		"gates differ": {"node-kubelets", func(c *Cluster) {
			c.OnNodes[2].Gates = map[string]bool{"SELinuxMount": true}
		},
			[]string{"warning: the kubelets of nodes node-2 and node-0, both v1.36.3, have different feature gates: " +
				"SELinuxMount"}},
		"cgroup v1": {"node-cgroups", func(c *Cluster) {
			c.OnNodes[0].CgroupV1, c.OnNodes[1].CgroupV1, c.OnNodes[2].CgroupV1 = true, true, true
			c.OnNodes[1].CgroupV1Taken = true
			c.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.34.4"
			c.Nodes[1].Status.NodeInfo.KubeletVersion = "v1.34.4"
		}, []string{"danger: node node-0 has cgroup v1, its kubelet is v1.34.4, and /var/lib/kubelet/config.yaml " +
			"does not set failCgroupV1: false"}},
		"versions differ": {"node-kubelets", func(c *Cluster) {
			c.OnNodes[2].Gates = map[string]bool{"SELinuxMount": true}
			c.Nodes[2].Status.NodeInfo.KubeletVersion = "v1.35.1"
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := healthy()
			c.change(&cluster)
			if diff := cmp.Diff(c.want, of(Audit(cluster, toNext()), c.rule)); diff != "" {
				t.Error(diff)
			}
		})
	}
	c := healthy()
	c.OnNodes[1].CertificateEnds = time.Time{}
	if r := Audit(c, toNext()); r.Verdict != check.Unknown || len(r.Unseen) != 1 {
		t.Errorf("a kubelet that tells no end: %s %v", r.Verdict, r.Unseen)
	}
	c.OnNodes = nil
	if r := Audit(c, toNext()); r.Verdict != check.Unknown || len(r.Unseen) != 3 {
		t.Errorf("no node looked at: %s %v", r.Verdict, r.Unseen)
	}
}

// TestFingerprint: what a cluster at work changes leaves it as it is; what makes it another cluster does not.
func TestFingerprint(t *testing.T) {
	of := func(change func(*Cluster)) []string {
		c := healthy()
		change(&c)
		lines, err := Fingerprint(c)
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	want := of(func(*Cluster) {})
	if !slices.IsSorted(want) || len(want) != 8 {
		t.Errorf("fingerprint %q", want)
	}
	if got := of(func(c *Cluster) {
		c.Pods, c.Volumes, c.Claims, c.Attachments = c.Pods[1:], nil, nil, nil
		c.Nodes[0].Status.Conditions[0].Status, c.Nodes[1].ResourceVersion = corev1.ConditionUnknown, "7"
		c.StatefulSets[0].Spec.Replicas, c.StatefulSets[0].Status.ReadyReplicas = ptr(int32(1)), 1
		c.Budgets[0].Status.DisruptionsAllowed = 0
	}); !slices.Equal(got, want) {
		t.Errorf("a cluster at work: %v", Difference(want, got))
	}
	for name, change := range map[string]func(*Cluster){
		"version": func(c *Cluster) { c.Version = "v1.36.4" },
		"gate":    func(c *Cluster) { c.Gates["SELinuxMount"] = true },
		"kubelet": func(c *Cluster) { c.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.36.4" },
		"kernel":  func(c *Cluster) { c.Nodes[0].Status.NodeInfo.KernelVersion = "7.0" },
		"machine": func(c *Cluster) { c.Nodes[0].UID = "other" },
		"driver":  func(c *Cluster) { c.Drivers[0].Spec.AttachRequired = ptr(false) },
		"image":   func(c *Cluster) { c.StatefulSets[0].Spec.Template.Labels["tier"] = "db" },
		"budget":  func(c *Cluster) { c.Budgets[0].Spec.MaxUnavailable = nil },
	} {
		if got := Difference(want, of(change)); len(got) != 2 || !strings.HasPrefix(got[0], "gone: ") ||
			!strings.HasPrefix(got[1], "new: ") {
			t.Errorf("%s: %q", name, got)
		}
	}
	const label = "seatrial/run"
	if got := of(func(c *Cluster) {
		own := storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "own", Labels: map[string]string{label: "r1"}}}
		c.Drivers = append(c.Drivers, own)
		*c = c.Without(label)
	}); !slices.Equal(got, want) {
		t.Errorf("with a driver that does not count: %v", Difference(want, got))
	}
	c := healthy()
	c.Missing = map[Part]string{Nodes: "forbidden"}
	if _, err := Fingerprint(c); err == nil || !strings.Contains(err.Error(), "nodes: forbidden") {
		t.Errorf("without nodes: %v", err)
	}
}

// TestInventory names what a trial left behind or took away, and not what a controller makes anew.
func TestInventory(t *testing.T) {
	c := healthy()
	before := Inventory(c)
	c.Pods, c.Volumes = c.Pods[1:], c.Volumes[1:]
	c.Pods = append(c.Pods, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "agent"}})
	c.Nodes[1].Spec.Unschedulable = true
	c.Nodes[1].Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
	want := []string{"gone: PersistentVolume pv-0", "new: Pod shop/agent", "new: cordon of Node node-1",
		"new: taint k:NoExecute of Node node-1"}
	if diff := cmp.Diff(want, Difference(before, Inventory(c))); diff != "" {
		t.Error(diff)
	}
}
