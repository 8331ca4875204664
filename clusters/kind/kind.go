// Package kind makes clusters with kind's Go API and operates their nodes through the command line of the container
// engine that kind uses. A cluster is ready when Create returns, gone when Delete returns, and found by List after any
// crash.
//
// # Ownership
//
// Every node container has a read-only bind mount of /dev/null at /etc/seatrial/run/<run ID>. The engine keeps it from
// the moment the container exists, so a cluster that is half made, stopped, or without API server still tells its
// owner, and the host keeps no file for it. The Kubernetes nodes have the label seatrial.dev/run with the run ID.
//
// # Addresses after a restart
//
// Docker gives a starting container the lowest free address of each family: a node gets its own back only if no lower
// one is free. Start and Reboot therefore occupy all lower free addresses meanwhile, with idle containers that end by
// themselves (addresses.go). If the addresses differ nevertheless, kind's entrypoint adapts the node's configuration
// and the cluster goes on; but what a trial knows of addresses is wrong, so Start and Reboot return an error.
// Podman and nerdctl hardly ever give an address twice: expect the error there.
package kind

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/semaphore"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/kind/pkg/cluster"

	"github.com/seatrial/seatrial/clusters"
)

// markDir is the directory in a node container below which the name of a mount point is the run ID.
const markDir = "/etc/seatrial/run/"

// Options are what New needs.
type Options struct {
	Engine string // Name or path of docker, podman or nerdctl.
	// KubeconfigPath is the file, ours alone, into which kind writes how to reach a cluster; by default kubeconfig in
	// clusters.StateDir. The directories that nodes share are beside it.
	KubeconfigPath string
	Log            *slog.Logger
}

// kindAPI is the part of kind's provider that is used here. It takes no contexts.
type kindAPI interface {
	Create(name string, options ...cluster.CreateOption) error
	Delete(name, explicitKubeconfigPath string) error
	KubeConfig(name string, internal bool) (string, error)
}

// Provider makes clusters with kind. It is safe for concurrent use.
type Provider struct {
	engine     engine
	kind       kindAPI
	kubeconfig string
	log        *slog.Logger
	turn       *semaphore.Weighted
	loops      loopDevices
	shared     sharedDirs
	// ready waits until a new cluster is ready.
	ready func(ctx context.Context, c *Cluster, nodes int) error
	// lacksResource is set if this process lacks CAP_SYS_RESOURCE; see config.
	lacksResource bool
}

var _ clusters.Maker = (*Provider)(nil)

// Definition is kind's line in the list of providers.
func Definition() clusters.Definition {
	return clusters.Definition{
		Name: "kind", Capabilities: Capabilities,
		New: func(engine string, log *slog.Logger) (clusters.Provider, error) {
			p, err := New(Options{Engine: engine, Log: log})
			if err != nil {
				return nil, fmt.Errorf("use kind with %q: %w", engine, err)
			}
			return p, nil
		},
	}
}

// New returns a provider for an engine. It runs nothing.
func New(opts Options) (*Provider, error) {
	if opts.Log == nil {
		return nil, errors.New("make kind provider: Options.Log is nil; pass a logger")
	}
	eng, err := findEngine(opts.Engine)
	if err != nil {
		return nil, err
	}
	if opts.KubeconfigPath == "" {
		dir, err := clusters.StateDir()
		if err != nil {
			return nil, err
		}
		opts.KubeconfigPath = filepath.Join(dir, "kubeconfig")
	}
	kindLog := cluster.ProviderWithLogger(kindLogger{log: opts.Log.With("from", "kind")})
	var runtime cluster.ProviderOption
	switch eng.name {
	case "docker":
		runtime = cluster.ProviderWithDocker()
	case "podman":
		runtime = cluster.ProviderWithPodman()
	default:
		runtime = cluster.ProviderWithNerdctl(eng.path)
	}
	lacks, err := lacksSysResource()
	if err != nil {
		return nil, err
	}
	return &Provider{
		engine: eng, kind: cluster.NewProvider(kindLog, runtime), kubeconfig: opts.KubeconfigPath,
		log: opts.Log, turn: semaphore.NewWeighted(1), loops: hostLoops(),
		shared: sharedBeside(opts.KubeconfigPath), ready: waitReady, lacksResource: lacks,
	}, nil
}

// Name returns "kind".
func (p *Provider) Name() string { return "kind" }

// Kubeconfig returns the path of the file that tells how to reach each cluster.
func (p *Provider) Kubeconfig() string { return p.kubeconfig }

