package trial

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/pager"
	"sigs.k8s.io/yaml"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/bootclock"
	"github.com/seatrial/seatrial/clusters/nodelogs"
	"github.com/seatrial/seatrial/e2e/observe/apiwatch"
	"github.com/seatrial/seatrial/e2e/observe/nodefacts"
	"github.com/seatrial/seatrial/e2e/observe/volumemanager"
	"github.com/seatrial/seatrial/e2e/rundir"
	"github.com/seatrial/seatrial/fixtures"
)

// namespace is the trial's own, or that of an existing StatefulSet.
func (c *runner) namespace() string {
	if x := c.Plan.Workload.External; x != nil && x.Namespace != "" {
		return x.Namespace
	}
	return "seatrial-" + c.RunID
}

// setUp turns the observers on and makes the workload.
func (c *runner) setUp(ctx context.Context) error {
	if err := c.connect(ctx); err != nil {
		return err
	}
	if err := c.makeWorkload(); err != nil {
		return err
	}
	if err := c.watchAPI(ctx); err != nil {
		return err
	}
	if err := c.installAgents(ctx); err != nil {
		return err
	}
	if err := c.storage.Make(ctx); err != nil {
		return fmt.Errorf("make storage %q: %w", c.Plan.Workload.StorageName(), err)
	}
	c.readNodes(ctx) // The storage has removed what a CSI driver of an earlier trial wrote.
	if err := c.api.Ready(ctx); err != nil {
		return err
	}
	if err := c.workload.Deploy(ctx); err != nil {
		return fmt.Errorf("deploy workload %q: %w", c.Plan.Workload.Name, err)
	}
	return nil
}

// makeWorkload creates the workload and its storage in memory; nothing is touched yet.
func (c *runner) makeWorkload() error {
	env := fixtures.Env{
		Cluster: c.Cluster, Kube: c.kube, Namespace: c.namespace(), RunID: c.RunID, Plan: c.Plan,
		Image: c.images.Database.Ref,
		Builds: fixtures.Builds{CacheDir: c.options.CacheDir, Progress: c.Progress,
			Log: c.log.With("part", "builds")},
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
	c.data, _ = c.workload.(fixtures.Data)
	for _, s := range c.Plan.AllSteps() {
		if s.Do.NeedsData() && c.data == nil {
			return fmt.Errorf("make workload %q: it cannot carry out step %d (%s)", def.Name, s.N, s.Do)
		}
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

func (c *runner) connect(ctx context.Context) error {
	config, err := clientConfig(ctx, c.Cluster)
	if err != nil {
		return err
	}
	if c.kube, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("make client of cluster %q: %w", c.Cluster.Name(), err)
	}
	if c.dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("make dynamic client of cluster %q: %w", c.Cluster.Name(), err)
	}
	if c.Events {
		c.rec.events = newAnnouncer(ctx, c.kube, c.namespace(), c.RunID, c.log.With("part", "events"))
	}
	if c.nodes, err = c.Cluster.Nodes(ctx); err != nil {
		return fmt.Errorf("list nodes of cluster %q: %w", c.Cluster.Name(), err)
	}
	return nil
}

// onEach runs do on all nodes in parallel and returns the first error.
func onEach(ctx context.Context, nodes []clusters.Node, do func(context.Context, clusters.Node) error) error {
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range nodes {
		g.Go(func() error { return do(ctx, n) })
	}
	return g.Wait()
}

// installAgents begins a new mount ledger on every node.
func (c *runner) installAgents(ctx context.Context) error {
	return onEach(ctx, c.nodes, func(ctx context.Context, n clusters.Node) error {
		done, err := nodefacts.Install(ctx, n, c.agent)
		if err != nil {
			return fmt.Errorf("install agent on node %q: %w", n.Name(), err)
		}
		c.log.Info("agent installed", "node", n.Name(), "copied", done.Copied, "ledger", done.On.Observer.Detail)
		return nil
	})
}

// readNodes begins to read the facts of the nodes. It outlives ctx: the healing of a cancelled trial belongs to its
// history. stopObservers ends it.
func (c *runner) readNodes(ctx context.Context) {
	c.tailer = nodefacts.Start(context.WithoutCancel(ctx), nodefacts.Config{
		Cluster: c.Cluster, Nodes: c.nodes, CSI: c.Plan.Workload.StorageName() == plan.StorageSharedDisk,
		Recorder: c.rec, Log: c.log.With("part", "nodefacts"),
	})
}

// watchAPI begins to watch the API, and lives as long as readNodes.
func (c *runner) watchAPI(ctx context.Context) (err error) {
	alive := context.WithoutCancel(ctx)
	watched := apiwatch.Config{
		Client: c.dynamic, Namespace: c.namespace(), Recorder: c.rec, Log: c.log.With("part", "apiwatch"),
	}
	if c.options.Access != nil {
		watched.NodeSelector = c.options.Access.NodeSelector
	}
	c.api, err = apiwatch.Start(alive, watched)
	if err != nil {
		return fmt.Errorf("watch the API: %w", err)
	}
	if len(c.Plan.Upgrades()) > 0 {
		c.watches = append(c.watches, c.watchVersion(alive))
	}
	if c.options.Access == nil { // The right to nodes/proxy is the right to run commands: it is not asked for.
		c.watches = append(c.watches, volumemanager.Watch(alive, c.kube, c.nodes, c.rec))
	}
	return nil
}

func (c *runner) stopObservers(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drainBound)
	defer cancel()
	for _, stop := range c.watches {
		stop()
	}
	if c.api != nil {
		c.api.Stop()
	}
	if c.tailer != nil {
		c.tailer.Stop(ctx)
	}
}

