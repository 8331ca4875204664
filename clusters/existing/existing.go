// Package existing opens any cluster by a kubeconfig, and never makes or deletes one. A command runs in a node's own
// namespaces, as argv and through no shell. Everything put into the cluster for that bears a label and is removed by
// Close, or by Clean after a crash.
//
// # Channels
//
// A node is reached through our agent, by one of two channels. Both speak the protocol of package link.
//
//   - A: pods/exec into a privileged pod, made from the pause image that the node has anyway, and from there into the
//     namespaces of the node's first process. It needs API server, kubelet and runtime, and installs the agent.
//   - B: the agent as a systemd unit of the node that listens with mutual TLS, reached at the node's address or through
//     the agent of another node. It works while kubelet, runtime or API server are dead. The certificates are made for
//     each session, and their keys stay in the memory of both sides. A session lasts a day at most.
//
// B is used wherever it can be reached. After a reboot A starts it again.
package existing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/existing/link"
	"github.com/seatrial/seatrial/clusters/program"
)

// Options say how a cluster is reached.
type Options struct {
	Kubeconfig string // As kubectl's flag: empty is $KUBECONFIG, else ~/.kube/config.
	Namespace  string // Where the agents' pods are. Empty is one of their own, made for the session.
	AgentImage string // For the agents' pods: an image that runs until it is stopped. Empty is the nodes' pause image.
	Log        *slog.Logger
	// NodeSelector is a label query, as kubectl's -l: only these nodes belong to the cluster, as far as the session
	// goes, and get an agent. Empty is all.
	NodeSelector string
	// NodeHook is the path of a program that has power over the nodes; see hook. Empty is none.
	NodeHook string

	// Faults bounds what the session may do to each node. Without names of faults it may do no harm. Session and Node
	// are set for each node.
	Faults link.Limits
	// FaultNodes is the allow-list of nodes; empty is all workers, and the control plane with FaultControlPlane.
	FaultNodes        []string
	FaultControlPlane bool
}

// Provider opens existing clusters.
type Provider struct {
	opts Options
}

var _ clusters.Provider = (*Provider)(nil)

// New returns a provider. It reads nothing yet.
func New(opts Options) (*Provider, error) {
	if opts.Log == nil {
		return nil, errors.New("make provider existing: Options.Log is nil; pass a logger")
	}
	return &Provider{opts: opts}, nil
}

// Name returns "existing".
func (p *Provider) Name() string { return "existing" }

// Open opens the cluster of a context of the kubeconfig, by default the current one, and installs the agent on its
// nodes. A node that cannot be reached is no error, unless all are: a command on it tries again. The caller closes the
// cluster.
func (p *Provider) Open(ctx context.Context, name string) (clusters.Cluster, error) {
	c, err := p.open(ctx, name)
	if err != nil {
		return nil, err
	}
	return c, nil
}

func (p *Provider) open(ctx context.Context, name string) (*Cluster, error) {
	fail := func(err error) (*Cluster, error) { return nil, fmt.Errorf("open cluster %q: %w", name, err) }
	name, kubeconfig, err := access(p.opts.Kubeconfig, name)
	if err != nil {
		return fail(err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return fail(fmt.Errorf("read kubeconfig: %w", err))
	}
	config.QPS, config.Burst = 50, 100
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fail(fmt.Errorf("make client: %w", err))
	}
	path, err := program.Agent().Find(ctx, p.opts.Log)
	if err != nil {
		return fail(err)
	}
	binary, err := os.ReadFile(path)
	if err != nil {
		return fail(fmt.Errorf("read agent: %w", err))
	}
	c, err := newCluster(name, kubeconfig, p.opts, binary)
	if err != nil {
		return fail(err)
	}
	c.config, c.kube, c.exec = config, kube, c.execInto
	if err := c.listNodes(ctx); err != nil { // Nothing was made that Close would have to wait for.
		return fail(err)
	}
	if err := c.join(ctx); err != nil {
		return fail(errors.Join(err, c.Close(ctx)))
	}
	return c, nil
}

// access reads a kubeconfig as kubectl does. It returns the name of the context, by default the current one, and a
// kubeconfig of that context alone that needs no other file.
func access(file, name string) (string, []byte, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	raw, err := rules.Load()
	if err != nil {
		return name, nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if name == "" {
		name = raw.CurrentContext
	}
	if raw.Contexts[name] == nil {
		what := fmt.Sprintf("context %q is not in the kubeconfig", name)
		if name == "" {
			what = "there is no current context in the kubeconfig"
		}
		known := strings.Join(slices.Sorted(maps.Keys(raw.Contexts)), ", ")
		return name, nil, fmt.Errorf("%w: %s (%s), which has: %s", clusters.ErrNotFound, what,
			strings.Join(rules.GetLoadingPrecedence(), ", "), cmp.Or(known, "none"))
	}
	raw.CurrentContext = name
	if err := clientcmdapi.MinifyConfig(raw); err != nil {
		return name, nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := clientcmdapi.FlattenConfig(raw); err != nil {
		return name, nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	text, err := clientcmd.Write(*raw)
	if err != nil {
		return name, nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return name, text, nil
}

// ContextName returns the name of a context of a kubeconfig, the current one for an empty name, or an error that wraps
// clusters.ErrNotFound.
func ContextName(kubeconfig, name string) (string, error) {
	name, _, err := access(kubeconfig, name)
	return name, err
}

// Clean removes what other sessions left in the cluster of a context, also those that still run.
func (p *Provider) Clean(ctx context.Context, name string) error {
	c, err := p.open(ctx, name)
	if err != nil {
		return err
	}
	return errors.Join(c.removeOthers(ctx), c.Close(ctx))
}
