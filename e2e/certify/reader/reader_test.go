package reader

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"path"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/e2e/certify/apitest"
	"github.com/seatrial/seatrial/e2e/certify/audit"
)

// read1 reads a server, and counts with it.
func read1(t *testing.T, s *apitest.Server) audit.Cluster {
	t.Helper()
	r, err := Open(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := r.Requests(), int64(len(s.Asked())); got != want {
		t.Errorf("the reader counts %d requests, the server %d", got, want)
	}
	return c
}

// TestRead reads several pages, metrics, version and certificate.
func TestRead(t *testing.T) {
	s := apitest.Serve(t)
	for i := range 2*pageSize + 1 {
		s.Lists["/api/v1/pods"] = append(s.Lists["/api/v1/pods"], corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("pod-%d", i), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}}})
	}
	s.Lists["/apis/policy/v1/poddisruptionbudgets"] = []any{policyv1.PodDisruptionBudget{}}
	for _, labels := range []string{
		`group="",removed_release="",resource="endpoints",subresource="",version="v1"} 1`,
		`group="g\"}",removed_release="1.38",resource="r",subresource="s",version="v2"} 1`,
		`group="never",resource="r",version="v1"} 0`,
	} {
		s.Metrics += "apiserver_requested_deprecated_apis{" + labels + "\n"
	}
	s.Metrics += "up 1\n" + `other{name="x"} 1` + "\n"
	c := read1(t, s)
	if len(c.Pods) != 2*pageSize+1 || c.Pods[2*pageSize].Name != fmt.Sprintf("pod-%d", 2*pageSize) {
		t.Errorf("%d pods are read", len(c.Pods))
	}
	if slices.ContainsFunc(c.Pods, func(p corev1.Pod) bool { return p.ManagedFields != nil }) {
		t.Error("managed fields are kept")
	}
	if c.Version != "v1.36.3" || len(c.Budgets) != 1 || len(c.Missing) > 0 || time.Since(c.At) > time.Minute {
		t.Errorf("version %s, %d budgets, missing %v, at %s", c.Version, len(c.Budgets), c.Missing, c.At)
	}
	if got := c.CertificateEnds.UTC().Format(time.DateOnly); got != s.Ends() {
		t.Errorf("the certificate ends %s, want %s", got, s.Ends())
	}
	want := []audit.DeprecatedAPI{
		{Version: "v1", Resource: "endpoints"},
		{Group: `g\"}`, Version: "v2", Resource: "r", Subresource: "s", Removed: "1.38"},
	}
	if diff := cmp.Diff(want, c.Deprecated); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]bool{"MaxUnavailableStatefulSet": false}, c.Gates); diff != "" {
		t.Error(diff)
	}
	pages := 0
	for _, a := range s.Asked() {
		if strings.HasPrefix(a, "GET /api/v1/pods?") {
			pages++
			if !strings.Contains(a, fmt.Sprintf("limit=%d", pageSize)) {
				t.Errorf("%s: no limit", a)
			}
		}
	}
	if pages != 3 {
		t.Errorf("pods were read in %d pages, want 3", pages)
	}
}

// TestMissing: what cannot be read is missing, alone and with its reason.
func TestMissing(t *testing.T) {
	paths := map[audit.Part]string{audit.Metrics: "/metrics"}
	for _, one := range sources() {
		paths[one.part] = one.path()
	}
	for part, path := range paths {
		t.Run(string(part), func(t *testing.T) {
			s := apitest.Serve(t)
			s.Wrong[path] = http.StatusForbidden
			c := read1(t, s)
			if len(c.Missing) != 1 || !strings.Contains(c.Missing[part], "forbidden") {
				t.Errorf("missing %v, want %s, forbidden", c.Missing, part)
			}
		})
	}
	s := apitest.Serve(t)
	s.Metrics = "up 1\n"
	if c := read1(t, s); !strings.Contains(c.Missing[audit.Metrics], "not those of an API server") {
		t.Errorf("metrics of something else: %v", c.Missing)
	}
}

