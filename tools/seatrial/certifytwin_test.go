package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/kind/kindtest"
	"github.com/seatrial/seatrial/e2e/certify/apitest"
	"github.com/seatrial/seatrial/e2e/certify/audit"
	"github.com/seatrial/seatrial/e2e/certify/reader"
)

// TestTwinRefused: bad input makes nothing, and the cluster is only read.
func TestTwinRefused(t *testing.T) {
	for _, c := range []struct {
		args   []string
		change func(*apitest.Server)
		code   int
		want   string
	}{
		{[]string{"--workers", "0"}, nil, exitArguments, "nothing was made: 0 workers: give 1 to 20"},
		{[]string{"-n", "shop"}, nil, exitArguments, `namespace "shop" has no StatefulSet that can be read`},
		{[]string{"--kubernetes-version", "v1.2.3"}, nil, exitArguments, `"v1.2.3" is not pinned`},
		{[]string{"--context", "prod"}, nil, exitArguments, `context "prod"`},
		{[]string{"--cluster", "a", "again"}, nil, exitArguments, "one argument too many"},
		{nil, func(s *apitest.Server) { s.Version = "v1.12.1" }, exitArguments, "no version of v1.12 is pinned"},
		{nil, func(s *apitest.Server) { s.Version = "main" }, exitArguments, `"main", which is none`},
		{nil, func(s *apitest.Server) { s.Wrong["/version"] = 500 }, exitHarness, "500"},
	} {
		s := apitest.Serve(t)
		if c.change != nil {
			c.change(s)
		}
		got := ask(t, append([]string{"certify", "twin", "--kubeconfig", s.Kubeconfig(t)}, c.args...)...)
		if got.code != c.code || got.stdout != "" || !strings.Contains(got.stderr, c.want) {
			t.Errorf("%q: exit code %d, want %d and %q:\n%s%s", c.args, got.code, c.code, c.want, got.stdout,
				got.stderr)
		}
	}
}

// TestTwinOfRealCluster makes the twin of a cluster with a gate set, budgets and StatefulSets, and audits both.
func TestTwinOfRealCluster(t *testing.T) {
	if os.Getenv("SEATRIAL_LONG") == "" {
		t.Skip("NOT RUN: a twin of a real cluster; it needs a container engine and a node image: make long")
	}
	const name, other = "seatrial-dev-original", "seatrial-dev-twin"
	_, original := kindtest.Of(t, slog.New(slog.NewTextHandler(t.Output(), nil)), clusters.Spec{
		Name: name, Workers: 1,
		Flags: map[string]map[string]string{
			"kube-apiserver": {audit.GatesFlag: "MaxUnavailableStatefulSet=false", "audit-log-maxsize": "7"},
			"kube-controller-manager": {audit.GatesFlag: "MaxUnavailableStatefulSet=false",
				"disable-force-detach-on-timeout": "true"},
		},
		Kubelet: map[string]any{"maxPods": 60, "shutdownGracePeriod": "20s", "containerLogMaxFiles": 3},
	})
	config, err := clientConfig(original, "")
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	furnishOriginal(t, kube)

	if os.Getenv("SEATRIAL_KEEP") != "1" {
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 3*time.Minute)
			defer cancel()
			if code := run(ctx, []string{"seatrial", "clean", "--cluster", other}, t.Output(), t.Output()); code != 0 {
				t.Errorf("clean: exit code %d", code)
			}
		})
	}
	got := ask(t, "certify", "twin", "--kubeconfig", original, "--cluster", other, "--workers", "2", "-o", "json",
		"--no-host-changes")
	if got.code != exitPass {
		t.Fatalf("exit code %d:\n%s%s", got.code, got.stdout, got.stderr)
	}
	t.Log(got.stdout)
	var made twinned
	if err := json.Unmarshal([]byte(got.stdout), &made); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"StatefulSet shop/db: containers[].env", "kube-apiserver: --audit-log-maxsize=7",
		"kubelet: containerLogMaxFiles: 3 there, 5 in the twin",
		"CSIDriver fast.example.com: podInfoOnMount, storageCapacity, tokenRequests"} {
		said := false
		for _, l := range made.Left {
			said = said || strings.Contains(l.What, want)
		}
		if !said {
			t.Errorf("%q is not said to be left out", want)
		}
	}
	twinConfig, err := clientConfig(made.Kubeconfig, "kind-"+other)
	if err != nil {
		t.Fatal(err)
	}
	here, err := kubernetes.NewForConfig(twinConfig)
	if err != nil {
		t.Fatal(err)
	}
	driver, err := here.StorageV1().CSIDrivers().Get(t.Context(), "disk.seatrial", metav1.GetOptions{})
	if err != nil || driver.Spec.SELinuxMount == nil || !*driver.Spec.SELinuxMount {
		t.Errorf("the twin's driver: %+v, %v", driver, err)
	}
	before, err := reader.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	after, err := reader.Open(t.Context(), twinConfig)
	if err != nil {
		t.Fatal(err)
	}
	there, mirrored := aboutSets(t, before, name), aboutSets(t, after, other)
	if diff := cmp.Diff(there, mirrored); diff != "" || len(there) == 0 {
		t.Errorf("findings (-original +twin):\n%s", diff)
	}
	t.Logf("found in both: %s", strings.Join(there, "\n"))
}

