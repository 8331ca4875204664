package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/certify/reader"
	"github.com/seatrial/seatrial/e2e/certify/twin"
	"github.com/seatrial/seatrial/e2e/report"
	"github.com/seatrial/seatrial/e2e/trial"
)

const (
	// twinCluster is the default name of a twin, and twinWorkers its size: what certify upgrade needs.
	twinCluster = "seatrial-twin"
	twinWorkers = 3
	// kubelets is how many kubelets are asked for their configuration.
	kubelets = 10
)

type twinFlags struct {
	cluster  clusterFlags // Without access: the cluster is a new one.
	original accessFlags
	choice   twin.Choice
	output   string
}

func newTwin() *cobra.Command {
	var f twinFlags
	cmd := &cobra.Command{
		Use:   "twin",
		Short: "Make a kind cluster like another cluster, which is only read",
		Long: `Twin reads a cluster as audit does, with GET requests only and no Secret, and makes a kind cluster like
it: the nearest pinned version of the same minor, feature gates and other flags of the control plane, settings of
kubelets, StatefulSets with stand-ins for their images, PodDisruptionBudgets, and StorageClasses on disks of Seatrial's
CSI driver. It lists what was not copied, each with the reason. To read the settings of kubelets it needs the right to
get nodes/proxy. The twin stays until seatrial clean deletes it.

Exit codes: 0 the twin is made, 2 it is made and not every pod of its StatefulSets became Ready, 254 bad arguments and
nothing was made, 255 it could not be made, and what was made is deleted.`,
		Example: "  seatrial certify twin --context prod\n" +
			"  seatrial certify twin --context prod --namespace shop --workers 4 -o json",
		Args: exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.original.registerContext(cmd)
	cmd.Flag("kubeconfig").Usage = "kubeconfig of the cluster to read"
	cmd.Flag("context").Usage = "context of the cluster to read (default: the current one)"
	f.cluster.registerImages(cmd)
	cmd.Flag("kubernetes-version").Usage = "version of the twin (default: the nearest pinned one of the same minor)"
	cmd.Flags().StringVar(&f.cluster.name, "cluster", twinCluster, "name of the twin")
	cmd.Flags().IntVar(&f.choice.Workers, "workers", twinWorkers,
		"how many workers the twin has, beside one node of the control plane; certify upgrade needs 3")
	cmd.Flags().StringSliceVarP(&f.choice.Namespaces, "namespace", "n", nil,
		"namespaces to copy StatefulSets and budgets of (default: all but kube-*)")
	outputFlag(cmd, &f.output, "twin")
	return cmd
}

// twinned is what twin prints.
type twinned struct {
	twin.Twin
	Cluster    string   `json:"cluster"`
	Original   string   `json:"original"` // Its context.
	Kubeconfig string   `json:"kubeconfig"`
	Commands   []string `json:"commands"` // What to do there.
}

func (f *twinFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := f.cluster.check(); err != nil {
		return err
	}
	r, _, name, err := f.original.read(ctx, "read", stderr)
	if err != nil {
		return err
	}
	original, err := readOriginal(ctx, r, stderr)
	if err != nil {
		return fmt.Errorf("read the cluster of context %q: %w", name, err)
	}
	say(stderr, "read the cluster of context %q with %d GET requests", name, r.Requests())
	f.choice.Version, f.choice.Pinned = f.cluster.kubernetes, offline.KubernetesVersions()
	made, err := twin.Make(original, f.choice)
	if err != nil {
		return badArguments("nothing was made: %w", err)
	}
	f.cluster.kubernetes = made.Version
	m, err := f.cluster.options(ctx, stderr)
	if err != nil {
		return err
	}
	m.Workers, m.Spec.Flags, m.Spec.Kubelet, m.NoDatabase = made.Workers, made.Flags, made.Kubelet, true
	for _, set := range made.StatefulSets {
		for _, c := range set.Spec.Template.Spec.Containers {
			m.NoDatabase = m.NoDatabase && c.Image != twin.Database
		}
	}
	if made.Driver != nil {
		m.Storages = []string{plan.StorageSharedDisk}
	}
	if exists, err := trial.Exists(ctx, m); err != nil {
		return err
	} else if exists {
		return badArguments("nothing was made: cluster %q exists; `seatrial clean --cluster %s` deletes it, and "+
			"--cluster names another one", m.ClusterName, m.ClusterName)
	}
	place, err := prepare(ctx, m)
	if err != nil {
		return err
	}
	unready, err := f.furnish(ctx, place, m, original, &made, stderr)
	if err != nil {
		return errors.Join(fmt.Errorf("make the twin: %w", err), place.Leave(ctx))
	}
	if err := place.Release(ctx); err != nil {
		say(stderr, "the twin stays locked for up to a minute: %v", err)
	}
	if err := f.write(stdout, name, place, made); err != nil || !unready {
		return err
	}
	return &exitError{code: exitUnknown}
}

// readOriginal reads a cluster, and the configuration of some kubelets, workers first.
func readOriginal(ctx context.Context, r *reader.Reader, stderr io.Writer) (o twin.Original, err error) {
	if o.Cluster, err = r.Read(ctx); err != nil {
		return o, err
	}
	var nodes []string
	for _, n := range o.Nodes {
		nodes = append(nodes, n.Name)
	}
	slices.Reverse(nodes) // By name, the control plane comes first.
	o.Kubelets, err = r.ReadKubelets(ctx, nodes[:min(len(nodes), kubelets)])
	if err != nil {
		say(stderr, "%v", err)
	}
	return o, ctx.Err()
}

// furnish puts the objects on the twin, and adds to what is left out how the twin differs. Unready says that not every
// pod became Ready.
func (f *twinFlags) furnish(ctx context.Context, place *trial.Place, m trial.ClusterOptions, original twin.Original,
	made *twin.Twin, stderr io.Writer,
) (unready bool, err error) {
	say(stderr, "making %d StatefulSets, %d PodDisruptionBudgets, %d StorageClasses", len(made.StatefulSets),
		len(made.Budgets), len(made.Classes))
	err = place.Furnish(ctx, *made, m)
	if unready = errors.Is(err, await.ErrTimeout); err != nil && !unready {
		return false, err
	}
	if unready {
		made.Left = append(made.Left, twin.Left{What: "pods that are Ready", Why: err.Error()})
	}
	config, err := place.ClientConfig(ctx)
	if err != nil {
		return unready, err
	}
	r, err := reader.Open(ctx, config)
	if err != nil {
		return unready, err
	}
	now, err := readOriginal(ctx, r, stderr)
	if err != nil {
		return unready, err
	}
	made.Left = append(made.Left, twin.Differences(original, now)...)
	return unready, nil
}

// write prints the twin and what can be done there.
func (f *twinFlags) write(w io.Writer, context string, place *trial.Place, made twin.Twin) error {
	name := place.Cluster.Name()
	here := fmt.Sprintf("--kubeconfig %s --context kind-%s", place.Kubeconfig(), name)
	t := twinned{Twin: made, Cluster: name, Original: context, Kubeconfig: place.Kubeconfig(), Commands: []string{
		"kubectl " + here + " get pods -A",
		"seatrial certify audit " + here,
		"seatrial clean --cluster " + name,
	}}
	title := fmt.Sprintf("Twin %s of the cluster of context %s: Kubernetes %s, %d workers", name, context, made.Version,
		made.Workers)
	return writeAs(w, f.output, t, []string{name}, func() error {
		return report.WriteTwin(w, title, made, append([]string{"kubeconfig: " + t.Kubeconfig}, t.Commands...))
	})
}
