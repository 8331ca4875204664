package trial

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/fixtures"
)

// namespace is the trial's own.
func (c *runner) namespace() string { return "seatrial-" + c.RunID }

// setUp turns the observers on and makes the workload.
func (c *runner) setUp(ctx context.Context) error {
	config, err := c.connect(ctx)
	if err != nil {
		return err
	}
	if err := c.installAgents(ctx); err != nil {
		return err
	}
	if err := c.makeWorkload(); err != nil {
		return err
	}
	if err := c.storage.Make(ctx); err != nil {
		return fmt.Errorf("make storage %q: %w", c.Plan.Workload.StorageName(), err)
	}
	if err := c.startObservers(ctx, config); err != nil {
		return err
	}
	if err := c.workload.Deploy(ctx); err != nil {
		return fmt.Errorf("deploy workload %q: %w", c.Plan.Workload.Name, err)
	}
	if err := c.workload.Fill(ctx); err != nil {
		return fmt.Errorf("fill workload %q: %w", c.Plan.Workload.Name, err)
	}
	return nil
}

// makeWorkload puts the workload together with its storage; nothing is touched yet.
func (c *runner) makeWorkload() error {
	env := fixtures.Env{
		Cluster: c.Cluster, Kube: c.kube, Namespace: c.namespace(), RunID: c.RunID, Plan: c.Plan, Image: c.Image,
		Builds:   fixtures.Builds{CacheDir: c.CacheDir, Progress: c.Progress, Log: c.log.With("part", "builds")},
		Recorder: c.rec, Clock: bootclock.Now, Log: c.log.With("part", "workload"),
	}
	name := c.Plan.Workload.StorageName()
	storage, ok := c.Parts.storage(name)
	if !ok {
		return fmt.Errorf("make storage: %q is not known", name)
	}
	var err error
	if c.storage, err = storage.New(env); err != nil {
		return fmt.Errorf("make storage %q: %w", name, err)
	}
	env.Storage = c.storage
	def, ok := c.Parts.workload(c.Plan.Workload.Name)
	if !ok {
		return fmt.Errorf("make workload: %q is not known", c.Plan.Workload.Name)
	}
	if c.workload, err = def.New(env); err != nil {
		return fmt.Errorf("make workload %q: %w", def.Name, err)
	}
	return nil
}

// clientConfig is how the harness reaches a cluster's API server.
func clientConfig(ctx context.Context, cluster clusters.Cluster) (*rest.Config, error) {
	kubeconfig, err := cluster.Kubeconfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("get kubeconfig of cluster %q: %w", cluster.Name(), err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig of cluster %q: %w", cluster.Name(), err)
	}
	config.QPS, config.Burst = 50, 100 // The default of 5 a second would make the harness wait for itself.
	return config, nil
}

// connect makes the client and lists the nodes.
func (c *runner) connect(ctx context.Context) (*rest.Config, error) {
	config, err := clientConfig(ctx, c.Cluster)
	if err != nil {
		return nil, err
	}
	c.kube, err = kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("make client of cluster %q: %w", c.Cluster.Name(), err)
	}
	c.nodes, err = c.Cluster.Nodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("list nodes of cluster %q: %w", c.Cluster.Name(), err)
	}
	return config, nil
}

// onEachNode does something on all nodes at once and returns the first error.
func (c *runner) onEachNode(ctx context.Context, do func(context.Context, clusters.Node) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range c.nodes {
		g.Go(func() error { return do(ctx, n) })
	}
	return g.Wait()
}
