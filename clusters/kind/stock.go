package kind

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/seatrial/seatrial/clusters"
)

var _ clusters.Stocker = (*Cluster)(nil)

// stockName begins the names of what Stock makes in the directory that the nodes share.
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

// Stock runs the node image once, with a directory below clusters.SharedDir, and takes out of it what an upgrade needs.
// What was broken off is begun anew.
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
