package audit

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/seatrial/seatrial/e2e/check"
)

// toNext is the upgrade of the healthy cluster.
func toNext() Upgrade { return Upgrade{36, 37} }

// of returns what a rule found, each as severity and sentence.
func of(r Report, rule string) []string {
	var all []string
	for _, f := range r.Findings {
		if f.Rule == rule {
			all = append(all, string(f.Severity)+": "+f.What)
		}
	}
	return all
}

// TestRules changes one thing in a healthy cluster. Each case names what its rule must then find, in order, or nothing;
// an entry that begins with "unseen: " is something not looked at.
func TestRules(t *testing.T) {
	for _, c := range []struct {
		rule, name string
		change     func(*Cluster)
		want       []string
	}{
		{"two-attachments", "both attached", func(c *Cluster) {
			c.Attachments = append(c.Attachments, attachment(0, "node-1", true))
		}, []string{"danger: PersistentVolume pv-0, ReadWriteOnce, is attached to 2 nodes at once"}},
		{"two-attachments", "one attaching", func(c *Cluster) {
			c.Attachments = append(c.Attachments, attachment(0, "node-1", false))
		}, []string{"warning: PersistentVolume pv-0, ReadWriteOnce, is to be attached to 2 nodes at once"}},
		{"two-attachments", "ReadWriteMany", func(c *Cluster) {
			c.Volumes[0].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}
			c.Attachments = append(c.Attachments, attachment(0, "node-1", true))
		}, nil},
		{"two-attachments", "twice on one node", func(c *Cluster) {
			c.Attachments = append(c.Attachments, attachment(0, "node-0", true))
		}, nil},
		{"two-attachments", "inline volume", func(c *Cluster) {
			c.Attachments[0].Spec.Source.PersistentVolumeName = nil
		}, nil},

		{"orphan-attachment", "node gone", func(c *Cluster) {
			c.Attachments = append(c.Attachments, attachment(0, "node-9", true))
		}, []string{"warning: VolumeAttachment csi-0-node-9 (attached: true) is of node node-9, which is gone"}},
		{"orphan-attachment", "volume gone", func(c *Cluster) {
			c.Attachments = append(c.Attachments, attachment(9, "node-0", false))
		}, []string{"warning: VolumeAttachment csi-9-node-0 (attached: false) on node node-0 is of PersistentVolume " +
			"pv-9"}},

		{"volumes-in-use", "attached, used, not in use", func(c *Cluster) {
			c.Nodes[1].Status.VolumesInUse = nil
		}, []string{"danger: volume pv-1 is attached to node node-1 and mounted by Pod shop/mysql-1, but is not in " +
			"the"}},
		{"volumes-in-use", "mounted but not attached", func(c *Cluster) {
			c.Attachments[1].Status.Attached = false
		}, []string{"danger: volume pv-1 is mounted on node node-1 by Pod shop/mysql-1, but no VolumeAttachment"}},
		{"volumes-in-use", "not in volumesAttached", func(c *Cluster) {
			c.Nodes[1].Status.VolumesAttached = nil
		}, []string{"warning: volume pv-1 is attached to node node-1 and mounted by Pod shop/mysql-1, but is not in " +
			"the"}},
		{"volumes-in-use", "left behind", func(c *Cluster) {
			podNamed(c, "mysql-1").Spec.NodeName = "node-9"
		}, []string{"danger: node node-1 has volume pv-1 in volumesInUse, but no pod there uses it: a mount may be"}},
		{"volumes-in-use", "left behind and detached", func(c *Cluster) {
			c.Nodes[0].Status.VolumesInUse = append(c.Nodes[0].Status.VolumesInUse, called(9))
		}, []string{"danger: node node-0 has volume " + string(called(9)) + " in volumesInUse, but no pod there " +
			"uses it and no"}},
		{"volumes-in-use", "attached without a pod", func(c *Cluster) {
			podNamed(c, "mysql-1").Spec.NodeName = "node-9"
			c.Nodes[1].Status.VolumesInUse = nil
		}, []string{"warning: volume pv-1 is attached to node node-1, but no pod there uses it"}},
		{"volumes-in-use", "only the node says attached", func(c *Cluster) {
			podNamed(c, "mysql-1").Status.Phase = corev1.PodSucceeded
			c.Nodes[1].Status.VolumesInUse, c.Attachments = nil, slices.Delete(c.Attachments, 1, 2)
		}, []string{"warning: node node-1 has volume pv-1 in volumesAttached, but no VolumeAttachment"}},
		{"volumes-in-use", "a pod that starts", func(c *Cluster) {
			podNamed(c, "mysql-1").Status.ContainerStatuses = nil
			c.Nodes[1].Status.VolumesAttached, c.Attachments[1].Status.Attached = nil, false
		}, nil},
		{"volumes-in-use", "a driver that does not attach", func(c *Cluster) {
			c.Drivers[0].Spec.AttachRequired = ptr(false)
			c.Attachments = nil
			for i := range c.Nodes {
				c.Nodes[i].Status.VolumesInUse, c.Nodes[i].Status.VolumesAttached = nil, nil
			}
		}, nil},
		{"volumes-in-use", "no CSI", func(c *Cluster) {
			c.Nodes[0].Status.VolumesInUse = append(c.Nodes[0].Status.VolumesInUse, "kubernetes.io/iscsi/x")
		}, []string{"unseen: only volumes of CSI drivers are compared, not kubernetes.io/iscsi/x on node node-0"}},

		{"budget-missing", "none", func(c *Cluster) { c.Budgets = nil },
			[]string{"warning: StatefulSet shop/mysql of 3 replicas has no PodDisruptionBudget"}},
		{"budget-missing", "of another namespace", func(c *Cluster) { c.Budgets[0].Namespace = "other" },
			[]string{"warning: StatefulSet shop/mysql"}},
		{"budget-missing", "one replica", func(c *Cluster) {
			c.Budgets, c.StatefulSets[0].Spec.Replicas = nil, nil
		}, nil},

		{"budget-blocks", "maxUnavailable 0", func(c *Cluster) {
			c.Budgets[0] = budget("mysql", ptr(intstr.FromInt32(0)), nil)
		}, []string{"danger: PodDisruptionBudget shop/mysql refuses every eviction of its 3 pods: maxUnavailable is " +
			"0"}},
		{"budget-blocks", "maxUnavailable 0%", func(c *Cluster) {
			c.Budgets[0] = budget("mysql", ptr(intstr.FromString("0%")), nil)
		}, []string{"danger: PodDisruptionBudget shop/mysql refuses every eviction of its 3 pods: maxUnavailable is " +
			"0%"}},
		{"budget-blocks", "minAvailable all", func(c *Cluster) {
			c.Budgets[0] = budget("mysql", nil, ptr(intstr.FromInt32(3)))
		}, []string{"danger: PodDisruptionBudget shop/mysql refuses every eviction of its 3 pods: minAvailable is 3"}},
		{"budget-blocks", "minAvailable most", func(c *Cluster) {
			c.Budgets[0] = budget("mysql", nil, ptr(intstr.FromString("67%")))
		}, []string{"danger: PodDisruptionBudget shop/mysql refuses every eviction of its 3 pods: minAvailable is " +
			"67%"}},
		{"budget-blocks", "minAvailable less", func(c *Cluster) {
			c.Budgets[0] = budget("mysql", nil, ptr(intstr.FromString("66%")))
		}, nil},
		{"budget-blocks", "no text that scales", func(c *Cluster) {
			c.Budgets[0] = budget("mysql", nil, ptr(intstr.FromString("most")))
		}, nil},
		{"budget-blocks", "by its status", func(c *Cluster) { c.Budgets[0].Status.DisruptionsAllowed = 0 },
			[]string{"danger: PodDisruptionBudget shop/mysql allows no disruption although all of its 3 pods are " +
				"healthy"}},
		{"budget-blocks", "a pod is missing", func(c *Cluster) {
			c.Budgets[0].Status.DisruptionsAllowed, c.Budgets[0].Status.CurrentHealthy = 0, 2
		}, []string{"warning: PodDisruptionBudget shop/mysql allows no disruption now: 2 of its 3 pods are healthy"}},
		{"budget-blocks", "its controller fails", func(c *Cluster) {
			c.Budgets[0].Status.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition,
				Reason: policyv1.SyncFailedReason, Message: "found no controllers"}}
		}, []string{"danger: PodDisruptionBudget shop/mysql refuses every eviction of its 3 pods: its controller " +
			"fails: found"}},
		{"budget-blocks", "not seen by its controller", func(c *Cluster) { c.Budgets[0].Generation = 2 },
			[]string{"unseen: PodDisruptionBudget shop/mysql: its controller has not seen its last change"}},
		{"budget-blocks", "over nothing", func(c *Cluster) {
			c.Budgets[0] = budget("mysql", ptr(intstr.FromInt32(0)), nil)
			c.Budgets[0].Spec.Selector, c.Budgets[0].Status.ExpectedPods = nil, 0
		}, nil},

		{"budgets-overlap", "two", func(c *Cluster) {
			c.Budgets = append(c.Budgets, budget("all", ptr(intstr.FromInt32(1)), nil))
			c.Budgets[1].Spec.Selector = &metav1.LabelSelector{}
		}, []string{"danger: PodDisruptionBudgets of namespace shop: mysql and all are over the same pods: " +
			"mysql-0, mysql-1, mysql-2"}},
		{"budgets-overlap", "other namespace", func(c *Cluster) {
			c.Budgets = append(c.Budgets, budget("all", ptr(intstr.FromInt32(1)), nil))
			c.Budgets[1].Namespace = "other"
		}, nil},
		{"budgets-overlap", "pods that ended", func(c *Cluster) {
			c.Budgets = append(c.Budgets, budget("all", ptr(intstr.FromInt32(1)), nil))
			for i := range c.Pods {
				c.Pods[i].Status.Phase = corev1.PodFailed
			}
		}, nil},

		{"not-steady", "pod not Ready", func(c *Cluster) {
			podNamed(c, "mysql-2").Status.Conditions = nil
		}, []string{"danger: StatefulSet shop/mysql is not steady: not Ready: mysql-2"}},
		{"not-steady", "too few", func(c *Cluster) { c.StatefulSets[0].Status.Replicas = 2 },
			[]string{"danger: StatefulSet shop/mysql is not steady: it has 2 pods of 3"}},
		{"not-steady", "too few Ready", func(c *Cluster) { c.StatefulSets[0].Status.ReadyReplicas = 2 },
			[]string{"danger: StatefulSet shop/mysql is not steady: 2 of 3 pods are Ready"}},
		{"not-steady", "change not seen", func(c *Cluster) { c.StatefulSets[0].Generation = 3 },
			[]string{"danger: StatefulSet shop/mysql is not steady: its controller has not seen its last change"}},
		{"not-steady", "rollout", func(c *Cluster) { c.StatefulSets[0].Status.UpdateRevision = "mysql-2" },
			[]string{"danger: StatefulSet shop/mysql is not steady: a rollout is unfinished"}},
		{"not-steady", "rollout held by a partition", func(c *Cluster) {
			c.StatefulSets[0].Status.UpdateRevision = "mysql-2"
			c.StatefulSets[0].Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
				Partition: ptr(int32(1))}
		}, []string{"warning: StatefulSet shop/mysql is not steady: a rollout is unfinished"}},
		{"not-steady", "rollout held by OnDelete", func(c *Cluster) {
			c.StatefulSets[0].Status.UpdateRevision = "mysql-2"
			c.StatefulSets[0].Spec.UpdateStrategy.Type = appsv1.OnDeleteStatefulSetStrategyType
		}, []string{"warning: StatefulSet shop/mysql is not steady: a rollout is unfinished"}},
		{"not-steady", "none wanted", func(c *Cluster) {
			c.StatefulSets[0].Spec.Replicas = ptr(int32(0))
			c.StatefulSets[0].Status = appsv1.StatefulSetStatus{ObservedGeneration: 2}
		}, nil},

		{"local-volumes", "local", func(c *Cluster) {
			c.Volumes[0].Spec.PersistentVolumeSource = corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/data"}}
		}, []string{"warning: the pods of StatefulSet shop/mysql cannot move: mysql-0 on node-0; volumes: " +
			"PersistentVolume pv-0 (local)"}},
		{"local-volumes", "hostPath", func(c *Cluster) {
			podNamed(c, "mysql-1").Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/data"}}}}
		}, []string{"warning: the pods of StatefulSet shop/mysql cannot move: mysql-1 on node-1; volumes: hostPath " +
			"/data"}},
		{"local-volumes", "hostPath of a static pod", func(c *Cluster) {
			podNamed(c, "kube-scheduler-node-0").Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/etc"}}}}
		}, nil},

		{"grace-period", "short", func(c *Cluster) {
			c.StatefulSets[0].Spec.Template.Spec.TerminationGracePeriodSeconds = ptr(int64(29))
		}, []string{"warning: StatefulSet shop/mysql keeps data in claims and is killed after 29 s"}},
		{"grace-period", "none", func(c *Cluster) {
			c.StatefulSets[0].Spec.Template.Spec.TerminationGracePeriodSeconds = ptr(int64(0))
		}, []string{"danger: StatefulSet shop/mysql keeps data in claims and is killed after 0 s"}},
		{"grace-period", "the default", func(c *Cluster) {
			c.StatefulSets[0].Spec.Template.Spec.TerminationGracePeriodSeconds = nil
		}, nil},
		{"grace-period", "no data", func(c *Cluster) {
			c.StatefulSets[0].Spec.Template.Spec.TerminationGracePeriodSeconds = ptr(int64(0))
			c.StatefulSets[0].Spec.VolumeClaimTemplates = nil
		}, nil},

		{"reclaim-delete", "one, of no pod", func(c *Cluster) {
			c.Volumes[2].Spec.PersistentVolumeReclaimPolicy, c.Pods = corev1.PersistentVolumeReclaimDelete, nil
		}, []string{"warning: 1 volumes under StatefulSet shop/mysql have reclaimPolicy Delete: pv-2"}},
		{"reclaim-delete", "of another claim", func(c *Cluster) {
			c.Volumes[2].Spec.PersistentVolumeReclaimPolicy = corev1.PersistentVolumeReclaimDelete
			c.Claims[2].Name = "cache-mysql-2"
		}, nil},

		{"claim-retention", "both", func(c *Cluster) {
			c.StatefulSets[0].Spec.PersistentVolumeClaimRetentionPolicy =
				&appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Delete", WhenScaled: "Delete"}
		}, []string{"warning: StatefulSet shop/mysql deletes claims when it is deleted or scaled down"}},
		{"claim-retention", "retained", func(c *Cluster) {
			c.StatefulSets[0].Spec.PersistentVolumeClaimRetentionPolicy =
				&appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: "Retain", WhenScaled: "Retain"}
		}, nil},

		{"nodes", "unknown", func(c *Cluster) {
			c.Nodes[0].Status.Conditions[0].Status = corev1.ConditionUnknown
		}, []string{"danger: node node-0 is not Ready"}},
		{"nodes", "pressure", func(c *Cluster) {
			c.Nodes[0].Status.Conditions = append(c.Nodes[0].Status.Conditions,
				corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionTrue},
				corev1.NodeCondition{Type: "Custom", Status: corev1.ConditionTrue})
		}, []string{"danger: node node-0 is unfit: DiskPressure"}},
		{"nodes", "cordoned", func(c *Cluster) { c.Nodes[2].Spec.Unschedulable = true },
			[]string{"note: node node-2 is cordoned"}},

		{"force-detach", "default", func(c *Cluster) {
			p := podNamed(c, "kube-controller-manager-node-0")
			p.Spec.Containers[0].Command = []string{"kube-controller-manager"}
		}, []string{"warning: kube-controller-manager-node-0 detaches volumes by force"}},
		{"force-detach", "set to false", func(c *Cluster) {
			p := podNamed(c, "kube-controller-manager-node-0")
			p.Spec.Containers[0].Args = []string{"--disable-force-detach-on-timeout=false"}
		}, []string{"warning: kube-controller-manager-node-0 detaches volumes by force"}},
		{"force-detach", "without a value", func(c *Cluster) {
			p := podNamed(c, "kube-controller-manager-node-0")
			p.Spec.Containers[0].Command = []string{
				"--disable-force-detach-on-timeout", "--disable-force-detach-on-timeouts=x"}
		}, nil},
		{"force-detach", "nothing to detach", func(c *Cluster) {
			podNamed(c, "kube-controller-manager-node-0").Spec.Containers[0].Command = nil
			c.Attachments = nil
		}, []string{"note: kube-controller-manager-node-0 would detach volumes by force"}},
		{"force-detach", "hidden", func(c *Cluster) {
			podNamed(c, "kube-controller-manager-node-0").Labels = nil
		}, []string{"unseen: kube-controller-manager has no pod in kube-system: its flags are not visible"}},

		{"certificates", "ended", func(c *Cluster) { c.CertificateEnds = c.At },
			[]string{"danger: the certificate of the API server's address ended on 2026-11-23"}},
		{"certificates", "ends in a week", func(c *Cluster) { c.CertificateEnds = c.At.Add(verySoon) },
			[]string{"danger: the certificate of the API server's address ends on 2026-11-30, in 7 days"}},
		{"certificates", "ends in a month", func(c *Cluster) { c.CertificateEnds = c.At.Add(soon) },
			[]string{"warning: the certificate of the API server's address ends on 2026-12-23, in 30 days"}},
		{"certificates", "ends later", func(c *Cluster) { c.CertificateEnds = c.At.Add(soon + 1) }, nil},

		{"version-skew", "newer kubelet", func(c *Cluster) { c.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.37.0" },
			[]string{"danger: kubelet of node node-0 is v1.37.0, newer than the API server (v1.36.3)"}},
		{"version-skew", "old kubelet", func(c *Cluster) { c.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.32.9" },
			[]string{"danger: kubelet of node node-0 is v1.32.9, more than 3 minor versions behind the API server " +
				"(v1.36.3)"}},
		{"version-skew", "too old for the target", func(c *Cluster) {
			c.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.33.1"
		}, []string{"danger: kubelet of node node-0 is v1.33.1, more than 3 minor versions behind the target (v1.37)"}},
		{"version-skew", "old but " +
			"fine", func(c *Cluster) { c.Nodes[0].Status.NodeInfo.KubeletVersion = "v1.34.1" }, nil},
		{"version-skew", "not known", func(c *Cluster) { c.Nodes[0].Status.NodeInfo.KubeletVersion = "" },
			[]string{"unseen: kubelet of node node-0: its version is not known"}},
		{"version-skew", "scheduler", func(c *Cluster) {
			podNamed(c, "kube-scheduler-node-0").Spec.Containers[0].Image = "x:5000/kube-scheduler:v1.34.0@sha256:0"
		}, []string{"danger: kube-scheduler-node-0 is v1.34.0, more than 1 minor versions behind the API server"}},
		{"version-skew", "kube-proxy by digest", func(c *Cluster) {
			podNamed(c, "kube-proxy-node-0").Spec.Containers[0].Image = "x/kube-proxy@sha256:0"
		}, []string{"unseen: kube-proxy-node-0: its version is not known"}},
		{"version-skew", "no scheduler", func(c *Cluster) { podNamed(c, "kube-scheduler-node-0").Labels = nil },
			[]string{"unseen: kube-scheduler has no pod in kube-system: its version is not visible"}},

		{"deprecated-apis", "gone in the target", func(c *Cluster) {
			c.Deprecated = []DeprecatedAPI{{"flowcontrol.apiserver.k8s.io", "v1beta3", "flowschemas", "status", "1.37"}}
		}, []string{"danger: flowcontrol.apiserver.k8s.io/v1beta3 flowschemas/status is asked for, and is gone in " +
			"v1.37"}},
		{"deprecated-apis", "gone later", func(c *Cluster) {
			c.Deprecated = []DeprecatedAPI{{"g", "v1", "things", "", "1.38"}}
		}, []string{"warning: g/v1 things is asked for, and will be gone in v1.38"}},
		{"deprecated-apis", "gone some day", func(c *Cluster) {
			c.Deprecated = []DeprecatedAPI{{"", "v1", "endpoints", "", ""}}
		}, []string{"note: v1 endpoints is asked for; it is deprecated, and no version without it is set"}},
		{"deprecated-apis", "two API servers", func(c *Cluster) {
			c.Pods = append(c.Pods, systemPod("kube-apiserver-node-1", "component", "kube-apiserver", ""))
		}, []string{"unseen: 2 API servers have a pod in kube-system; the metrics are those of the one that answered"}},
		{"deprecated-apis", "hidden API " +
			"servers", func(c *Cluster) { podNamed(c, "kube-apiserver-node-0").Labels = nil },
			[]string{"unseen: 0 API servers have a pod"}},
		{"deprecated-apis", "no version", func(c *Cluster) {
			c.Deprecated = []DeprecatedAPI{{"", "v1", "endpoints", "", "soon"}}
		}, []string{`unseen: v1 endpoints is asked for; it is deprecated, and gone in "soon"`}},
	} {
		t.Run(c.rule+", "+c.name, func(t *testing.T) {
			cluster := healthy()
			c.change(&cluster)
			r := Audit(cluster, toNext())
			got := of(r, c.rule)
			for _, u := range r.Unseen {
				if u.Rule == c.rule {
					got = append(got, "unseen: "+u.Why)
				}
			}
			same := len(got) == len(c.want)
			for i := range c.want {
				same = same && strings.HasPrefix(got[i], c.want[i])
			}
			if !same {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// TestGates has what a change of a gate concerns, and who has set it.
func TestGates(t *testing.T) {
	for _, c := range []struct {
		name   string
		to     Upgrade
		change func(*Cluster)
		want   string // In one finding; "-" means in none.
	}{
		{"flip that concerns a StatefulSet", toNext(), func(c *Cluster) {
			c.StatefulSets[0].Spec.UpdateStrategy.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{
				MaxUnavailable: ptr(intstr.FromInt32(2))}
		}, "warning: feature gate MaxUnavailableStatefulSet becomes true by default in v1.37: a rolling update may " +
			"take several pods"},
		{"flip that concerns nobody", toNext(), func(*Cluster) {}, "MaxUnavailableStatefulSet=true"},
		{"flip of a gate that is on", toNext(), func(c *Cluster) { c.Gates["MaxUnavailableStatefulSet"] = true },
			"-MaxUnavailableStatefulSet"},
		{"driver that mounts with a label", toNext(), func(c *Cluster) { c.Drivers[0].Spec.SELinuxMount = ptr(true) },
			"warning: feature gate SELinuxMount becomes true by default in v1.37: volumes are mounted with the pod's " +
				"SELinux label: two pods of different labels cannot share one any more (KEP-1710); this concerns Pod " +
				"shop/mysql-0, Pod shop/mysql-1"},
		{"memory", toNext(), func(c *Cluster) {
			limits := corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
			c.StatefulSets[0].Spec.Template.Spec.Containers = []corev1.Container{
				{Resources: corev1.ResourceRequirements{Limits: limits}}}
		}, "warning: feature gate MemoryQoS becomes true by default in v1.37"},
		{"locked to what it is not", toNext(), func(c *Cluster) {
			p := podNamed(c, "kube-scheduler-node-0")
			p.Spec.Containers[0].Args = []string{"--feature-gates=A=true,HostnameOverride=false"}
		}, "danger: kube-scheduler-node-0 has feature gate HostnameOverride set to false; v1.37 locks it to true"},
		{"locked to what it is", toNext(), func(c *Cluster) {
			p := podNamed(c, "kube-scheduler-node-0")
			p.Spec.Containers[0].Args = []string{"--feature-gates=HostnameOverride=true"}
		}, "-HostnameOverride"},
		{"locked, API server hidden", toNext(), func(c *Cluster) {
			podNamed(c, "kube-apiserver-node-0").Labels = nil
			c.Gates["HostnameOverride"] = false
		}, "danger: the API server has feature gate HostnameOverride set to false"},
		{"git repository", Upgrade{35, 36}, func(c *Cluster) {
			podNamed(c, "kube-proxy-node-0").Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{
				GitRepo: &corev1.GitRepoVolumeSource{}}}}
			p := podNamed(c, "kube-apiserver-node-0")
			p.Spec.Containers[0].Args = []string{"--feature-gates=GitRepoVolumeDriver=true"}
		}, "danger: kube-apiserver-node-0 has feature gate GitRepoVolumeDriver set to true; v1.36 locks it to false"},
		{"new and on", Upgrade{35, 36}, func(*Cluster) {}, "StaleControllerConsistencyStatefulSet becomes true"},
		{"same version", Upgrade{36, 36}, func(*Cluster) {}, "-feature gate"},
		{"classes of volumes", Upgrade{33, 34}, func(c *Cluster) {
			c.Claims[0].Spec.VolumeAttributesClassName = ptr("fast")
		}, "this concerns PersistentVolumeClaim shop/data-mysql-0"},
		{"drivers", Upgrade{34, 35}, func(c *Cluster) {
			c.Drivers[0].Spec.NodeAllocatableUpdatePeriodSeconds = ptr(int64(60))
			c.Drivers[0].Spec.TokenRequests = []storagev1.TokenRequest{{}}
		}, "feature gate MutableCSINodeAllocatableCount becomes true by default in v1.35"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cluster := healthy()
			c.change(&cluster)
			got := strings.Join(of(Audit(cluster, c.to), "feature-gates"), "\n")
			unwanted, none := strings.CutPrefix(c.want, "-")
			if none && strings.Contains(got, unwanted) || !none && !strings.Contains(got, c.want) {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
		})
	}
	unknown := Audit(healthy(), Upgrade{37, 38})
	if len(of(unknown, "feature-gates")) > 0 || !slices.ContainsFunc(unknown.Unseen, func(u Unseen) bool {
		return u.Rule == "feature-gates" && strings.Contains(u.Why, "not known")
	}) {
		t.Errorf("v1.38: %+v", unknown)
	}
}

// TestHealthy has nothing invented: the whole report of the healthy cluster is a golden file.
func TestHealthy(t *testing.T) {
	r := Audit(healthy(), toNext())
	if r.Verdict != check.Pass || r.Count(Danger)+r.Count(Warning) > 0 || r.Moving() {
		t.Errorf("verdict %s, findings %+v", r.Verdict, r.Findings)
	}
	golden(t, "healthy.json", r)
}

// TestTrouble has a report with every severity, and something that was not looked at.
func TestTrouble(t *testing.T) {
	c := healthy()
	c.Attachments = append(c.Attachments, attachment(0, "node-1", true))
	c.Budgets = nil
	c.Nodes[2].Spec.Unschedulable = true
	c.Missing = map[Part]string{Metrics: "forbidden"}
	r := Audit(c, toNext())
	if r.Verdict != check.Fail || !r.Moving() {
		t.Errorf("verdict %s, moving %t", r.Verdict, r.Moving())
	}
	golden(t, "trouble.json", r)
}

func golden(t *testing.T, name string, r Report) {
	t.Helper()
	got, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs; -update writes it anew:\n%s", name, diff)
	}
}

// TestMissingParts: a rule that needs a part which is missing says so, and finds nothing.
func TestMissingParts(t *testing.T) {
	parts := map[Part]bool{}
	for _, rule := range Rules() {
		for _, part := range rule.Needs {
			parts[part] = true
			c := healthy()
			c.Missing = map[Part]string{part: "forbidden"}
			r := Audit(c, toNext())
			want := Unseen{rule.Name, fmt.Sprintf("%s: forbidden", part)}
			if !slices.Contains(r.Unseen, want) || len(of(r, rule.Name)) > 0 || r.Verdict != check.Unknown {
				t.Errorf("rule %s without %s: %+v", rule.Name, part, r)
			}
		}
	}
	if len(parts) != 11 {
		t.Errorf("the rules need %d parts, want all but the storage classes: 11", len(parts))
	}
}

// TestRulesAreWhole: each rule says all that a finding says.
func TestRulesAreWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.Name] || r.find == nil || slices.Contains([]string{r.Name, r.Looks, r.Why, r.Source, r.Fix}, "") {
			t.Errorf("rule %q is not whole, or there twice", r.Name)
		}
		seen[r.Name] = true
	}
}

