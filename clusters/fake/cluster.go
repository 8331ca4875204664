package fake

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/seatrial/seatrial/clusters"
)

// Cluster is a cluster in memory. It is safe for concurrent use once it is made.
type Cluster struct {
	Transcript *Transcript // Shared by all nodes.
	Config     []byte      // What Kubeconfig returns; nil makes it fail.
	// Collect, when set, is what CollectLogs does.
	Collect func(ctx context.Context, dir string) error
	Able    clusters.Capabilities // What Capabilities returns; everything on one kernel unless it is set.

	name  string
	runID string
	nodes []*Node
}

// NewCluster returns a running cluster of one control plane and some workers, named and addressed as kind does it:
// 172.18.0.2 and fc00::2 for the control plane, one up for each worker.
func NewCluster(name string, workers int) *Cluster {
	c := &Cluster{Transcript: &Transcript{}, Config: []byte("kind: Config\n"), name: name}
	c.Able.Can = []string{
		clusters.CanAPI, clusters.CanClock, clusters.CanNetem, clusters.CanNFTables, clusters.CanPower,
		clusters.CanReboot, clusters.CanSharedDir, clusters.CanStaticPods, clusters.CanSystemd, clusters.CanTBF,
		clusters.OneKernel,
	}
	c.nodes = append(c.nodes, c.node(name+"-control-plane", clusters.RoleControlPlane, 2))
	for i := range workers {
		suffix := "-worker"
		if i > 0 {
			suffix = fmt.Sprintf("-worker%d", i+1)
		}
		c.nodes = append(c.nodes, c.node(name+suffix, clusters.RoleWorker, byte(3+i)))
	}
	return c
}

func (c *Cluster) node(name string, role clusters.Role, last byte) *Node {
	v6 := netip.MustParseAddr("fc00::").As16()
	v6[15] = last
	return NewNode(name, role, c.Transcript, netip.AddrFrom4([4]byte{172, 18, 0, last}), netip.AddrFrom16(v6))
}

// Name returns the cluster's name.
func (c *Cluster) Name() string { return c.name }

// Capabilities returns Able.
func (c *Cluster) Capabilities() clusters.Capabilities { return c.Able }

// Kubeconfig returns Config.
func (c *Cluster) Kubeconfig(ctx context.Context) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get kubeconfig of cluster %q: %w", c.name, err)
	}
	if c.Config == nil {
		return nil, fmt.Errorf("get kubeconfig of cluster %q: it has none", c.name)
	}
	return c.Config, nil
}

// Nodes returns the nodes, the control plane first.
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

// Node returns a node by the end of its name: "control-plane", "worker", "worker2". It panics when there is none, since
// that is a mistake in the test.
func (c *Cluster) Node(suffix string) *Node {
	i := slices.IndexFunc(c.nodes, func(n *Node) bool { return strings.HasSuffix(n.name, "-"+suffix) })
	if i < 0 {
		panic(fmt.Sprintf("fake cluster %q has no node %q", c.name, suffix))
	}
	return c.nodes[i]
}

// On scripts the answers to a command on every node. See Node.On.
func (c *Cluster) On(pattern []string, replies ...Reply) {
	for _, n := range c.nodes {
		n.On(pattern, replies...)
	}
}

// CollectLogs calls Collect.
func (c *Cluster) CollectLogs(ctx context.Context, dir string) error {
	if c.Collect == nil {
		return ctx.Err()
	}
	return c.Collect(ctx, dir)
}

// Provider makes clusters in memory. The zero value is ready. It is safe for concurrent use.
type Provider struct {
	// CreateReply scripts Create. With Err set the cluster is not made, with AfterAct it is left behind half-made.
	CreateReply Reply
	// Prepare, when set, is called with each cluster that Create makes, to script it.
	Prepare func(c *Cluster, spec clusters.Spec)

	mu       sync.Mutex
	clusters map[string]*Cluster
	foreign  map[string]bool
	deleted  []string
}

// Add puts a cluster there that a run made before; an empty run ID stands for one that Seatrial did not make.
func (p *Provider) Add(c *Cluster, runID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.clusters == nil {
		p.clusters, p.foreign = map[string]*Cluster{}, map[string]bool{}
	}
	c.runID = runID
	p.clusters[c.name], p.foreign[c.name] = c, runID == ""
}

// Deleted returns the names of the clusters that were deleted, in order.
func (p *Provider) Deleted() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.deleted)
}

// Name returns "fake".
func (p *Provider) Name() string { return "fake" }

// Create makes a cluster as scripted. A name that is taken is an error.
func (p *Provider) Create(ctx context.Context, spec clusters.Spec) (clusters.Cluster, error) {
	what := fmt.Sprintf("create cluster %q", spec.Name)
	if err := p.CreateReply.before(ctx, what); err != nil {
		return nil, err
	}
	if _, err := p.Open(ctx, spec.Name); err == nil {
		return nil, fmt.Errorf("%s: it exists already", what)
	}
	c := NewCluster(spec.Name, spec.Workers)
	if p.Prepare != nil {
		p.Prepare(c, spec)
	}
	if p.CreateReply.Err == nil || p.CreateReply.AfterAct {
		p.Add(c, spec.RunID)
	}
	if p.CreateReply.Err != nil {
		return nil, fmt.Errorf("%s: %w", what, p.CreateReply.Err)
	}
	return c, nil
}

// Open returns a cluster that is there, or an error that wraps clusters.ErrNotFound.
func (p *Provider) Open(ctx context.Context, name string) (clusters.Cluster, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("open cluster %q: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	c, ok := p.clusters[name]
	if !ok {
		return nil, fmt.Errorf("open cluster %q: %w", name, clusters.ErrNotFound)
	}
	return c, nil
}

// List returns the clusters that are there, by name.
func (p *Provider) List(ctx context.Context) ([]clusters.Owned, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list clusters: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]clusters.Owned, 0, len(p.clusters))
	for name, c := range p.clusters {
		o := clusters.Owned{Name: name, RunID: c.runID, Ours: !p.foreign[name]}
		for _, n := range c.nodes {
			o.Nodes = append(o.Nodes, n.name)
		}
		out = append(out, o)
	}
	slices.SortFunc(out, func(a, b clusters.Owned) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Delete removes a cluster; one that is not there is no error.
func (p *Provider) Delete(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("delete cluster %q: %w", name, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.clusters[name]; ok {
		delete(p.clusters, name)
		p.deleted = append(p.deleted, name)
	}
	return nil
}
