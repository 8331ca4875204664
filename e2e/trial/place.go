package trial

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/berth"
	"github.com/seatrial/seatrial/e2e/observe/agentbin"
	"github.com/seatrial/seatrial/e2e/report"
)

// Moorings are what is wished of the place where trials are carried out.
type Moorings struct {
	Engine            string // Name or path of the container engine's client: "docker", "podman" or "nerdctl".
	ClusterName       string
	Workers           int
	KubernetesVersion string   // Of the node image; DefaultKubernetesVersion when empty.
	ImageSource       string   // "auto", "published" or "build".
	CacheDir          string   // Where builds are kept; below the user's cache directory when empty.
	Storages          []string // What volumes will be, see plan.Storages: what they need on nodes is built before.
	Reuse             bool     // A cluster of that name that is there is used, and kept.
	Program           string   // Path of the seatrial program; it is looked for, and built, when empty.
	Command           []string // What other harnesses are told of this one; os.Args when empty.
	Progress          io.Writer
	Log               *slog.Logger
}

// Place is a cluster that is ready, with everything a trial on it needs.
type Place struct {
	Cluster clusters.Cluster
	maker   clusters.Maker // Nil of a cluster that cannot be deleted.
	berth   *berth.Berth   // Nil of a place that was returned to: who made it holds it.
	record  PlaceRecord
}

// PlaceRecord is all that another process needs to come back to a place.
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
}

// leaveBound is how long deleting a cluster may take.
const leaveBound = 2 * time.Minute

// Moor makes the images and the cluster, or takes the ones that are there. A cluster that another harness uses is a
// *berth.TakenError, before anything is made.
func Moor(ctx context.Context, m Moorings) (*Place, error) {
	held, err := takeBerth(ctx, m)
	if err != nil {
		return nil, err
	}
	p, err := moor(ctx, m, held)
	if err != nil {
		return nil, errors.Join(err, held.Release(ctx))
	}
	return p, nil
}

func moor(ctx context.Context, m Moorings, held *berth.Berth) (*Place, error) {
	images, err := EnsureImages(ctx, m)
	if err != nil {
		return nil, err
	}
	agent, err := agentbin.Find(ctx, m.Log)
	if err != nil {
		return nil, fmt.Errorf("find the node agent: %w", err)
	}
	if m.Program, err = findProgram(ctx, m); err != nil {
		return nil, err
	}
	if err := EnsureStorages(ctx, m); err != nil {
		return nil, err
	}
	provider, err := NewProvider(m.Engine, m.Log)
	if err != nil {
		return nil, err
	}
	p := &Place{berth: held, record: PlaceRecord{
		ClusterName: m.ClusterName, Image: images.Database.Ref, Agent: agent, ImageSource: images.Source,
		Versions: versionsOf(images), Engine: m.Engine, CacheDir: m.CacheDir, Program: m.Program,
	}}
	if m.Reuse {
		p.Cluster, err = provider.Open(ctx, m.ClusterName)
		if err == nil {
			fmt.Fprintf(m.Progress, "cluster %s is used again\n", m.ClusterName)
			return p, errors.Join(hold(ctx, held, p.Cluster), loadDatabase(ctx, p.Cluster, images.Database))
		}
		if !errors.Is(err, clusters.ErrNotFound) {
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
	err = errors.Join(hold(ctx, held, p.Cluster), loadDatabase(ctx, p.Cluster, images.Database))
	if err != nil {
		return nil, errors.Join(err, p.Leave(ctx))
	}
	fmt.Fprintf(m.Progress, "cluster %s is ready after %.0f s\n", m.ClusterName, time.Since(begin).Seconds())
	return p, nil
}

// Record returns what Return needs.
func (p *Place) Record() PlaceRecord { return p.record }

// Return comes back to a place that another process made.
func Return(ctx context.Context, m Moorings, r PlaceRecord) (*Place, error) {
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

// Leave deletes the cluster if Moor made it, and lets others use it if not. It works although ctx has ended.
func (p *Place) Leave(ctx context.Context) error {
	released := p.Release(ctx)
	if !p.record.Ours || p.maker == nil {
		return released
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveBound)
	defer cancel()
	return errors.Join(released, p.maker.Delete(ctx, p.record.ClusterName))
}

// Release keeps the cluster, and lets others use it.
func (p *Place) Release(ctx context.Context) error { return p.berth.Release(ctx) }

// Orders say which trial is carried out at a place.
type Orders struct {
	Plan     plan.Plan
	RunsDir  string
	Header   report.Run // Command line and commit; what the place knows is filled in.
	Progress io.Writer
	Debug    slog.Level
	Last     bool // Leave follows: the workload need not be removed from the cluster before.
}

// Sail carries one trial out.
func (p *Place) Sail(ctx context.Context, o Orders) (Outcome, error) {
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
		Agent:    p.record.Agent, CacheDir: p.record.CacheDir,
		RunsDir: o.RunsDir, Header: header, Progress: o.Progress, Debug: o.Debug,
		Last: o.Last && p.record.Ours,
	})
}
