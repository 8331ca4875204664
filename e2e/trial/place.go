package trial

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/lock"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/e2e/certify/audit"
)

// ClusterOptions describe the cluster and the images of trials.
type ClusterOptions struct {
	Engine            string // Name or path of the container engine's client: "docker", "podman" or "nerdctl".
	ClusterName       string
	Workers           int
	KubernetesVersion string // Of the node image; DefaultKubernetesVersion when empty.
	ImageSource       string // "auto", "published" or "build".
	DatabaseImage     string // As ImageSource, or an image of MySQL in a registry.
	CacheDir          string // Where builds are kept; below the user's cache directory when empty.
	Consent           offline.Consent
	FeatureGates      []string      // Of API server and controller manager, on in a cluster that is made.
	Upgrades          []string      // The versions that nodes will be upgraded to; their node images are made too.
	Storages          []string      // See plan.Storages; programs they need on nodes are built first.
	NoDatabase        bool          // No workload needs the database image: neither make nor load it.
	Access            *Access       // Reaches a cluster that was there; ClusterName is then its context. See Bound.
	Tampers           bool          // A plan corrupts data on purpose.
	Reuse             bool          // Use an existing cluster of that name, and keep it.
	Program           string        // Path of the seatrial program; found or built if empty.
	Spec              clusters.Spec // Flags and Kubelet of a cluster that is made.
	Progress          io.Writer
	Log               *slog.Logger
}

// OptionsFor returns the options of a cluster that all plans fit on.
func OptionsFor(plans ...plan.Plan) ClusterOptions {
	var m ClusterOptions
	for i, p := range plans {
		none := p.Workload.External != nil || p.Workload.Light
		m.Workers, m.NoDatabase = max(m.Workers, p.Workers), (i == 0 || m.NoDatabase) && none
		if name := p.Workload.StorageName(); !slices.Contains(m.Storages, name) {
			m.Storages = append(m.Storages, name)
		}
		for _, gate := range p.FeatureGates {
			if !slices.Contains(m.FeatureGates, gate) {
				m.FeatureGates = append(m.FeatureGates, gate)
			}
		}
	}
	return m
}

// Bound gives the session on an existing cluster leave for the faults of plans, each carried out a number of times, and
// for no more: the agent on each node holds it to that. Faults that outlast their undo are the plan's to end, and count
// until it is due.
func (m *ClusterOptions) Bound(parts Parts, times int, plans ...plan.Plan) {
	l := &m.Access.Faults
	for _, p := range plans {
		m.Tampers = m.Tampers || slices.ContainsFunc(p.AllSteps(), func(s plan.Step) bool { return s.Tamper != nil })
		for _, f := range faultsOf(p) {
			def, _ := parts.fault(f.Name)
			m.Access.FaultControlPlane = m.Access.FaultControlPlane || plan.OnControlPlane(def.Takes)
			life := def.Life(f)
			l.Longest, l.Total = max(l.Longest, life), l.Total+time.Duration(times)*life
			if !slices.Contains(l.Faults, f.Name) {
				l.Faults = append(l.Faults, f.Name)
			}
		}
	}
	slices.Sort(l.Faults)
}

func faultsOf(p plan.Plan) (all []plan.Fault) {
	for _, s := range p.AllSteps() {
		if s.Fault != nil {
			all = append(all, *s.Fault)
		}
	}
	return all
}

// Place is a cluster that is ready for trials.
type Place struct {
	Cluster clusters.Cluster
	Program string // Path of the seatrial program.

	options    ClusterOptions
	ours       bool           // Leave deletes the cluster.
	maker      clusters.Maker // Nil if the cluster is not ours.
	lock       *lock.Lock
	images     offline.Images
	agent      string            // Path of the agent's binary.
	nodeImages map[string]string // By version, of those to upgrade to.
	running    atomic.Pointer[runner]
}

// Kubeconfig returns the path of the file that tells how to reach the cluster, "" for a cluster that was there before.
func (p *Place) Kubeconfig() string {
	if k, ok := p.maker.(interface{ Kubeconfig() string }); ok {
		return k.Kubeconfig()
	}
	return ""
}

// leaveBound is how long deleting a cluster may take.
const leaveBound = 2 * time.Minute

