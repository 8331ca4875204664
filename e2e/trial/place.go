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
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/lock"
	"github.com/seatrial/seatrial/clusters/program"
	"github.com/seatrial/seatrial/e2e/report"
)

// ClusterOptions describe the cluster and the images of trials.
type ClusterOptions struct {
	Engine            string // Name or path of the container engine's client: "docker", "podman" or "nerdctl".
	ClusterName       string
	Workers           int
	KubernetesVersion string   // Of the node image; DefaultKubernetesVersion when empty.
	ImageSource       string   // "auto", "published" or "build".
	CacheDir          string   // Where builds are kept; below the user's cache directory when empty.
	Upgrades          []string // The versions that nodes will be upgraded to; their node images are made too.
	Storages          []string // See plan.Storages; programs they need on nodes are built first.
	NoDatabase        bool     // No workload needs the database image: neither make nor load it.
	Access            *Access  // Reaches a cluster that was there; ClusterName is then its context.
	Reuse             bool     // Use an existing cluster of that name, and keep it.
	Program           string   // Path of the seatrial program; found or built if empty.
	Command           []string // Shown to other harnesses; default os.Args.
	Progress          io.Writer
	Log               *slog.Logger
}

// Place is a cluster that is ready for trials.
type Place struct {
	Cluster clusters.Cluster
	maker   clusters.Maker // Nil of a cluster that cannot be deleted.
	lock    *lock.Lock     // Nil of a reopened place: the process that made it holds the lock.
	record  PlaceRecord
}

// PlaceRecord is what another process needs to reopen a place.
type PlaceRecord struct {
	ClusterName string            `json:"clusterName"`
	Image       string            `json:"image"`
	Agent       string            `json:"agent"`
	Program     string            `json:"program"`
	Ours        bool              `json:"ours"` // Leave deletes it.
	Versions    map[string]string `json:"versions"`
	ImageSource string            `json:"imageSource"`
	Engine      string            `json:"engine"`
	CacheDir    string            `json:"cacheDir"`
	NodeImages  map[string]string `json:"nodeImages,omitempty"` // By version, of those to upgrade to.
}

// leaveBound is how long deleting a cluster may take.
const leaveBound = 2 * time.Minute

// Prepare makes images and cluster, or uses existing ones. If another harness uses the cluster it returns a
// *lock.TakenError before it makes anything.
func Prepare(ctx context.Context, m ClusterOptions) (*Place, error) {
	held, err := takeLock(ctx, m)
	if err != nil {
		return nil, err
	}
	p, err := prepare(ctx, m, held)
	if err != nil {
		return nil, errors.Join(err, held.Release(ctx))
	}
	return p, nil
}

func prepare(ctx context.Context, m ClusterOptions, held *lock.Lock) (*Place, error) {
	images, err := ensureImages(ctx, m)
	if err != nil {
		return nil, err
	}
	upgrades := map[string]string{}
	for _, v := range m.Upgrades {
		other := m
		other.KubernetesVersion = v
		made, err := EnsureImages(ctx, other)
		if err != nil {
			return nil, err
		}
		upgrades[v] = made.Node
	}
	agent, err := program.Agent().Find(ctx, m.Log)
	if err != nil {
		return nil, fmt.Errorf("find the node agent: %w", err)
	}
	if m.Program, err = findProgram(ctx, m); err != nil {
		return nil, err
	}
	if err := EnsureStorages(ctx, m); err != nil {
		return nil, err
	}
	provider, err := m.provider()
	if err != nil {
		return nil, err
	}
	p := &Place{lock: held, record: PlaceRecord{
		ClusterName: m.ClusterName, Image: images.Database.Ref, Agent: agent, ImageSource: images.Source,
		Versions: versionsOf(images), Engine: m.Engine, CacheDir: m.CacheDir, Program: m.Program,
		NodeImages: upgrades,
	}}
	if m.Reuse || m.Access != nil {
		p.Cluster, err = provider.Open(ctx, m.ClusterName)
		if err == nil {
			fmt.Fprintf(m.Progress, "cluster %s is used again\n", m.ClusterName)
			err := errors.Join(hold(ctx, held, p.Cluster), m.loadDatabase(ctx, p.Cluster, images.Database))
			if err != nil {
				return nil, errors.Join(err, closeCluster(ctx, p.Cluster))
			}
			return p, nil
		}
		if m.Access != nil || !errors.Is(err, clusters.ErrNotFound) {
			return nil, err
		}
	}
	maker, ok := provider.(clusters.Maker)
	if !ok {
		return nil, fmt.Errorf("make cluster %q: provider %s makes none; name one that is there, and reuse it",
			m.ClusterName, provider.Name())
	}
	p.maker = maker
	begin := time.Now()
	fmt.Fprintf(m.Progress, "making cluster %s: 1 control plane, %d workers (about a minute)\n",
		m.ClusterName, m.Workers)
	p.Cluster, err = maker.Create(ctx, clusters.Spec{
		Name: m.ClusterName, Workers: m.Workers, NodeImage: images.Node,
		KubernetesVersion: images.KubernetesVersion, RunID: NewRunID(begin),
	})
	if err != nil {
		return nil, fmt.Errorf("make cluster %q: %w", m.ClusterName, err)
	}
	p.record.Ours = true
	err = errors.Join(hold(ctx, held, p.Cluster), m.loadDatabase(ctx, p.Cluster, images.Database))
	if err != nil {
		return nil, errors.Join(err, p.Leave(ctx))
	}
	fmt.Fprintf(m.Progress, "cluster %s is ready after %.0f s\n", m.ClusterName, time.Since(begin).Seconds())
	return p, nil
}