// TestConfirm: what a moving rule finds only once is dropped; what another rule finds, or is found twice, stays.
func TestConfirm(t *testing.T) {
	moving := healthy()
	moving.Nodes[1].Status.VolumesInUse = nil
	fixed := healthy()
	fixed.Budgets = nil
	first, later := Audit(fixed, toNext()), Audit(moving, toNext())
	got := Confirm(first, later)
	if got.Verdict != check.Pass || len(of(got, "volumes-in-use")) > 0 {
		t.Errorf("found once: %+v", got)
	}
	got = Confirm(later, later)
	if got.Verdict != check.Fail || len(of(got, "volumes-in-use")) != 1 {
		t.Errorf("found twice: %+v", got)
	}
	if got := Confirm(later, first); len(of(got, "budget-missing")) != 1 || got.Verdict != check.Pass {
		t.Errorf("of a rule that does not move: %+v", got)
	}
}

// TestAnySubset: whatever objects are there, and whatever of them is empty, an audit ends without a panic, and the
// verdict follows from what it says.
func TestAnySubset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := healthy()
		c.Attachments = append(c.Attachments, attachment(0, "node-1", true), storagev1.VolumeAttachment{})
		c.Budgets = append(c.Budgets, policyv1.PodDisruptionBudget{}, budget("two", nil, nil))
		c.Deprecated = append(c.Deprecated, DeprecatedAPI{}, DeprecatedAPI{Removed: "1.37"})
		c.Volumes = append(c.Volumes, corev1.PersistentVolume{})
		c.Claims = append(c.Claims, corev1.PersistentVolumeClaim{})
		c.Attachments, c.Budgets = some(t, "attachments", c.Attachments), some(t, "budgets", c.Budgets)
		c.Claims, c.Drivers = some(t, "claims", c.Claims), some(t, "drivers", c.Drivers)
		c.Nodes, c.Pods = some(t, "nodes", c.Nodes), some(t, "pods", c.Pods)
		c.StatefulSets, c.Volumes = some(t, "sets", c.StatefulSets), some(t, "volumes", c.Volumes)
		if rapid.Bool().Draw(t, "a part is missing") {
			rule := rapid.SampledFrom(Rules()).Draw(t, "rule")
			for _, p := range rule.Needs {
				c.Missing = map[Part]string{p: "forbidden"}
			}
		}
		minorVersion := rapid.IntRange(30, 38).Draw(t, "minor")
		r := Audit(c, Upgrade{minorVersion, minorVersion + rapid.IntRange(0, 1).Draw(t, "step")})
		want := check.Unknown // The nodes' data is never looked at.
		if r.Count(Danger) > 0 {
			want = check.Fail
		}
		if r.Verdict != want {
			t.Errorf("verdict %s, want %s", r.Verdict, want)
		}
		if !strings.Contains(r.Because(), "not looked at") {
			t.Error(r.Because())
		}
	})
}

// some keeps a part of all, and empties a part of what it keeps.
func some[T any](t *rapid.T, name string, all []T) []T {
	var kept []T
	for _, one := range all {
		switch rapid.IntRange(0, 4).Draw(t, name) {
		case 0:
		case 1:
			var empty T
			kept = append(kept, empty)
		default:
			kept = append(kept, one)
		}
	}
	return kept
}
