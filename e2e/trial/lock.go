package trial

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/lock"
)

// takeLock locks the cluster against other harnesses, on this host and, if the cluster exists, elsewhere.
func takeLock(ctx context.Context, m ClusterOptions) (*lock.Lock, error) {
	dir, err := lock.Dir()
	if err != nil {
		return nil, err
	}
	command := m.Command
	if len(command) == 0 {
		command = os.Args
	}
	held, err := lock.Take(dir, m.ClusterName, lock.Self(command), m.Log)
	if err != nil {
		return nil, err
	}
	err = func() error {
		provider, err := NewProvider(m.Engine, m.Log)
		if err != nil {
			return err
		}
		cluster, err := provider.Open(ctx, m.ClusterName)
		if err != nil || !m.Reuse {
			return nil //nolint:nilerr // The provider refuses an existing cluster that must not be reused.
		}
		return hold(ctx, held, cluster)
	}()
	if err != nil {
		return nil, errors.Join(err, held.Release(ctx))
	}
	return held, nil
}

func client(ctx context.Context, cluster clusters.Cluster) (kubernetes.Interface, error) {
	config, err := clientConfig(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// hold locks the cluster against harnesses on other hosts.
func hold(ctx context.Context, held *lock.Lock, cluster clusters.Cluster) error {
	kube, err := client(ctx, cluster)
	if err != nil {
		return fmt.Errorf("take cluster %q: %w", cluster.Name(), err)
	}
	return held.Hold(ctx, kube)
}

// Used returns who uses a cluster, by the lock of this host and the lease in the cluster. Without an answer of the API
// server only the lock counts.
func Used(ctx context.Context, p clusters.Provider, name string) (lock.Holder, bool, error) {
	dir, err := lock.Dir()
	if err != nil {
		return lock.Holder{}, false, err
	}
	if h, used, err := lock.Used(dir, name); used || err != nil {
		return h, used, err
	}
	cluster, err := p.Open(ctx, name)
	if err != nil {
		return lock.Holder{}, false, nil //nolint:nilerr // It is not running, so it is not in use.
	}
	kube, err := client(ctx, cluster)
	if err != nil {
		return lock.Holder{}, false, nil //nolint:nilerr // As above.
	}
	h, used, err := lock.UsedOn(ctx, kube)
	if err != nil {
		return lock.Holder{}, false, nil //nolint:nilerr // As above.
	}
	return h, used, nil
}