// Record returns what Reopen needs.
func (p *Place) Record() PlaceRecord { return p.record }

// Reopen opens a place that another process prepared.
func Reopen(ctx context.Context, m ClusterOptions, r PlaceRecord) (*Place, error) {
	provider, err := NewProvider(m.Engine, m.Log)
	if err != nil {
		return nil, err
	}
	c, err := provider.Open(ctx, r.ClusterName)
	if err != nil {
		return nil, err
	}
	maker, _ := provider.(clusters.Maker)
	return &Place{Cluster: c, maker: maker, record: r}, nil
}

// Leave deletes the cluster if Prepare made it, and unlocks it. It ignores the end of ctx.
func (p *Place) Leave(ctx context.Context) error {
	released := p.Release(ctx)
	if !p.record.Ours || p.maker == nil {
		return released
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveBound)
	defer cancel()
	return errors.Join(released, p.maker.Delete(ctx, p.record.ClusterName))
}

// Release unlocks the cluster and keeps it.
func (p *Place) Release(ctx context.Context) error {
	return errors.Join(closeCluster(ctx, p.Cluster), p.lock.Release(ctx))
}

// closeCluster removes what was put into a cluster to reach its nodes.
func closeCluster(ctx context.Context, c clusters.Cluster) error {
	if closer, ok := c.(clusters.Closer); ok {
		return closer.Close(ctx)
	}
	return nil
}

// RunOptions describe one trial.
type RunOptions struct {
	Plan     plan.Plan
	RunsDir  string
	Header   report.Run // Command line and commit; Run fills in the rest.
	Progress io.Writer
	Debug    slog.Level
	Last     bool // Leave is next: the workload may stay.
}

// Run carries out one trial.
func (p *Place) Run(ctx context.Context, o RunOptions) (Outcome, error) {
	now := time.Now()
	header := o.Header
	header.Schema = report.RunSchemaVersion
	header.RunID = NewRunID(now)
	header.Started = now.UTC()
	header.Scenario, header.Seed = o.Plan.Scenario, o.Plan.Seed
	header.NodeImageSource = p.record.ImageSource
	header.Versions = p.record.Versions
	header.Host = hostFacts(p.record.Engine)
	beside, err := p.outside()
	if err != nil {
		return Outcome{}, err
	}
	return Execute(ctx, Request{
		Parts: AllParts(), Plan: o.Plan, RunID: header.RunID, Cluster: p.Cluster, Image: p.record.Image,
		Watchdog: beside,
		Agent:    p.record.Agent, CacheDir: p.record.CacheDir, NodeImages: p.record.NodeImages,
		RunsDir: o.RunsDir, Header: header, Progress: o.Progress, Debug: o.Debug,
		Last: o.Last && p.record.Ours,
	})
}

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
	held, err := lock.Take(dir, url.PathEscape(m.ClusterName), lock.Self(command), m.Log)
	if err != nil {
		return nil, err
	}
	if err := holdExisting(ctx, m, held); err != nil {
		return nil, errors.Join(err, held.Release(ctx))
	}
	return held, nil
}

// holdExisting locks a cluster that is to be used again against harnesses on other hosts.
func holdExisting(ctx context.Context, m ClusterOptions, held *lock.Lock) error {
	if !m.Reuse {
		return nil // The provider refuses an existing cluster.
	}
	provider, err := NewProvider(m.Engine, m.Log)
	if err != nil {
		return err
	}
	cluster, err := provider.Open(ctx, m.ClusterName)
	if err != nil {
		return nil //nolint:nilerr // There is none yet.
	}
	return hold(ctx, held, cluster)
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

// OutsideCommand is the command of the seatrial program that is a dead-man beside a cluster.
const OutsideCommand = "deadman"

// findProgram returns the path of the seatrial program, of which a command outlives the harness.
func findProgram(ctx context.Context, m ClusterOptions) (string, error) {
	if m.Program != "" {
		return m.Program, nil
	}
	path, err := program.Seatrial().Find(ctx, m.Log)
	if err != nil {
		return "", fmt.Errorf("find what outlives the harness: %w", err)
	}
	return path, nil
}

// outside returns what brings nodes of the place back when the harness cannot.
func (p *Place) outside() (undo.HostWatchdog, error) {
	dir, err := undo.WatchdogDir()
	return undo.HostWatchdog{
		Argv: []string{p.record.Program, OutsideCommand}, Dir: dir, Engine: p.record.Engine,
		Cluster: p.record.ClusterName,
	}, err
}

// OpenOrdered finds the node of an order, through the provider of its cluster.
func OpenOrdered(log *slog.Logger) undo.OpenNode {
	return func(ctx context.Context, o undo.Order) (clusters.Node, error) {
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
		for _, n := range nodes {
			if n.Name() == o.Node {
				return n, nil
			}
		}
		return nil, fmt.Errorf("cluster %q has no node %q", o.Cluster, o.Node)
	}
}

// NewRunID returns an owner mark: a letter and 10 to 12 lower-case letters and digits, valid in labels, unit names and
// names of nftables tables. It does not depend on the seed. Two IDs of one millisecond differ with a probability of
// 1023/1024.
func NewRunID(now time.Time) string {
	return "r" + strconv.FormatInt(now.UnixMilli(), 36) + strings.ToLower(rand.Text()[:2])
}
