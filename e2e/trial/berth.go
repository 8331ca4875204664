package trial

import (
	"context"
	"errors"
	"fmt"
	"os"

	"k8s.io/client-go/kubernetes"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/berth"
)

// takeBerth takes the cluster against other harnesses: those on this host, and those that hold a cluster which is
// there already.
func takeBerth(ctx context.Context, m Moorings) (*berth.Berth, error) {
	dir, err := berth.Dir()
	if err != nil {
		return nil, err
	}
	command := m.Command
	if len(command) == 0 {
		command = os.Args
	}
	held, err := berth.Take(dir, m.ClusterName, berth.Self(command), m.Log)
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
			return nil //nolint:nilerr // What is there and not to be used is for the provider to refuse.
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

// hold tells harnesses on other hosts that the cluster is used.
func hold(ctx context.Context, held *berth.Berth, cluster clusters.Cluster) error {
	kube, err := client(ctx, cluster)
	if err != nil {
		return fmt.Errorf("take cluster %q: %w", cluster.Name(), err)
	}
	return held.Hold(ctx, kube)
}

// Used returns who uses a cluster of a provider, by the lock of this host and by the mark on the cluster. A cluster
// whose API server does not answer is asked by the lock alone.
func Used(ctx context.Context, p clusters.Provider, name string) (berth.Holder, bool, error) {
	dir, err := berth.Dir()
	if err != nil {
		return berth.Holder{}, false, err
	}
	if h, used, err := berth.Used(dir, name); used || err != nil {
		return h, used, err
	}
	cluster, err := p.Open(ctx, name)
	if err != nil {
		return berth.Holder{}, false, nil //nolint:nilerr // It does not run, and nobody can use it.
	}
	kube, err := client(ctx, cluster)
	if err != nil {
		return berth.Holder{}, false, nil //nolint:nilerr // As above.
	}
	h, used, err := berth.UsedOn(ctx, kube)
	if err != nil {
		return berth.Holder{}, false, nil //nolint:nilerr // As above.
	}
	return h, used, nil
}
