package existing

import (
	"io"
	"log/slog"
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

// slowServer answers each of two pages just within the bound.
type slowServer struct{}

func (slowServer) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(listBound - time.Second)
	body := `{"kind":"NodeList","apiVersion":"v1","metadata":{"continue":"b"},"items":[{"metadata":{"name":"a"}}]}`
	if q := r.URL.Query(); q.Get("limit") == "" || q.Get("continue") == "b" {
		body = `{"kind":"NodeList","apiVersion":"v1","items":[{"metadata":{"name":"b"}}]}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestALongListOfNodesIsPaged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube, err := kubernetes.NewForConfigAndClient(&rest.Config{Host: "https://192.0.2.1"},
			&http.Client{Transport: slowServer{}})
		if err != nil {
			t.Fatal(err)
		}
		c := &Cluster{name: "c", kube: kube, log: slog.New(slog.DiscardHandler)}
		if err := c.listNodes(t.Context()); err != nil || len(c.known()) != 2 {
			t.Errorf("%d nodes, %v", len(c.known()), err)
		}
	})
}
