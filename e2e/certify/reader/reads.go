package reader

import (
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/e2e/certify/audit"
)

// reads returns all that is read, in the order in which it is read: what is asked for by something else comes before
// it, so that a volume that is being attached is rather seen attached than forgotten.
func reads() []read {
	return []read{
		{
			part: audit.Pods, why: "who uses a volume, what a budget covers, the flags of the control plane",
			read: list(func(k kubernetes.Interface) lister[*corev1.PodList] {
				return k.CoreV1().Pods("").List
			}, func(c *audit.Cluster) *[]corev1.Pod { return &c.Pods }),
		},
		{
			part: audit.Nodes, why: "conditions, versions, volumesInUse and volumesAttached",
			read: list(func(k kubernetes.Interface) lister[*corev1.NodeList] {
				return k.CoreV1().Nodes().List
			}, func(c *audit.Cluster) *[]corev1.Node { return &c.Nodes }),
		},
		{
			part: audit.Attachments, group: "storage.k8s.io", why: "which volume is attached to which node",
			read: list(func(k kubernetes.Interface) lister[*storagev1.VolumeAttachmentList] {
				return k.StorageV1().VolumeAttachments().List
			}, func(c *audit.Cluster) *[]storagev1.VolumeAttachment { return &c.Attachments }),
		},
		{
			part: audit.Claims, why: "which volume a pod or a StatefulSet has",
			read: list(func(k kubernetes.Interface) lister[*corev1.PersistentVolumeClaimList] {
				return k.CoreV1().PersistentVolumeClaims("").List
			}, func(c *audit.Cluster) *[]corev1.PersistentVolumeClaim { return &c.Claims }),
		},
		{
			part: audit.Volumes, why: "access modes, reclaim policies, volumes that are on one node only",
			read: list(func(k kubernetes.Interface) lister[*corev1.PersistentVolumeList] {
				return k.CoreV1().PersistentVolumes().List
			}, func(c *audit.Cluster) *[]corev1.PersistentVolume { return &c.Volumes }),
		},
		{
			part: audit.Drivers, group: "storage.k8s.io", why: "whether a driver attaches, and how it mounts",
			read: list(func(k kubernetes.Interface) lister[*storagev1.CSIDriverList] {
				return k.StorageV1().CSIDrivers().List
			}, func(c *audit.Cluster) *[]storagev1.CSIDriver { return &c.Drivers }),
		},
		{
			part: audit.Classes, group: "storage.k8s.io",
			why: "how volumes are made; part of the cluster's fingerprint",
			read: list(func(k kubernetes.Interface) lister[*storagev1.StorageClassList] {
				return k.StorageV1().StorageClasses().List
			}, func(c *audit.Cluster) *[]storagev1.StorageClass { return &c.Classes }),
		},
		{
			part: audit.StatefulSets, group: "apps", why: "replicas, rollouts, grace periods, retention of claims",
			read: list(func(k kubernetes.Interface) lister[*appsv1.StatefulSetList] {
				return k.AppsV1().StatefulSets("").List
			}, func(c *audit.Cluster) *[]appsv1.StatefulSet { return &c.StatefulSets }),
		},
		{
			part: audit.Budgets, group: "policy", why: "what a drain may evict",
			read: list(func(k kubernetes.Interface) lister[*policyv1.PodDisruptionBudgetList] {
				return k.PolicyV1().PodDisruptionBudgets("").List
			}, func(c *audit.Cluster) *[]policyv1.PodDisruptionBudget { return &c.Budgets }),
		},
		{
			part: audit.Metrics, url: "/metrics", why: "deprecated APIs that are asked for, and feature gates as " +
				"they are",
			read: readMetrics,
		},
	}
}

// WriteRole writes the ClusterRole that allows all reads and nothing else.
func WriteRole(w io.Writer) error {
	var b strings.Builder
	fmt.Fprint(&b, `# The least that "seatrial certify audit" needs. It writes nothing and reads no Secret.
# A part that is not allowed is reported as not looked at.
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: seatrial-audit
rules:
# the API server's version; every user may read it unless that was taken away
- nonResourceURLs: [/version]
  verbs: [get]
`)
	for _, r := range reads() {
		fmt.Fprintf(&b, "# %s\n", r.why)
		if r.url != "" {
			fmt.Fprintf(&b, "- nonResourceURLs: [%s]\n  verbs: [get]\n", r.url)
			continue
		}
		fmt.Fprintf(&b, "- apiGroups: [%q]\n  resources: [%s]\n  verbs: [list]\n", r.group, r.part)
	}
	_, err := io.WriteString(w, b.String())
	return err
}
