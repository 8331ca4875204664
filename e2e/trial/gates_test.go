package trial

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func TestGatesOn(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/metrics" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "# TYPE kubernetes_feature_enabled gauge\n"+
			`kubernetes_feature_enabled{name="Off",stage="ALPHA"} 0`+"\n"+
			`kubernetes_feature_enabled{name="On",stage="ALPHA"} 1`+"\n")
	}))
	defer server.Close()
	kube := kubernetes.NewForConfigOrDie(&rest.Config{Host: server.URL})
	if err := gatesOn(t.Context(), kube, []string{"On"}, "c"); err != nil {
		t.Error(err)
	}
	for _, gate := range []string{"Off", "Unknown", "O"} {
		err := gatesOn(t.Context(), kube, []string{"On", gate}, "c")
		if err == nil || !strings.Contains(err.Error(), "featureGates[1]: "+gate+` is not on in cluster "c"`) {
			t.Errorf("gate %s: %v", gate, err)
		}
	}
}