// TestRole: the role allows the requests that are really sent, and no other.
func TestRole(t *testing.T) {
	var text bytes.Buffer
	if err := WriteRole(&text); err != nil {
		t.Fatal(err)
	}
	var role rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(text.Bytes(), &role); err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, rule := range role.Rules {
		for _, verb := range rule.Verbs {
			for _, url := range rule.NonResourceURLs {
				allowed = append(allowed, verb+" "+url)
			}
			for _, resource := range rule.Resources {
				allowed = append(allowed, verb+" "+rule.APIGroups[0]+"/"+resource)
			}
		}
	}
	s := apitest.Serve(t)
	read1(t, s)
	var sent []string
	for _, a := range s.Asked() {
		url, _, _ := strings.Cut(strings.TrimPrefix(a, "GET "), "?")
		group, isGroup := strings.CutPrefix(path.Dir(path.Dir(url)), "/apis/")
		switch {
		case isGroup:
			sent = append(sent, "list "+group+"/"+path.Base(url))
		case strings.HasPrefix(url, "/api/v1/"):
			sent = append(sent, "list /"+path.Base(url))
		default:
			sent = append(sent, "get "+url)
		}
	}
	slices.Sort(allowed)
	slices.Sort(sent)
	if diff := cmp.Diff(allowed, slices.Compact(sent)); diff != "" {
		t.Errorf("the role (-) and what is sent (+) differ:\n%s", diff)
	}
}

// TestNothingIsWritten: even a mistake in this package cannot write.
func TestNothingIsWritten(t *testing.T) {
	s := apitest.Serve(t)
	r, err := Open(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(kubernetes.Interface) error{
		"create": func(k kubernetes.Interface) error {
			_, err := k.CoreV1().Pods("shop").Create(t.Context(), &corev1.Pod{}, metav1.CreateOptions{})
			return err
		},
		"delete": func(k kubernetes.Interface) error {
			return k.CoreV1().Pods("shop").Delete(t.Context(), "mysql-0", metav1.DeleteOptions{})
		},
		"evict": func(k kubernetes.Interface) error {
			mysql := policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "mysql-0"}}
			return k.CoreV1().Pods("shop").EvictV1(t.Context(), &mysql)
		},
	} {
		if err := write(r.kube); err == nil || !strings.Contains(err.Error(), "only GET") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpenFails(t *testing.T) {
	s := apitest.Serve(t)
	s.Wrong["/version"] = http.StatusUnauthorized
	if _, err := Open(t.Context(), s.Config()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("not allowed: %v", err)
	}
	if _, err := Open(t.Context(), &rest.Config{Host: "https://127.0.0.1:1"}); err == nil {
		t.Error("a server that is not there is opened")
	}
	s = apitest.Serve(t)
	r, err := Open(t.Context(), s.Config())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.Before = func(path string) {
		if path == "/api/v1/nodes" {
			cancel()
		}
	}
	if c, err := r.Read(ctx); err == nil {
		t.Errorf("a reading that was stopped has no error, missing %v", c.Missing)
	}
}

// TestLargeCluster reads and judges 1,000 nodes and 10,000 pods, and says what that takes.
func TestLargeCluster(t *testing.T) {
	s := apitest.Serve(t)
	for i := range 1000 {
		s.Lists["/api/v1/nodes"] = append(s.Lists["/api/v1/nodes"], corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}})
	}
	for i := range 10_000 {
		s.Lists["/api/v1/pods"] = append(s.Lists["/api/v1/pods"], corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprintf("pod-%d", i)},
			Spec: corev1.PodSpec{NodeName: fmt.Sprintf("node-%d", i%1000), Containers: []corev1.Container{{
				Image: "registry.example.com/a:1", Env: []corev1.EnvVar{{Value: strings.Repeat("x", 500)}}}}},
		})
	}
	begun := time.Now()
	c := read1(t, s)
	read := time.Since(begun)
	report := audit.Audit(c, audit.Upgrade{})
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	t.Logf("read in %s with %d requests, judged in %s, %d MiB with the server's own "+
		"objects", read.Round(time.Millisecond),
		len(s.Asked()), (time.Since(begun) - read).Round(time.Millisecond), memory.HeapAlloc>>20)
	if len(c.Pods) != 10_000 || len(c.Nodes) != 1000 || report.Count(audit.Danger) != 1000 {
		t.Errorf("%d pods, %d nodes, %d findings", len(c.Pods), len(c.Nodes), report.Count(audit.Danger))
	}
}