// Open returns a cluster that exists, whoever made it and whatever its state, or an error that wraps
// clusters.ErrNotFound.
func (p *Provider) Open(ctx context.Context, name string) (clusters.Cluster, error) {
	c, err := p.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (p *Provider) open(ctx context.Context, name string) (*Cluster, error) {
	list, err := p.engine.containers(ctx, clusterLabel+"="+name)
	if err != nil {
		return nil, fmt.Errorf("open cluster %q: %w", name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("open cluster %q: %w", name, clusters.ErrNotFound)
	}
	c := &Cluster{provider: p, name: name}
	kept, port := p.kept(name)
	for _, one := range list {
		if one.publishes("6443/tcp", port) {
			c.kubeconfig = kept
		}
		if role, ok := roleOf(one); ok {
			c.nodes = append(c.nodes, &node{
				engine: p.engine, name: one.Name, role: role, netns: &netnsCache{}, turn: p.turn,
			})
		}
	}
	slices.SortFunc(c.nodes, func(a, b *node) int {
		// "control-plane" comes before "worker".
		return cmp.Or(cmp.Compare(a.role, b.role), compareNames(a.name, b.name))
	})
	return c, nil
}

// kept returns what our kubeconfig says of a cluster, and the port of its API server on this machine; nothing if it
// does not know the cluster, or kind is writing to it. Kind itself needs ten calls of the engine to find that out.
func (p *Provider) kept(name string) (kubeconfig []byte, port string) {
	config, err := clientcmd.LoadFromFile(p.kubeconfig)
	if err != nil {
		return nil, ""
	}
	config.CurrentContext = "kind-" + name
	if err := api.MinifyConfig(config); err != nil {
		return nil, ""
	}
	if kubeconfig, err = clientcmd.Write(*config); err != nil {
		return nil, ""
	}
	client, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, ""
	}
	if _, err := rest.TLSConfigFor(client); err != nil {
		return nil, ""
	}
	server, err := url.Parse(client.Host)
	if err != nil {
		return nil, ""
	}
	return kubeconfig, server.Port()
}

// compareNames orders worker, worker2, worker10: by length first.
func compareNames(a, b string) int { return cmp.Or(len(a)-len(b), cmp.Compare(a, b)) }

// List returns all kind clusters with containers in any state, and those whose deletion was interrupted after their
// containers were gone, by name.
func (p *Provider) List(ctx context.Context) ([]clusters.Owned, error) {
	list, err := p.engine.containers(ctx, clusterLabel)
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	out := owned(list)
	names, err := p.shared.names()
	if err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	for _, name := range names {
		if !slices.ContainsFunc(out, func(o clusters.Owned) bool { return o.Name == name }) {
			out = append(out, clusters.Owned{Name: name, Ours: true})
		}
	}
	slices.SortFunc(out, func(a, b clusters.Owned) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// owned groups containers by cluster. A cluster is ours if one of its containers has the mark.
func owned(list []container) []clusters.Owned {
	byName := map[string]clusters.Owned{}
	for _, c := range list {
		name := c.Config.Labels[clusterLabel]
		o := byName[name]
		o.Name = name
		o.Nodes = append(o.Nodes, c.Name)
		if run, ok := c.run(); ok {
			o.Ours, o.RunID = true, run
		}
		byName[name] = o
	}
	out := slices.Collect(maps.Values(byName))
	for _, o := range out {
		slices.SortFunc(o.Nodes, compareNames)
	}
	return out
}

// find returns a cluster as List does, and false if it has no containers.
func (p *Provider) find(ctx context.Context, name string) (clusters.Owned, bool, error) {
	list, err := p.engine.containers(ctx, clusterLabel+"="+name)
	if err != nil || len(list) == 0 {
		return clusters.Owned{}, false, err
	}
	return owned(list)[0], true, nil
}

// taken names the owner of a cluster whose name Create was given, and what to do.
func taken(found clusters.Owned) error {
	if !found.Ours {
		return fmt.Errorf("there is one of that name that Seatrial did not make (%d nodes); choose another name",
			len(found.Nodes))
	}
	return fmt.Errorf("it was left over by run %q (%d nodes); remove it with: seatrial clean", found.RunID,
		len(found.Nodes))
}

// Delete removes a cluster of ours, its entry in our kubeconfig, the loop devices that its nodes leave, and the
// directory that they shared. A missing cluster is no error; one that is not ours is.
func (p *Provider) Delete(ctx context.Context, name string) error {
	found, ok, err := p.find(ctx, name)
	if err != nil {
		return fmt.Errorf("delete cluster %q: %w", name, err)
	}
	if ok && !found.Ours {
		return fmt.Errorf("delete cluster %q: Seatrial did not make it; if it is to go: kind delete cluster --name %s",
			name, name)
	}
	return p.remove(ctx, name)
}

// remove deletes a cluster, whoever made it. The shared directory goes last: List finds interrupted deletions by it.
func (p *Provider) remove(ctx context.Context, name string) error {
	fail := func(err error) error { return fmt.Errorf("delete cluster %q: %w", name, err) }
	list, err := p.engine.containers(ctx, clusterLabel+"="+name)
	if err != nil {
		return fail(err)
	}
	dirs := p.shared.of(name, list)
	if err = p.deleteNodes(ctx, name); err == nil {
		err = p.removeSeats(ctx, list)
	}
	if err == nil {
		var left bool
		if _, left, err = p.find(ctx, name); left {
			err = errors.New("nodes are still there after kind deleted them")
		}
	}
	if err != nil {
		return errors.Join(fail(err), p.loops.release(ctx, p.log, gone{}))
	}
	if err := errors.Join(p.removeShared(ctx, name, dirs), p.removeOutside(ctx, dirs, list)); err != nil {
		return fail(err)
	}
	return nil
}

// deleteNodes makes kind delete the nodes, with retries: the engine of a busy machine gives up on a container that is
// still ending.
func (p *Provider) deleteNodes(ctx context.Context, name string) error {
	const attempts = 3
	var err error
	for range attempts {
		err = within(ctx, func() error { return p.kind.Delete(name, p.kubeconfig) })
		if err == nil || ctx.Err() != nil {
			break
		}
		p.log.Warn("kind could not delete the nodes", "cluster", name, "error", err)
		p.thaw(ctx, name)
	}
	return err
}

// within bounds a call that takes no context. If ctx ends first, it returns at once and the call goes on.
func within(ctx context.Context, do func() error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- do() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
