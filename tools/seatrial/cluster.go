package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/lock"
	"github.com/seatrial/seatrial/clusters/offline"
	"github.com/seatrial/seatrial/e2e/certify/reader"
	"github.com/seatrial/seatrial/e2e/trial"
)

const defaultCluster = "seatrial"

// clusterFlags select the cluster and its images.
type clusterFlags struct {
	name       string
	reuse      bool
	kubernetes string
	image      string
	database   string
	cache      string
	agreed     bool // To changes of this host.
	untouched  bool // This host must not change.
	access     accessFlags
	yes        string // The context whose cluster may be broken.
	faultNodes []string
	budget     time.Duration // Of all faults; 0 is what the plans need.
	times      int           // How often the plans are carried out; 0 is once.
}

// accessFlags reach an existing cluster, as kubectl does.
type accessFlags struct {
	kubeconfig, context, namespace, agentImage, nodeHook, nodes string
}

func (f *accessFlags) register(cmd *cobra.Command) {
	f.registerContext(cmd)
	f.registerNodes(cmd)
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "",
		"namespace of the agents' pods on an existing cluster (default: a new one)")
	cmd.Flags().StringVar(&f.agentImage, "agent-image", "",
		"image of the agents' pods; it must run until it is stopped (default: the nodes' pause image)")
	cmd.Flags().StringVar(&f.nodeHook, "node-hook", "",
		"a program with power over the nodes, called as HOOK state|stop|kill|start|pause|unpause NODE; "+
			"see docs/existing-clusters.md")
}

// registerContext adds the flags of commands that put nothing into the cluster.
func (f *accessFlags) registerContext(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubeconfig, "kubeconfig", "",
		"use the existing cluster of this kubeconfig, which is never made or deleted")
	cmd.Flags().StringVar(&f.context, "context", "",
		"use the existing cluster of this context (default with --kubeconfig: its current one)")
}

func (f *accessFlags) registerNodes(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.nodes, "node-selector", "",
		"use only the nodes of an existing cluster with these labels, as kubectl's --selector has them (default: all)")
}

// client returns a client of the cluster, for what is read before anything is touched.
func (f *accessFlags) client() (kubernetes.Interface, error) {
	config, err := clientConfig(f.kubeconfig, f.context)
	if err != nil {
		return nil, err
	}
	config.Timeout = readBound
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, badArguments("--kubeconfig: make a client of the cluster: %w", err)
	}
	return kube, nil
}

// check holds the flags against each other and the kubeconfig, before anything is shown. Those of an existing cluster
// are refused without one.
func (f *accessFlags) check() error {
	if f.given() {
		_, _, err := f.access(io.Discard)
		return err
	}
	return refuse("is for a cluster named by --kubeconfig or --context", flagSet{"namespace", f.namespace != ""},
		flagSet{"agent-image", f.agentImage != ""}, flagSet{"node-hook", f.nodeHook != ""},
		flagSet{"node-selector", f.nodes != ""})
}

type flagSet struct {
	name string
	set  bool
}

// refuse refuses the first of the flags that is set.
func refuse(why string, flags ...flagSet) error {
	for _, f := range flags {
		if f.set {
			return badArguments("--%s %s", f.name, why)
		}
	}
	return nil
}

// readBound bounds one request of client.
const readBound = 20 * time.Second

// given reports whether an existing cluster is used.
func (f *accessFlags) given() bool { return f.kubeconfig != "" || f.context != "" }

// access returns how the cluster is reached, and the name of the context.
func (f *accessFlags) access(out io.Writer) (trial.Access, string, error) {
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelInfo})) // Tells the channels.
	a := trial.Access{
		Kubeconfig: f.kubeconfig, Namespace: f.namespace, AgentImage: f.agentImage, NodeSelector: f.nodes, Log: log,
	}
	if _, err := labels.Parse(f.nodes); err != nil {
		return a, "", badArguments("--node-selector: %w; write for example pool=database,!spot", err)
	}
	if f.nodeHook != "" { // A watchdog calls it from another directory.
		path, err := exec.LookPath(f.nodeHook)
		if err == nil {
			a.NodeHook, err = filepath.Abs(path)
		}
		if err != nil {
			return a, "", badArguments("--node-hook: %w; name a program", err)
		}
	}
	name, err := trial.ContextName(a, f.context)
	if err != nil {
		return a, name, badArguments("--kubeconfig, --context: %w", err)
	}
	return a, name, nil
}

// read returns a reader of the cluster, how it is reached, and the name of the context. What says what it is for.
func (f *accessFlags) read(ctx context.Context, what string, out io.Writer) (
	*reader.Reader, trial.Access, string, error,
) {
	a, name, err := f.access(out)
	if err != nil {
		return nil, a, name, err
	}
	config, err := clientConfig(f.kubeconfig, name)
	if err != nil {
		return nil, a, name, err
	}
	r, err := reader.Open(ctx, config)
	if err != nil {
		err = fmt.Errorf("%s the cluster of context %q: %w", what, name, err)
	}
	return r, a, name, err
}