// Prepare makes images and cluster, or uses existing ones. If another harness uses the cluster it returns a
// *lock.TakenError before it makes anything.
func Prepare(ctx context.Context, m ClusterOptions) (*Place, error) {
	dir, err := lock.Dir()
	if err != nil {
		return nil, err
	}
	held, err := lock.Take(dir, url.PathEscape(m.ClusterName), lock.Self(os.Args), m.Log)
	if err != nil {
		return nil, err
	}
	p := &Place{options: m, Program: m.Program, lock: held, nodeImages: map[string]string{}}
	if err := p.prepare(ctx); err != nil {
		return nil, errors.Join(err, p.Leave(ctx))
	}
	return p, nil
}

func (p *Place) prepare(ctx context.Context) (err error) {
	m := p.options
	if m.Reuse || m.Access != nil {
		if err := p.open(ctx); err != nil {
			return err
		}
	}
	if p.images, err = EnsureImages(ctx, m); err != nil {
		return err
	}
	for _, v := range m.Upgrades {
		other := m
		other.KubernetesVersion = v
		made, err := EnsureImages(ctx, other)
		if err != nil {
			return err
		}
		p.nodeImages[v] = made.Node
	}
	if p.agent, err = program.Agent().Find(ctx, m.Log); err != nil {
		return fmt.Errorf("find the node agent: %w", err)
	}
	if p.Program == "" {
		if p.Program, err = program.Seatrial().Find(ctx, m.Log); err != nil {
			return fmt.Errorf("find the program of the watchdogs: %w", err)
		}
	}
	if err := EnsureStorages(ctx, m); err != nil {
		return err
	}
	if p.Cluster != nil {
		fmt.Fprintf(m.Progress, "cluster %s is used again\n", m.ClusterName)
	} else if err := p.create(ctx); err != nil {
		return err
	}
	return m.loadDatabase(ctx, p.Cluster, p.images.Database)
}

