package reader

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/e2e/certify/audit"
)

// TestRealCluster audits a healthy kind cluster, and the same with five troubles.
func TestRealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_E2E") != "1" {
		t.Skip("NOT RUN: an audit of a real cluster; it needs a container engine and a node image: make e2e")
	}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	cluster, kubeconfig := kindtest.Cluster(t, log, kindtest.Shared("seatrial-dev-audit"), 2)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	nodes, err := cluster.Nodes(t.Context())
	must(t, err)
	kube, err := kubernetes.NewForConfig(config)
	must(t, err)

	healthy := auditNow(t, config)
	if healthy.Count(audit.Danger)+healthy.Count(audit.Warning) > 0 {
		t.Errorf("found in a healthy cluster: %s", told(healthy))
	}
	t.Logf("healthy cluster: %s", told(healthy))

	plant(t, kube, nodes)
	restartAPIServer(t, kube, nodes[0])
	// A deprecated API is asked for. It is the test itself that asks, and no controller: of a group of its own.
	_, err = kube.CoreV1().ComponentStatuses().List(t.Context(), metav1.ListOptions{})
	must(t, err)
	// The kubelet would correct the node's status.
	_, err = clusters.Run(t.Context(), nodes[2], "systemctl", "stop", "kubelet")
	must(t, err)
	t.Cleanup(func() { // Others may use the cluster next.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
		defer cancel()
		if _, err := clusters.Run(ctx, nodes[2], "systemctl", "start", "kubelet"); err != nil {
			t.Error(err)
		}
	})
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"volumesInUse": []string{
		"kubernetes.io/csi/nobody.example.com^mismatch"}}})
	must(t, err)
	_, err = kube.CoreV1().Nodes().Patch(t.Context(), nodes[2].Name(), types.StrategicMergePatchType, patch,
		metav1.PatchOptions{}, "status")
	must(t, err)

	troubled := auditNow(t, config)
	t.Logf("with troubles: %s", told(troubled))
	for _, want := range []struct {
		rule     string
		severity audit.Severity
		says     string
	}{
		{"two-attachments", audit.Danger, "PersistentVolume planted, ReadWriteOnce, is attached to 2 nodes at once"},
		{"volumes-in-use", audit.Danger, "has volume kubernetes.io/csi/nobody.example.com^mismatch in volumesInUse"},
		{"budget-blocks", audit.Danger, "PodDisruptionBudget kube-system/planted refuses every eviction"},
		{"deprecated-apis", audit.Note, "v1 componentstatuses is asked for"},
		{"feature-gates", audit.Warning, "feature gate MaxUnavailableStatefulSet becomes true by default in v1.37"},
	} {
		if !slices.ContainsFunc(troubled.Findings, func(f audit.Finding) bool {
			return f.Rule == want.rule && f.Severity == want.severity && strings.Contains(f.What, want.says)
		}) {
			t.Errorf("not found: %s, %s: %s", want.severity, want.rule, want.says)
		}
	}
}

// plant makes what no controller mends: a volume on two nodes, a budget over the name servers that allows nothing, and
// a StatefulSet, without pods, whose update a gate changes.
func plant(t *testing.T, kube kubernetes.Interface, nodes []clusters.Node) {
	ctx, name := t.Context(), "planted"
	_, err := kube.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
				Driver: "nobody.example.com", VolumeHandle: name}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
	for _, n := range nodes[:2] {
		a, err := kube.StorageV1().VolumeAttachments().Create(ctx, &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + n.Name()},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: "nobody.example.com", NodeName: n.Name(),
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}},
		}, metav1.CreateOptions{})
		must(t, err)
		a.Status.Attached = true
		_, err = kube.StorageV1().VolumeAttachments().UpdateStatus(ctx, a, metav1.UpdateOptions{})
		must(t, err)
	}
	none, two, zero := intstr.FromInt32(0), intstr.FromInt32(2), int32(0)
	_, err = kube.PolicyV1().PodDisruptionBudgets("kube-system").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"k8s-app": "kube-dns"}}},
	}, metav1.CreateOptions{})
	must(t, err)
	labels := map[string]string{"app": name}
	_, err = kube.AppsV1().StatefulSets("default").Create(ctx, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas: &zero, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: name, Image: name}}}},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{MaxUnavailable: &two}},
		},
	}, metav1.CreateOptions{})
	must(t, err)
}

// restartAPIServer starts it with a gate as v1.36 has it by default: v1.37 has flipped it already.
func restartAPIServer(t *testing.T, kube kubernetes.Interface, controlPlane clusters.Node) {
	const manifest = "/etc/kubernetes/manifests/kube-apiserver.yaml"
	_, err := clusters.Run(t.Context(), controlPlane, "sed", "-i",
		"s/^    - kube-apiserver$/&\\n    - --feature-gates=MaxUnavailableStatefulSet=false/", manifest)
	must(t, err)
	must(t, await.Until(t.Context(), "API server with the gate", time.Second, 2*time.Minute,
		func(ctx context.Context) (bool, string, error) {
			body, err := kube.CoreV1().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
			if err != nil {
				return false, "", err
			}
			off := strings.Contains(string(body), `name="MaxUnavailableStatefulSet",stage="BETA"} 0`)
			return off, "the gate is on", nil
		}))
}

// auditNow judges the cluster as one of v1.36, so that what v1.37 changes is known, but with today's skew.
func auditNow(t *testing.T, config *rest.Config) audit.Report {
	t.Helper()
	r, err := Open(t.Context(), config)
	must(t, err)
	c, err := r.Read(t.Context())
	must(t, err)
	if len(c.Missing) > 0 {
		t.Errorf("could not be read: %v", c.Missing)
	}
	c.Version = "v1.36.0"
	for i := range c.Nodes {
		c.Nodes[i].Status.NodeInfo.KubeletVersion = c.Version
	}
	for i := range c.Pods {
		for j := range c.Pods[i].Spec.Containers {
			image := &c.Pods[i].Spec.Containers[j].Image
			*image = strings.ReplaceAll(*image, ":v1.37.0", ":"+c.Version)
		}
	}
	upgrade, err := audit.ParseUpgrade(c.Version, "v1.37")
	must(t, err)
	return audit.Audit(c, upgrade)
}

// told returns what a report says, line by line.
func told(r audit.Report) string {
	text := string(r.Verdict)
	for _, f := range r.Findings {
		text += "\n" + string(f.Severity) + " " + f.Rule + ": " + f.What
	}
	for _, u := range r.Unseen {
		text += "\nnot looked at: " + u.Rule + ": " + u.Why
	}
	return text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