// keepEvidence writes what helps a person beside the history: the nodes' logs, their mount tables, and the objects as
// they are now. It continues after an error: half of the evidence is better than none.
func (c *runner) keepEvidence(ctx context.Context) error {
	if c.dynamic == nil {
		return nil // The cluster was not reached.
	}
	errs := make([]error, len(c.nodes)+2)
	var all sync.WaitGroup
	all.Go(func() { errs[len(c.nodes)] = c.keepObjects(ctx) })
	if cluster, ok := c.Cluster.(clusters.LogExporter); ok {
		all.Go(func() { errs[len(c.nodes)+1] = cluster.ExportLogs(ctx, c.dir.File(rundir.NodesDir)) })
	}
	for i, n := range c.nodes {
		all.Go(func() {
			age := bootclock.Now().Sub(c.began) + time.Minute
			errs[i] = nodelogs.Collect(ctx, n, age, c.dir.File(filepath.Join(rundir.NodesDir, n.Name())))
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// keepObjects writes one YAML file for each resource. Pods of all namespaces are kept: one of the system may be to
// blame.
func (c *runner) keepObjects(ctx context.Context) error {
	var errs []error
	for _, r := range []struct{ group, name, namespace string }{
		{"apps", "controllerrevisions", c.namespace()},
		{"", "events", c.namespace()},
		{"", "nodes", ""},
		{"", "persistentvolumeclaims", c.namespace()},
		{"", "persistentvolumes", ""},
		{"", "pods", ""},
		{"apps", "statefulsets", c.namespace()},
		{"storage.k8s.io", "volumeattachments", ""},
	} {
		resource := c.dynamic.Resource(schema.GroupVersionResource{Group: r.group, Version: "v1", Resource: r.name})
		page := func(ctx context.Context, opts metav1.ListOptions) (runtime.Object, error) {
			return resource.Namespace(r.namespace).List(ctx, opts)
		}
		kept := unstructured.UnstructuredList{Object: map[string]any{"apiVersion": "v1", "kind": "List"}}
		err := pager.New(page).EachListItem(ctx, metav1.ListOptions{}, func(o runtime.Object) error {
			if one, ok := o.(*unstructured.Unstructured); ok && c.concerns(r.name, one) {
				kept.Items = append(kept.Items, *one)
			}
			return nil
		})
		var data []byte
		if err == nil {
			data, err = yaml.Marshal(&kept)
		}
		if err == nil {
			err = c.dir.WriteFile(filepath.Join(rundir.ObjectsDir, r.name+".yaml"), data)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("keep %s: %w", r.name, err))
		}
	}
	return errors.Join(errs...)
}

// concerns reports whether an object of a resource is evidence: any but the nodes that are not of the trial, and the
// pods of others that run there. A cluster may have thousands of both.
func (c *runner) concerns(resource string, o *unstructured.Unstructured) bool {
	at := ""
	switch resource {
	case "nodes":
		at = o.GetName()
	case "pods":
		if o.GetNamespace() != c.namespace() {
			at, _, _ = unstructured.NestedString(o.Object, "spec", "nodeName") // Empty: it waits for a node.
		}
	}
	return at == "" || slices.ContainsFunc(c.nodes, func(n clusters.Node) bool { return n.Name() == at })
}
