package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/seatrial/seatrial/e2e/certify/apitest"
	"github.com/seatrial/seatrial/e2e/certify/audit"
)

// TestAudit has each exit code of certify audit, against an API server that fails the test at every write.
func TestAudit(t *testing.T) {
	nothing := func(*apitest.Server) {}
	for _, c := range []struct {
		name   string
		args   []string
		change func(*apitest.Server)
		code   int
		want   string // In what is printed.
	}{
		{"healthy", nil, nothing, exitUnknown, "node-mounts: node data: the API does not show it, " +
			"and no node was looked at"},
		{"danger", nil, blockingBudget, exitViolated, "PodDisruptionBudget shop/mysql refuses every eviction of its " +
			"1 pods"},
		{"danger, as Markdown", []string{"-o", "markdown"}, blockingBudget, exitViolated, "| danger | budget-blocks |"},
		{"forbidden", nil, func(s *apitest.Server) {
			s.Wrong["/api/v1/pods"] = http.StatusForbidden
		}, exitUnknown, "budget-blocks: pods: pods is forbidden"},
		{"nothing answers but the version", nil, func(s *apitest.Server) {
			for _, path := range []string{"/api/v1/nodes", "/api/v1/pods", "/metrics"} {
				s.Wrong[path] = http.StatusInternalServerError
			}
		}, exitUnknown, "not-steady: pods: "},
		{"the next version is not known", nil, func(s *apitest.Server) { s.Version = "v1.37.0" }, exitUnknown,
			"feature-gates: the feature gates of v1.37 to v1.38 are not known"},
		{"pods without a yes", []string{"--with-pod"}, nothing, exitArguments,
			"nothing was touched: to look at the nodes " + `of the cluster of context "test"`},
		{"pods on another", []string{"--with-pod", "--yes-context", "prod"}, nothing, exitArguments,
			`--yes-context is "prod", and the context is "test": nothing was touched`},
		{"within the version", []string{"--to", "v1.36"}, nothing, exitUnknown, "to be upgraded to v1.36"},
		{"downgrade", []string{"--to", "v1.35"}, nothing, exitArguments, `--to: "v1.35" is a downgrade`},
		{"skipped", []string{"--to", "v1.37"}, func(s *apitest.Server) { s.Version = "v1.35.9" }, exitArguments,
			`--to: "v1.37" skips a minor version of v1.35.9, which no upgrade may; give v1.36`},
		{"no such version", []string{"--to", "v1.99"}, nothing, exitArguments, "--to: version"},
		{"no version", []string{"--to", "next"}, nothing, exitArguments, `--to: "next" is no version`},
		{"no such output", []string{"-o", "toml"}, nothing, exitArguments, `--output is "toml": give text`},
		{"no such context", []string{"--context", "prod"}, nothing, exitArguments, `context "prod"`},
		{"version " +
			"hidden", nil, func(s *apitest.Server) { s.Wrong["/version"] = http.StatusForbidden }, exitHarness, "403"},
		{"version not of Kubernetes", nil, func(s *apitest.Server) { s.Version = "main" }, exitHarness,
			`"main" is no version`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := apitest.Serve(t)
			c.change(s)
			got := ask(t, append([]string{"certify", "audit", "--kubeconfig", s.Kubeconfig(t)}, c.args...)...)
			if got.code != c.code || !strings.Contains(got.stdout+got.stderr, c.want) {
				t.Errorf("exit code %d, want %d and %q:\n%s%s", got.code, c.code, c.want, got.stdout, got.stderr)
			}
			if c.code == exitArguments && got.stdout != "" {
				t.Errorf("stdout %q, want nothing", got.stdout)
			}
		})
	}
}

// blockingBudget puts a pod and a budget over it that allows nothing.
func blockingBudget(s *apitest.Server) {
	labels := map[string]string{"app": "mysql"}
	s.Lists["/api/v1/pods"] = []any{corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "mysql-0", Labels: labels}}}
	none := intstr.FromInt32(0)
	s.Lists["/apis/policy/v1/poddisruptionbudgets"] = []any{policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mysql"},
		Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &none,
			Selector: &metav1.LabelSelector{MatchLabels: labels}}}}
}

// TestAuditLooksTwice: objects that disagree once are a cluster at work; what disagrees twice is told.
func TestAuditLooksTwice(t *testing.T) {
	for _, lasting := range []bool{false, true} {
		s := apitest.Serve(t)
		name := "gone"
		orphan := []any{storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"},
			Spec: storagev1.VolumeAttachmentSpec{NodeName: "gone",
				Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name}}}}
		const list = "/apis/storage.k8s.io/v1/volumeattachments"
		s.Lists[list] = orphan
		looks := 0
		s.Before = func(path string) {
			if path != "/api/v1/pods" {
				return
			}
			if looks++; looks == 2 && !lasting {
				s.Lists[list] = nil
			}
		}
		f := auditFlags{output: "json", access: accessFlags{kubeconfig: s.Kubeconfig(t)}}
		var stdout, stderr bytes.Buffer
		err := f.run(t.Context(), &stdout, &stderr)
		var report audit.Report
		if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
			t.Fatal(err)
		}
		want := 0
		if lasting {
			want = 2 // Its node is gone, and so is its volume.
		}
		if err == nil || looks != 2 || report.Count(audit.Warning) != want ||
			!strings.Contains(stderr.String(), "reading again") {
			t.Errorf("lasting %t: %v, %d looks, %+v\n%s", lasting, err, looks, report, stderr.String())
		}
	}
}

// TestAuditRole asks no cluster.
func TestAuditRole(t *testing.T) {
	got := ask(t, "certify", "audit", "--rbac", "--kubeconfig", filepath.Join(t.TempDir(), "none"))
	if got.code != exitPass || !strings.Contains(got.stdout, "kind: ClusterRole") ||
		strings.Contains(got.stdout, "secrets") {
		t.Errorf("%+v", got)
	}
}
