// Package apitest serves an API server that can only be read, for tests of what reads one.
package apitest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Server answers lists, /version, /metrics and the metrics of kubelets. It fails the test at every request that is no
// GET.
type Server struct {
	Version string
	Metrics string
	Lists   map[string][]any  // By the path of the list: "/api/v1/pods". Every known list is empty at first.
	Objects map[string]any    // Single objects by path, for example "/api/v1/namespaces/shop".
	Kubelet map[string]string // Metrics of kubelets, by the name of the node.
	Wrong   map[string]int    // Paths that are answered with this HTTP status.
	Before  func(path string) // Called before each answer, if set.

	server *httptest.Server
	mu     sync.Mutex
	asked  []string
}

// kinds are the lists that are served.
func kinds() map[string]string {
	return map[string]string{
		"/api/v1/nodes":                             "Node",
		"/api/v1/persistentvolumeclaims":            "PersistentVolumeClaim",
		"/api/v1/persistentvolumes":                 "PersistentVolume",
		"/api/v1/pods":                              "Pod",
		"/apis/apps/v1/statefulsets":                "StatefulSet",
		"/apis/policy/v1/poddisruptionbudgets":      "PodDisruptionBudget",
		"/apis/storage.k8s.io/v1/csidrivers":        "CSIDriver",
		"/apis/storage.k8s.io/v1/storageclasses":    "StorageClass",
		"/apis/storage.k8s.io/v1/volumeattachments": "VolumeAttachment",
	}
}

// Serve starts a server of v1.36.3 with TLS and without objects; it ends with the test.
func Serve(t *testing.T) *Server {
	t.Helper()
	s := &Server{
		Version: "v1.36.3",
		Metrics: "# TYPE kubernetes_feature_enabled gauge\n" +
			`kubernetes_feature_enabled{name="MaxUnavailableStatefulSet",stage="BETA"} 0` + "\n",
		Lists: map[string][]any{}, Wrong: map[string]int{},
	}
	s.server = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r.Method+" "+r.URL.RequestURI())
		s.mu.Unlock()
		if r.Method != http.MethodGet {
			t.Errorf("%s %s: only GET is allowed", r.Method, r.URL)
		}
		if s.Before != nil {
			s.Before(r.URL.Path)
		}
		s.answer(t, w, r)
	}))
	t.Cleanup(s.server.Close)
	return s
}

func (s *Server) answer(t *testing.T, w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	kind, known := kinds()[path]
	node, _ := strings.CutPrefix(strings.TrimSuffix(path, "/proxy/metrics"), "/api/v1/nodes/")
	kubelet, isKubelet := s.Kubelet[node]
	switch {
	case s.Wrong[path] == http.StatusForbidden:
		status := apierrors.NewForbidden(schema.GroupResource{Resource: filepath.Base(path)}, "", nil).Status()
		status.Kind, status.APIVersion = "Status", "v1"
		writeJSON(t, w, http.StatusForbidden, status)
	case s.Wrong[path] != 0:
		http.Error(w, "the test wants it so", s.Wrong[path])
	case path == "/version":
		writeJSON(t, w, http.StatusOK, version.Info{GitVersion: s.Version})
	case path == "/metrics":
		fmt.Fprint(w, s.Metrics)
	case isKubelet:
		fmt.Fprint(w, kubelet)
	case s.Objects[path] != nil:
		writeJSON(t, w, http.StatusOK, s.Objects[path])
	case known:
		s.page(t, w, r, kind)
	default:
		http.NotFound(w, r)
	}
}

// page answers one page of a list; the continue token is where the next one begins. Only nodes are selected by labels.
func (s *Server) page(t *testing.T, w http.ResponseWriter, r *http.Request, kind string) {
	selector, err := labels.Parse(r.URL.Query().Get("labelSelector"))
	if err != nil {
		t.Errorf("%s: %v", r.URL, err)
		return
	}
	all := slices.DeleteFunc(slices.Clone(s.Lists[r.URL.Path]), func(object any) bool {
		node, ok := object.(corev1.Node)
		return ok && !selector.Matches(labels.Set(node.Labels))
	})
	from, _ := strconv.Atoi(r.URL.Query().Get("continue"))
	limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
	to := len(all)
	meta := map[string]any{"resourceVersion": "1"}
	if limit > 0 && from+limit < to {
		to = from + limit
		meta["continue"] = strconv.Itoa(to)
	}
	version := strings.TrimPrefix(strings.TrimPrefix(filepath.Dir(r.URL.Path), "/apis/"), "/api/")
	writeJSON(t, w, http.StatusOK, map[string]any{"kind": kind + "List", "apiVersion": version, "metadata": meta,
		"items": all[from:to]})
}

func writeJSON(t *testing.T, w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		t.Errorf("answer: %v", err)
	}
}

// Asked returns the requests so far, "GET /api/v1/pods?limit=500", in the order of the answers.
func (s *Server) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

// Config returns the configuration of a client.
func (s *Server) Config() *rest.Config {
	return &rest.Config{Host: s.server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
}

// Kubeconfig writes a kubeconfig with the context "test" and returns its path.
func (s *Server) Kubeconfig(t *testing.T) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: s.server.URL, InsecureSkipTLSVerify: true}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test"}
	config.CurrentContext = "test"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text, err := clientcmd.Write(*config)
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Ends returns when the certificate of the server ends.
func (s *Server) Ends() string { return s.server.Certificate().NotAfter.UTC().Format("2006-01-02") }