// furnishOriginal makes two StatefulSets, a class without volumes, and budgets, one of which blocks.
func furnishOriginal(t *testing.T, kube kubernetes.Interface) {
	t.Helper()
	ctx, create := t.Context(), metav1.CreateOptions{}
	two, one := intstr.FromInt32(2), int32(1)
	replicas, class, grace := int32(2), "fast", int64(10)
	set := func(name, image string) *appsv1.StatefulSet {
		labels := map[string]string{"app": name}
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: appsv1.StatefulSetSpec{
			Replicas: &replicas, ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
				TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "main", Image: image}}}},
		}}
	}
	db, cache := set("db", "docker.io/library/mysql:9"), set("cache", "redis:7")
	db.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
		Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class,
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")}}}}}
	db.Spec.PodManagementPolicy = appsv1.ParallelPodManagement // Its pods cannot start.
	main := &db.Spec.Template.Spec.Containers[0]
	main.VolumeMounts = []corev1.VolumeMount{{Name: "data", MountPath: "/var/lib/mysql"}}
	main.Env = []corev1.EnvVar{{Name: "MYSQL_ROOT_PASSWORD", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.
		SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "root"}, Key: "password"}}}}
	main.Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Gi")}
	cache.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	cache.Spec.UpdateStrategy = appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
		RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: &one}}
	yes := true
	shop := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	_, err := kube.CoreV1().Namespaces().Create(ctx, shop, create)
	errs := []error{err}
	_, err = kube.StorageV1().CSIDrivers().Create(ctx, &storagev1.CSIDriver{
		ObjectMeta: metav1.ObjectMeta{Name: "fast.example.com"}, Spec: storagev1.CSIDriverSpec{SELinuxMount: &yes,
			TokenRequests: []storagev1.TokenRequest{{Audience: "vault"}}}}, create)
	errs = append(errs, err)
	_, err = kube.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: class}, Provisioner: "fast.example.com",
		Parameters: map[string]string{"csi.storage.k8s.io/fstype": "xfs", "type": "gp3"}}, create)
	errs = append(errs, err)
	for _, claim := range []string{"data-db-0", "data-db-1"} {
		_, err = kube.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: claim}, Spec: corev1.PersistentVolumeSpec{StorageClassName: class,
				AccessModes: db.Spec.VolumeClaimTemplates[0].Spec.AccessModes,
				Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Ti")},
				ClaimRef:    &corev1.ObjectReference{Namespace: "shop", Name: claim},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
					Driver: "fast.example.com", VolumeHandle: claim}}}}, create)
		errs = append(errs, err)
	}
	for _, s := range []*appsv1.StatefulSet{db, cache} {
		_, err = kube.AppsV1().StatefulSets("shop").Create(ctx, s, create)
		errs = append(errs, err)
	}
	_, err = kube.PolicyV1().PodDisruptionBudgets("shop").Create(ctx, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: &two,
			Selector: db.Spec.Selector}}, create)
	for _, err := range append(errs, err) {
		if err != nil {
			t.Fatal(err)
		}
	}
}

// aboutSets returns what an audit finds about gates, budgets and StatefulSets. It judges the cluster as one of v1.36,
// so that what v1.37 changes is known, and has one name for the nodes of both clusters.
func aboutSets(t *testing.T, r *reader.Reader, cluster string) []string {
	t.Helper()
	c, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.Version = "v1.36.0"
	upgrade, err := audit.ParseUpgrade(c.Version, "v1.37")
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, f := range audit.Audit(c, upgrade).Findings {
		if slices.Contains([]string{"budget-missing", "budget-blocks", "budgets-overlap", "feature-gates",
			"force-detach", "grace-period", "claim-retention"}, f.Rule) {
			text := fmt.Sprintf("%s %s: %s %v", f.Severity, f.Rule, f.What, f.Where)
			found = append(found, strings.ReplaceAll(text, cluster, "CLUSTER"))
		}
	}
	slices.Sort(found)
	return found
}
