package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/berth"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/trial"
)

// defaultCluster is the name of the cluster that run makes.
const defaultCluster = "seatrial"

// mooringFlags say where a trial is carried out.
type mooringFlags struct {
	cluster    string
	reuse      bool
	kubernetes string
	image      string
	cache      string
}

func (f *mooringFlags) register(cmd *cobra.Command) {
	f.registerImages(cmd)
	cmd.Flags().StringVar(&f.cluster, "cluster", defaultCluster, "name of the kind cluster")
	cmd.Flags().BoolVar(&f.reuse, "reuse", false, "use the cluster of that name if it is there, and keep it")
}

func (f *mooringFlags) registerImages(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubernetes, "kubernetes-version", offline.DefaultKubernetesVersion,
		"version of the node image")
	cmd.Flags().StringVar(&f.image, "node-image", "auto",
		"auto, published (pull kindest/node) or build (from Go modules and Debian packages)")
	cmd.Flags().StringVar(&f.cache, "cache", "",
		"where builds are kept (default: seatrial below the user's cache directory)")
}

// moorings finds or makes the container engine and returns what the trial wishes for.
func (f *mooringFlags) moorings(ctx context.Context, p plan.Plan, stderr io.Writer) (trial.Moorings, error) {
	if err := offline.ValidateImages(f.kubernetes, f.image); err != nil {
		return trial.Moorings{}, badArguments("%w", err)
	}
	if err := unused(f.cluster); err != nil {
		return trial.Moorings{}, err
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	found, err := offline.Tool{Progress: stderr, Log: log}.EnsureEngine(ctx)
	if err != nil {
		return trial.Moorings{}, fmt.Errorf("set up the host: %w", err)
	}
	self, err := os.Executable() // A command of it outlives the trial.
	if err != nil {
		return trial.Moorings{}, fmt.Errorf("find this program: %w", err)
	}
	return trial.Moorings{
		Engine: found.Path, ClusterName: f.cluster, Workers: p.Workers, KubernetesVersion: f.kubernetes,
		Storages: []string{p.Workload.StorageName()}, ImageSource: f.image, CacheDir: f.cache,
		Reuse: f.reuse, Progress: stderr, Log: log, Program: self,
	}, nil
}

// unused returns an error for a cluster that another harness on this host uses: that is told before an engine is looked
// for, which can take seconds on a busy machine. The cluster is not taken by it.
func unused(cluster string) error {
	dir, err := berth.Dir()
	if err != nil {
		return err
	}
	holder, used, err := berth.Used(dir, cluster)
	if err == nil && used {
		return badArguments("%w", &berth.TakenError{Cluster: cluster, Holder: holder})
	}
	return err
}

// moor makes or takes the cluster. That another harness uses it is the user's to mend, by waiting or by another name.
func moor(ctx context.Context, m trial.Moorings) (*trial.Place, error) {
	place, err := trial.Moor(ctx, m)
	var taken *berth.TakenError
	if errors.As(err, &taken) {
		return nil, badArguments("%w", err)
	}
	return place, err
}
