package kind

import (
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
