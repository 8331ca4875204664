// Package etcd_test runs the example on a kind cluster, as README.md says:
//
//	SEATRIAL_LONG=1 go test -timeout 1h ./examples/etcd
package etcd_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/trialtest"
)

const class = "example"

func TestTrial(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		t.Skip("NOT RUN: needs a cluster: make long")
	}
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-o", filepath.Join(dir, "etcd-client"), "./client")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fill := strings.NewReplacer("bin/etcd-client", filepath.Join(dir, "etcd-client"), "CLASS", class,
		"IMAGE", "registry.k8s.io/etcd:"+etcdImage(t))
	for _, name := range []string{"etcd.yaml", "workload-manifests.yaml"} {
		text, err := os.ReadFile(name)
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), []byte(fill.Replace(string(text))), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	c, err := trialtest.Open(t.Context(), trialtest.Options{
		Scenarios: []string{"smoke"}, Workload: filepath.Join(dir, "workload-manifests.yaml"),
		Cluster: os.Getenv("SEATRIAL_CLUSTER"), Runs: filepath.Join(dir, "runs"), Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	volumes(t, c)
	result, err := c.Run(t.Context(), "smoke")
	if err != nil {
		t.Fatal(err)
	}
	t.Log(result.Text)
	if err := result.Err(); err != nil {
		t.Error(err)
	}
}

// etcdImage returns the tag of the etcd image that every node has.
func etcdImage(t *testing.T) string {
	t.Helper()
	for _, r := range offline.Releases() {
		if r.Kubernetes == offline.DefaultKubernetesVersion {
			return r.Etcd
		}
	}
	t.Fatal("the default version is not pinned")
	return ""
}

// volumes makes a StorageClass and three volumes on each worker: kind clusters of Seatrial have no provisioner.
func volumes(t *testing.T, c *trialtest.Cluster) {
	t.Helper()
	config, err := c.ClientConfig(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	late := storagev1.VolumeBindingWaitForFirstConsumer
	_, err = kube.StorageV1().StorageClasses().Create(t.Context(), &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: class},
		Provisioner: "kubernetes.io/no-provisioner", VolumeBindingMode: &late,
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{
		LabelSelector: "!node-role.kubernetes.io/control-plane"})
	if err != nil {
		t.Fatal(err)
	}
	made := corev1.HostPathDirectoryOrCreate
	for i := range 3 * len(nodes.Items) {
		name := fmt.Sprintf("etcd-example-%d", i)
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}}
		v.Spec.StorageClassName, v.Spec.AccessModes = class, []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		v.Spec.Capacity = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("64Mi")}
		v.Spec.HostPath = &corev1.HostPathVolumeSource{Path: "/var/lib/" + name, Type: &made}
		v.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn,
				Values: []string{nodes.Items[i/3].Name},
			}}}},
		}}
		if _, err := kube.CoreV1().PersistentVolumes().Create(t.Context(), v, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
