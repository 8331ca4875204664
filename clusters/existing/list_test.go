package existing

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// silentServer gives no answer.
type silentServer struct{}

func (silentServer) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func TestAListOfNodesIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "https://192.0.2.1"},
			&http.Client{Transport: silentServer{}})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err = (&Cluster{name: "c", kube: kube}).listNodes(t.Context())
		if took := time.Since(begin); err == nil || took != listBound {
			t.Fatalf("%v after %s, want an error after %s", err, took, listBound)
		}
		for _, want := range []string{`list nodes of cluster "c"`, "no answer within 20s", "192.0.2.1"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q is not in %q", want, err)
			}
		}
	})
}
