package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
)

// etcdBound is how long etcd may take to be healthy after kubeadm has given up.
const etcdBound = time.Minute

// lookAtEtcd records what is left of etcd's data, and whether etcd works, after kubeadm has failed. What cannot be read
// is logged; the check that judges the record misses it then.
func (c Config) lookAtEtcd(ctx context.Context, said string) {
	begin := c.Clock()
	found := history.EtcdData{Step: c.Step.N, Node: c.Node.Name(), Databases: map[string]string{}}
	for line := range strings.Lines(said) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "[upgrade/etcd]") ||
			strings.HasPrefix(line, "error: ") {
			found.Said = append(found.Said, line)
		}
	}
	found.Healthy = await.Until(ctx, "etcd to be healthy", time.Second, etcdBound, c.etcdHealthy) == nil
	sums, err := clusters.Run(ctx, c.Node, "find", history.EtcdDir, history.EtcdBackups, "-path",
		"*/"+history.EtcdDatabase, "-exec", "sha256sum", "{}", "+")
	for line := range strings.Lines(sums) {
		if sum, path, ok := strings.Cut(strings.TrimSpace(line), "  "); ok {
			found.Databases[path] = sum
		}
	}
	// Each line begins with its time.
	log, logErr := clusters.Run(ctx, c.Node, "sh", "-c",
		`grep -hE '"level":"(fatal|panic)"' /var/log/pods/kube-system_etcd-*/etcd/*.log | sort | tail -n 1`)
	found.Log = strings.TrimSpace(log)
	if err := errors.Join(err, logErr); err != nil {
		c.Log.Warn("look at etcd's data", "node", c.Node.Name(), "err", err)
	}
	c.RecordEtcd(history.Between(begin, c.Clock()), found)
}

// etcdHealthy asks etcd on the node for its health.
func (c Config) etcdHealthy(ctx context.Context) (bool, string, error) {
	out, err := clusters.Run(ctx, c.Node, "curl", "--silent", "--max-time", "2", "http://127.0.0.1:2381/health")
	var exit *clusters.ExitError
	if err != nil && !errors.As(err, &exit) {
		return false, "", fmt.Errorf("ask for the health of etcd: %w", err)
	}
	return strings.Contains(out, `"health":"true"`), "it said " + out, nil
}
