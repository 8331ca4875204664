package kind

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/clusters"
)

// Cluster is a kind cluster. It is safe for concurrent use.
type Cluster struct {
	provider *Provider
	name     string
	nodes    []*node // Control plane first. A kind cluster's nodes never change.

	mu         sync.Mutex
	kubeconfig []byte
	reached    bool // Kubeconfig reaches the API server from here, as far as that can be had.
}

// Name returns the cluster's name.
func (c *Cluster) Name() string { return c.name }

// Kubeconfig returns a kubeconfig that reaches the API server through its port on this machine, which survives
// restarts. It is kept from when kind made the cluster, or read from the control plane once, so that it is available
// while that is down. In a container with a network of its own it reaches it in the network of the nodes.
func (c *Cluster) Kubeconfig(ctx context.Context) ([]byte, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kubeconfig == nil {
		got := make(chan string, 1)
		err := within(ctx, func() error {
			text, err := c.provider.kind.KubeConfig(c.name, false)
			got <- text
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("get kubeconfig of cluster %q: %w", c.name, err)
		}
		c.kubeconfig = []byte(<-got)
	}
	if !c.reached {
		joined, err := c.join(ctx)
		if err != nil {
			return nil, fmt.Errorf("reach the API server of cluster %q from this container: %w", c.name, err)
		}
		c.kubeconfig, c.reached = joined, true
	}
	return c.kubeconfig, nil
}

// join returns the kubeconfig with the control plane's address, and joins the network of the nodes, if the port of the
// API server is not within reach since this is a container of the same engine; it stays there. Elsewhere the kubeconfig
// is returned as it is: who uses it is told what is wrong.
func (c *Cluster) join(ctx context.Context) ([]byte, error) {
	config, err := clientcmd.Load(c.kubeconfig)
	if err != nil {
		return nil, err
	}
	cluster, ok := config.Clusters["kind-"+c.name]
	if !ok || len(c.nodes) == 0 {
		return c.kubeconfig, nil
	}
	port := strings.TrimPrefix(cluster.Server, "https://")
	conn, err := (&net.Dialer{Timeout: tryBound}).DialContext(ctx, "tcp", port)
	if err == nil {
		return c.kubeconfig, conn.Close()
	}
	self, ok := c.provider.engine.self(ctx)
	if !ok {
		return c.kubeconfig, nil
	}
	list, err := c.provider.engine.inspect(ctx, c.nodes[0].name)
	if err != nil {
		return nil, err
	}
	if len(list) == 0 { // The node is gone.
		return c.kubeconfig, nil
	}
	for name, at := range list[0].NetworkSettings.Networks {
		if _, there := self.NetworkSettings.Networks[name]; !there {
			if _, err := c.provider.engine.output(ctx, "network", "connect", name, self.ID); err != nil {
				return nil, err
			}
		}
		cluster.Server, cluster.TLSServerName = "https://"+net.JoinHostPort(at.IPAddress, "6443"), "localhost"
	}
	return clientcmd.Write(*config)
}

// Nodes returns the nodes in any state, control plane first, then by name. Each is a clusters.PowerNode.
func (c *Cluster) Nodes(ctx context.Context) ([]clusters.Node, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list nodes of cluster %q: %w", c.name, err)
	}
	out := make([]clusters.Node, 0, len(c.nodes))
	for _, n := range c.nodes {
		out = append(out, n)
	}
	return out, nil
}

var _ clusters.Stocker = (*Cluster)(nil)

// stockName begins the names of what Stock makes in the shared directory.
const stockName = "stock-"

// stockScript runs in a container of a node image whose init was not started. The image's own containerd exports what
// its directory holds; images of this host alone are left out, since the nodes have them.
const stockScript = `set -eu
cp /usr/bin/kubeadm /usr/bin/kubelet /usr/bin/kubectl /out/
containerd >/tmp/containerd.log 2>&1 &
tries=0
until ctr version >/dev/null 2>&1; do
  tries=$((tries + 1))
  if [ "$tries" -gt 300 ]; then tail -n 5 /tmp/containerd.log >&2; exit 1; fi
  sleep 0.1
done
names=$(ctr --namespace=k8s.io images list -q | grep -v -e '^localhost/' -e '^sha256:' -e '@')
ctr --namespace=k8s.io images export /out/images.tar $names
`

// Stock runs the node image once and copies what an upgrade needs to a directory below clusters.SharedDir. It restarts
// an interrupted copy.
func (c *Cluster) Stock(ctx context.Context, nodeImage string) (string, error) {
	fail := func(err error) (string, error) {
		return "", fmt.Errorf("stock cluster %q with node image %q: %w", c.name, nodeImage, err)
	}
	name := stockName + strings.NewReplacer("/", "-", ":", "-", "@", "-").Replace(nodeImage)
	shared, inside := c.provider.shared.dir(c.name), filepath.Join(clusters.SharedDir, name)
	if _, err := os.Stat(filepath.Join(shared, name)); err == nil {
		return inside, nil
	}
	work := filepath.Join(shared, name+".part")
	if err := os.RemoveAll(work); err != nil {
		return fail(err)
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return fail(err)
	}
	_, err := c.provider.engine.output(ctx, "run", "--rm", "--privileged", "--network=none", "--volume", work+":/out",
		"--entrypoint", "/bin/sh", nodeImage, "-c", stockScript)
	if err != nil {
		return fail(err)
	}
	if err := os.Rename(work, filepath.Join(shared, name)); err != nil {
		return fail(err)
	}
	return inside, nil
}
