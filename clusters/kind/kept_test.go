package kind

import (
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
)

// TestKeptKubeconfig shows which clusters are reached by what kind wrote when it made them: only one whose API server
// is still at that port, by credentials that are whole.
func TestKeptKubeconfig(t *testing.T) {
	pem, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	must(t, err)
	for name, tc := range map[string]struct {
		port, key string
		kept      bool
	}{
		"its port":         {"39559", string(key), true},
		"another port":     {"40000", string(key), false},
		"no port":          {"", string(key), false},
		"half-written key": {"39559", string(key[:len(key)/2]), false},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := seaNodes()
			nodes[1].NetworkSettings.Ports = map[string][]struct {
				HostPort string `json:"HostPort"`
			}{"6443/tcp": {{HostPort: tc.port}}, "10250/tcp": {{HostPort: "39559"}}}
			p, _ := aProvider(t, nodes...)
			config := api.NewConfig()
			for _, of := range []string{"kind-sea", "kind-lake"} {
				config.Clusters[of] = &api.Cluster{Server: "https://127.0.0.1:39559", CertificateAuthorityData: pem}
				config.AuthInfos[of] = &api.AuthInfo{ClientCertificateData: pem, ClientKeyData: []byte(tc.key)}
				config.Contexts[of] = &api.Context{Cluster: of, AuthInfo: of}
			}
			must(t, clientcmd.WriteToFile(*config, p.kubeconfig))
			c, err := p.Open(t.Context(), "sea")
			must(t, err)
			text, err := c.Kubeconfig(t.Context())
			must(t, err)
			if !tc.kept {
				if string(text) != "kind: Config" {
					t.Fatalf("got %q, want what kind reads from the node", text)
				}
				return
			}
			got, err := clientcmd.Load(text)
			must(t, err)
			if len(got.Clusters) != 1 || got.CurrentContext != "kind-sea" {
				t.Errorf("got %d clusters and context %q, want only kind-sea", len(got.Clusters), got.CurrentContext)
			}
		})
	}
}

// TestJoin holds that a container with a network of its own joins that of the nodes, and no other process does.
func TestJoin(t *testing.T) {
	self, err := os.Hostname()
	must(t, err)
	us := made(self, "", "", "", "running", "172.17.0.5")
	us.ID = self + "0123"
	us.NetworkSettings.Networks["bridge"] = us.NetworkSettings.Networks["kind"]
	delete(us.NetworkSettings.Networks, "kind")
	beside := made(self, "", "", "", "running", "172.18.0.9")
	beside.ID = us.ID
	const outside, inside = "https://127.0.0.1:1", "https://172.18.0.2:6443"
	for name, tc := range map[string]struct {
		us     container
		server string
		joins  bool
	}{
		"no container":          {made("other", "", "", "", "running"), outside, false},
		"of the host's name":    {made(self, "", "", "", "running"), outside, false},
		"in another network":    {us, inside, true},
		"in the nodes' network": {beside, inside, false},
	} {
		t.Run(name, func(t *testing.T) {
			control := made("sea-control-plane", "sea", "control-plane", "r", "running", "172.18.0.2")
			p, _ := aProvider(t, tc.us, control)
			c, err := p.open(t.Context(), "sea")
			must(t, err)
			config := api.NewConfig()
			config.Clusters["kind-sea"] = &api.Cluster{Server: outside}
			c.kubeconfig, err = clientcmd.Write(*config)
			must(t, err)
			for range 2 {
				text, err := c.Kubeconfig(t.Context())
				must(t, err)
				got, err := clientcmd.Load(text)
				must(t, err)
				if server := got.Clusters["kind-sea"].Server; server != tc.server {
					t.Errorf("the API server is at %s, want %s", server, tc.server)
				}
			}
			joined := slices.Contains(calls(t, p.engine), "network connect kind "+tc.us.ID)
			if joined != tc.joins {
				t.Errorf("joined: %t\n%s", joined, strings.Join(calls(t, p.engine), "\n"))
			}
		})
	}
}