// Exists reports whether there is a cluster of the name of m.
func Exists(ctx context.Context, m ClusterOptions) (bool, error) {
	provider, err := m.provider()
	if err != nil {
		return false, err
	}
	_, err = provider.Open(ctx, m.ClusterName)
	if errors.Is(err, clusters.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}

// open opens and locks a cluster that exists. If a cluster to reuse does not exist, p.Cluster stays nil.
func (p *Place) open(ctx context.Context) error {
	provider, err := p.options.provider()
	if err != nil {
		return err
	}
	p.Cluster, err = provider.Open(ctx, p.options.ClusterName)
	if p.options.Access == nil && errors.Is(err, clusters.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return p.hold(ctx)
}

func (p *Place) create(ctx context.Context) error {
	m := p.options
	provider, err := m.provider()
	if err != nil {
		return err
	}
	maker, ok := provider.(clusters.Maker)
	if !ok {
		return fmt.Errorf("make cluster %q: provider %s makes none; name one that is there, and reuse it",
			m.ClusterName, provider.Name())
	}
	begin := time.Now()
	fmt.Fprintf(m.Progress, "making cluster %s: 1 control plane, %d workers (about 1m)\n",
		m.ClusterName, m.Workers)
	p.Cluster, err = maker.Create(ctx, clusters.Spec{
		Name: m.ClusterName, Workers: m.Workers, NodeImage: p.images.Node,
		KubernetesVersion: p.images.KubernetesVersion, RunID: NewRunID(begin),
		Flags: m.flags(), Kubelet: m.Spec.Kubelet,
	})
	if err != nil {
		return fmt.Errorf("make cluster %q: %w", m.ClusterName, err)
	}
	p.maker, p.ours = maker, true
	fmt.Fprintf(m.Progress, "cluster %s is ready after %.0f s\n", m.ClusterName, time.Since(begin).Seconds())
	return p.hold(ctx)
}

// flags returns the flags of the control plane: those of Spec, which a twin has, or those of a plan's feature gates.
func (m ClusterOptions) flags() map[string]map[string]string {
	if len(m.FeatureGates) == 0 {
		return m.Spec.Flags
	}
	all := map[string]map[string]string{}
	for _, component := range gated() {
		all[component] = map[string]string{audit.GatesFlag: strings.Join(m.FeatureGates, "=true,") + "=true"}
	}
	return all
}

// Leave deletes the cluster if Prepare made it, and unlocks it. It ignores the end of ctx.
func (p *Place) Leave(ctx context.Context) error {
	released := p.Release(ctx)
	if !p.ours {
		return released
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveBound)
	defer cancel()
	if err := p.maker.Delete(ctx, p.options.ClusterName); err != nil {
		return errors.Join(released, err)
	}
	if released != nil { // Its API server may be gone for good; with the cluster went the Lease.
		p.options.Log.Warn("release the cluster that was deleted", "cluster", p.options.ClusterName, "err", released)
	}
	return nil
}

// Release unlocks the cluster and keeps it.
func (p *Place) Release(ctx context.Context) error {
	var closed error
	if closer, ok := p.Cluster.(clusters.Closer); ok { // It removes what was put into the cluster to reach its nodes.
		closed = closer.Close(ctx)
	}
	return errors.Join(closed, p.lock.Release(ctx))
}

// hold locks the cluster against harnesses on other hosts.
func (p *Place) hold(ctx context.Context) error {
	kube, err := client(ctx, p.Cluster)
	if err != nil {
		return fmt.Errorf("take cluster %q: %w", p.Cluster.Name(), err)
	}
	return p.lock.Hold(ctx, kube)
}

// ClientConfig returns the configuration of a client of the cluster.
func (p *Place) ClientConfig(ctx context.Context) (*rest.Config, error) {
	return clientConfig(ctx, p.Cluster)
}

func client(ctx context.Context, cluster clusters.Cluster) (kubernetes.Interface, error) {
	config, err := clientConfig(ctx, cluster)
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

// Used returns who uses a cluster, by the lock of this host and the lease in the cluster. Without an answer of the API
// server only the lock counts: a cluster that does not run is not in use.
func Used(ctx context.Context, p clusters.Provider, name string) (lock.Holder, bool, error) {
	dir, err := lock.Dir()
	if err != nil {
		return lock.Holder{}, false, err
	}
	if h, used, err := lock.Used(dir, name); used || err != nil {
		return h, used, err
	}
	if cluster, err := p.Open(ctx, name); err == nil {
		if kube, err := client(ctx, cluster); err == nil {
			h, used, _ := lock.UsedOn(ctx, kube)
			return h, used, nil
		}
	}
	return lock.Holder{}, false, nil
}

// OutsideCommand is the command of the seatrial program that is a watchdog beside a cluster.
const OutsideCommand = "deadman"

// Ordered reaches what orders of watchdogs are about: nodes through the provider of their cluster, the API server by
// the kubeconfig on stdin.
func Ordered(stdin io.Reader, log *slog.Logger) undo.Reach {
	return undo.Reach{
		Node: func(ctx context.Context, o undo.Order) (clusters.Node, error) {
			if o.Hook != "" {
				return hookedNode(o.Hook, o.Node), nil
			}
			provider, err := NewProvider(o.Engine, log)
			if err != nil {
				return nil, err
			}
			cluster, err := provider.Open(ctx, o.Cluster)
			if err != nil {
				return nil, err
			}
			nodes, err := cluster.Nodes(ctx)
			if err != nil {
				return nil, fmt.Errorf("list nodes: %w", err)
			}
			if n, ok := find(nodes, func(n clusters.Node) bool { return n.Name() == o.Node }); ok {
				return n, nil
			}
			return nil, fmt.Errorf("cluster %q has no node %q", o.Cluster, o.Node)
		},
		API: func() (undo.API, error) {
			text, err := io.ReadAll(stdin)
			if err != nil {
				return nil, fmt.Errorf("read kubeconfig: %w", err)
			}
			config, err := clientcmd.RESTConfigFromKubeConfig(text)
			if err != nil {
				return nil, fmt.Errorf("read kubeconfig: %w", err)
			}
			kube, err := kubernetes.NewForConfig(config)
			if err != nil {
				return nil, err
			}
			return fault.API(kube), nil
		},
	}
}

// Unmark removes the selected owners' marks from all API objects of a cluster, and returns what it did. It reaches no
// node.
func Unmark(ctx context.Context, config *rest.Config, only undo.Only) (did []string, err error) {
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return fault.Unmark(ctx, kube, only, fault.MarkedResources()...)
}

// NewRunID returns an owner mark: a letter and 10 to 12 lower-case letters and digits, valid in labels, unit names and
// names of nftables tables. It does not depend on the seed. Two IDs of one millisecond differ with a probability of
// 1023/1024.
func NewRunID(now time.Time) string {
	return "r" + strconv.FormatInt(now.UnixMilli(), 36) + strings.ToLower(rand.Text()[:2])
}