// clientConfig returns the configuration of a client for a context of a kubeconfig, the current one for an empty name.
func clientConfig(kubeconfig, context string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		if _, why := trial.ContextName(trial.Access{Kubeconfig: kubeconfig}, context); why != nil {
			err = why
		}
		return nil, badArguments("--kubeconfig, --context: %w", err)
	}
	return config, nil
}

func (f *clusterFlags) register(cmd *cobra.Command) {
	f.registerImages(cmd)
	f.access.register(cmd)
	cmd.Flags().StringVar(&f.yes, "yes-context", "",
		"confirm that the existing cluster of this context may be broken; without it nothing is touched")
	cmd.Flags().StringSliceVar(&f.faultNodes, "fault-nodes", nil,
		"the only nodes of an existing cluster that faults may strike (default: its workers, and its control plane "+
			"for faults of that)")
	cmd.Flags().DurationVar(&f.budget, "fault-budget", 0,
		"how long faults on an existing cluster may last, added up (default: what the plan needs)")
	cmd.Flags().StringVar(&f.name, "cluster", defaultCluster, "name of the kind cluster")
	completeFlag(cmd, "cluster", completeClusters)
	cmd.Flags().BoolVar(&f.reuse, "reuse", false, "use the cluster of that name if it exists, and keep it")
}

func (f *clusterFlags) registerImages(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.kubernetes, "kubernetes-version", "",
		"version of the node image (default: the plan's, or "+offline.DefaultKubernetesVersion+")")
	cmd.Flags().StringVar(&f.image, "node-image", "auto",
		"auto, published (pull kindest/node), build (from Go modules and Debian packages), or an image of a kind node "+
			"in a registry")
	cmd.Flags().StringVar(&f.database, "database-image", "auto",
		"auto, build (from Debian packages), published (pull mysql:9), or an image of MySQL 8.4 or 9 in a registry")
	completeFlag(cmd, "node-image", oneOf("auto", "published", "build"))
	completeFlag(cmd, "database-image", oneOf("auto", "build", "published"))
	completeFlag(cmd, "kubernetes-version", oneOf(offline.KubernetesVersions()...))
	cmd.Flags().StringVar(&f.cache, "cache", "",
		"directory for builds (default: seatrial below the user's cache directory)")
	cmd.Flags().BoolVar(&f.agreed, "yes", false,
		"install packages and start a container engine without a question, where they are missing")
	cmd.Flags().BoolVar(&f.untouched, "no-host-changes", false,
		"change nothing on this host but files of seatrial; name the command for what is missing")
}

// images are the flags that name images in the place of those that are chosen.
func (f *clusterFlags) images() string {
	var named []string
	for _, flag := range [][2]string{{"--node-image", f.image}, {"--database-image", f.database}} {
		if flag[1] != "auto" {
			named = append(named, flag[0]+" "+flag[1])
		}
	}
	return strings.Join(named, " ")
}

// consent is what the flags agree to. At a terminal, what they leave open is asked.
func (f *clusterFlags) consent(stderr io.Writer) (offline.Consent, error) {
	switch {
	case f.agreed && f.untouched:
		return offline.Consent{}, badArguments("--yes and --no-host-changes exclude each other")
	case f.agreed:
		return offline.Consent{Changes: "yes"}, nil
	case f.untouched:
		return offline.Consent{Changes: "no"}, nil
	}
	return offline.Consent{Ask: func(open *offline.ChangesError) bool {
		if !terminal(os.Stdin) {
			return false
		}
		fmt.Fprint(stderr, visible("This host must be changed first:\n  "+strings.Join(open.Changes, "\n  ")+
			"\nGo on? [y/N] "))
		var answer string
		_, err := fmt.Scanln(&answer)
		return err == nil && slices.Contains([]string{"y", "yes"}, strings.ToLower(answer))
	}}, nil
}

// check holds the flags against each other before a plan is shown.
func (f *clusterFlags) check() error {
	err := errors.Join(offline.ValidateImages(f.kubernetes, f.image), offline.ValidateDatabase(f.database))
	if err != nil {
		return badArguments("%w", err)
	}
	if err := f.access.check(); err != nil {
		return err
	}
	if !f.access.given() {
		if err := clusters.ValidateName(f.name); f.name != "" && err != nil { // Setup makes no cluster.
			return badArguments("--cluster: %w", err)
		}
		return refuse("is for a cluster named by --kubeconfig or --context", flagSet{"yes-context", f.yes != ""},
			flagSet{"fault-nodes", len(f.faultNodes) > 0}, flagSet{"fault-budget", f.budget != 0})
	}
	return refuse("is for a cluster that is made, not for one named by --kubeconfig or --context",
		flagSet{"cluster", f.name != defaultCluster}, flagSet{"node-image", f.image != "auto"},
		flagSet{"kubernetes-version", f.kubernetes != ""})
}

// options finds or makes the container engine and returns the options of a cluster that all plans fit on; only the
// first may name a Kubernetes version.
func (f *clusterFlags) options(
	ctx context.Context, stderr io.Writer, plans ...plan.Plan,
) (m trial.ClusterOptions, err error) {
	var first plan.Plan
	if len(plans) > 0 {
		first = plans[0]
	}
	m = trial.OptionsFor(plans...)
	m.CacheDir, m.DatabaseImage, m.Progress = f.cache, f.database, stderr
	if m.Program, err = os.Executable(); err != nil { // Its watchdog outlives the trial.
		return m, fmt.Errorf("find this program: %w", err)
	}
	if err := f.check(); err != nil {
		return m, err
	}
	if f.access.given() {
		err := f.existing(&m, stderr, plans)
		return m, err
	}
	if m.Consent, err = f.consent(stderr); err != nil {
		return m, err
	}
	if m.KubernetesVersion, err = f.version(first); err != nil {
		return m, err
	}
	if err := unused(f.name); err != nil {
		return m, err
	}
	m.Log = quiet(stderr)
	found, err := offline.Tool{Progress: stderr, Log: m.Log, Consent: m.Consent}.EnsureEngine(ctx)
	if err != nil {
		return m, fmt.Errorf("set up the host: %w", err)
	}
	m.Engine, m.ClusterName, m.ImageSource, m.Reuse = found.Path, f.name, f.image, f.reuse
	m.Upgrades = first.Upgrades()
	return m, nil
}

// version returns the version of the cluster: the plan's, if it has one. Versions that the plan upgrades to must be
// known.
func (f *clusterFlags) version(p plan.Plan) (string, error) {
	if p.Kubernetes != "" && f.kubernetes != "" && f.kubernetes != p.Kubernetes {
		return "", badArguments("--kubernetes-version is %s, and the plan begins with %s: give one of them",
			f.kubernetes, p.Kubernetes)
	}
	if offline.IsReference(f.image) && len(p.Upgrades()) > 0 {
		return "", badArguments("--node-image %s: an upgrade takes its programs from images of all its versions; use "+
			"auto, published or build", f.image)
	}
	for _, v := range append(p.Upgrades(), p.Kubernetes, f.kubernetes) {
		if err := offline.ValidateImages(v, f.image); err != nil {
			return "", badArguments("%w", err)
		}
	}
	return cmp.Or(p.Kubernetes, f.kubernetes, offline.TaggedVersion(f.image), offline.DefaultKubernetesVersion), nil
}

// existing completes the options of a cluster that exists. No container engine is needed.
func (f *clusterFlags) existing(m *trial.ClusterOptions, stderr io.Writer, plans []plan.Plan) error {
	access, name, err := f.access.access(stderr)
	if err != nil {
		return err
	}
	if err := confirmed(f.yes, name, "carry this plan out on"); err != nil {
		return err
	}
	m.Access, m.ClusterName, m.Log = &access, name, access.Log
	m.Bound(trial.AllParts(), max(f.times, 1), plans...)
	m.Access.FaultNodes = f.faultNodes
	if need := m.Access.Faults.Total; f.budget != 0 && f.budget < need {
		return badArguments("nothing was touched: --fault-budget is %s, and the faults of the plan may last %s, added "+
			"up: give that, or leave it out", f.budget, need)
	}
	return unused(url.PathEscape(name))
}

// confirmed returns an error unless yes names the context whose cluster is touched.
func confirmed(yes, name, do string) error {
	switch yes {
	case name:
		return nil
	case "":
		return badArguments("nothing was touched: to %s the cluster of context %q, which puts a privileged pod and a "+
			"service on each of its nodes, add --yes-context %q", do, name, name)
	}
	return badArguments("--yes-context is %q, and the context is %q: nothing was touched", yes, name)
}

// unused returns an error if another harness on this host uses the cluster. It takes no lock: it fails before the
// search for an engine, which can take seconds on a busy machine.
func unused(cluster string) error {
	dir, err := lock.Dir()
	if err != nil {
		return err
	}
	holder, used, err := lock.Used(dir, cluster)
	if err == nil && used {
		return badArguments("%w", &lock.TakenError{Cluster: cluster, Holder: holder})
	}
	return err
}

// prepare opens or makes the cluster. A cluster in use is a bad argument: wait, or name another one.
func prepare(ctx context.Context, m trial.ClusterOptions) (*trial.Place, error) {
	place, err := trial.Prepare(ctx, m)
	if _, taken := errors.AsType[*lock.TakenError](err); taken {
		return nil, badArguments("%w", err)
	}
	told := m.Progress
	if lane, ok := told.(laneWriter); ok {
		told = lane.Writer
	}
	if n, ok := told.(*narrator); ok && err == nil {
		n.follow(place)
	}
	return place, err
}
