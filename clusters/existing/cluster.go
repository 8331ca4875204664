package existing

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/clusters/existing/link"
)

const (
	// joinBound is how long one node may take to get the agent, its pod included.
	joinBound = 90 * time.Second
	// listBound bounds each page of a list of the nodes. An address that answers nothing is waited for without one.
	listBound = 20 * time.Second
	// pageSize is how many nodes are asked for at once.
	pageSize = 500
	// atOnce bounds how many nodes are worked on concurrently.
	atOnce = 20
)

// Cluster is an existing cluster. It is safe for concurrent use.
type Cluster struct {
	name       string
	kubeconfig []byte
	config     *rest.Config
	kube       kubernetes.Interface
	exec       podExec
	opts       Options
	log        *slog.Logger
	binary     []byte // The agent.
	session    link.Session
	authority  *link.Authority
	harness    link.Identity

	mu    sync.Mutex
	nodes []*node // Control plane first, then by name.
	can   clusters.Capabilities
}

var _ clusters.Closer = (*Cluster)(nil)

func newCluster(name string, kubeconfig []byte, opts Options, binary []byte) (*Cluster, error) {
	authority, err := link.NewAuthority(time.Now())
	if err != nil {
		return nil, fmt.Errorf("make the session's authority: %w", err)
	}
	harness, err := authority.Harness()
	if err != nil {
		return nil, fmt.Errorf("make the session's identity: %w", err)
	}
	return &Cluster{
		name: name, kubeconfig: kubeconfig, opts: opts, log: opts.Log.With("cluster", name), binary: binary,
		session: link.Session(strings.ToLower(rand.Text()[:10])), authority: authority, harness: harness,
	}, nil
}

// Name returns the name of the context.
func (c *Cluster) Name() string { return c.name }

// Kubeconfig returns a kubeconfig with the one context.
func (c *Cluster) Kubeconfig(context.Context) ([]byte, error) { return c.kubeconfig, nil }

// Capabilities returns what the cluster can do, as found when it was opened.
func (c *Cluster) Capabilities() clusters.Capabilities {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.can
}

// Nodes returns the selected nodes that the cluster had when it was opened, and those that joined it since.
func (c *Cluster) Nodes(ctx context.Context) ([]clusters.Node, error) {
	// Known nodes are reached without an API server.
	if err := c.listNodes(ctx); err != nil && len(c.known()) == 0 {
		return nil, err
	}
	var out []clusters.Node
	for _, n := range c.known() {
		if c.opts.NodeHook != "" {
			out = append(out, powered{n, hook(c.opts.NodeHook)})
		} else {
			out = append(out, n)
		}
	}
	return out, nil
}

func (c *Cluster) known() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.nodes)
}

func (c *Cluster) listNodes(ctx context.Context) error {
	var all []corev1.Node
	for what := (metav1.ListOptions{LabelSelector: c.opts.NodeSelector, Limit: pageSize}); ; {
		list, err := c.listPage(ctx, what)
		if err != nil {
			return fmt.Errorf("list nodes of cluster %q: %w", c.name, err)
		}
		all = append(all, list.Items...)
		if what.Continue = list.Continue; what.Continue == "" {
			break
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, object := range all {
		i := slices.IndexFunc(c.nodes, func(n *node) bool { return n.name == object.Name })
		if i < 0 {
			n := &node{cluster: c, name: object.Name, role: roleOf(object), log: c.log.With("node", object.Name)}
			c.nodes, i = append(c.nodes, n), len(c.nodes)
		}
		c.nodes[i].saw(object)
	}
	slices.SortFunc(c.nodes, func(a, b *node) int {
		return cmp.Or(cmp.Compare(a.role, b.role), cmp.Compare(a.name, b.name)) // "control-plane" is before "worker".
	})
	return nil
}

func (c *Cluster) listPage(ctx context.Context, what metav1.ListOptions) (*corev1.NodeList, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, listBound, fmt.Errorf("no answer within %s", listBound))
	defer cancel()
	list, err := c.kube.CoreV1().Nodes().List(ctx, what)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	return list, err
}

// roleOf reads a node's role from its labels, as kubectl does.
func roleOf(n corev1.Node) clusters.Role {
	for _, label := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		if _, ok := n.Labels[label]; ok {
			return clusters.RoleControlPlane
		}
	}
	return clusters.RoleWorker
}

// join installs the agent on all nodes and finds out what they can do.
func (c *Cluster) join(ctx context.Context) error {
	if err := c.makeNamespace(ctx); err != nil {
		return err
	}
	found := c.each(ctx, func(ctx context.Context, n *node) error { return n.deliver(ctx) })
	reached := false
	for name, err := range found {
		if reached = reached || err == nil; err != nil {
			c.log.Warn("node not reached", "node", name, "error", err)
		}
	}
	if !reached {
		return fmt.Errorf("no node can be reached: %s", firstOf(found))
	}
	can, err := c.ask(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.can = can
	return nil
}

// each calls do for all nodes, atOnce at a time, and returns the errors by node.
func (c *Cluster) each(ctx context.Context, do func(context.Context, *node) error) map[string]error {
	var g errgroup.Group
	g.SetLimit(atOnce)
	var mu sync.Mutex
	out := map[string]error{}
	for _, n := range c.known() {
		g.Go(func() error {
			ctx, cancel := context.WithTimeout(ctx, joinBound)
			defer cancel()
			err := do(ctx, n)
			mu.Lock()
			defer mu.Unlock()
			out[n.name] = err
			return nil
		})
	}
	_ = g.Wait() // The errors are in out.
	return out
}

// joined joins the errors of nodes, in the order of the nodes' names.
func joined(found map[string]error) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if found[name] != nil {
			errs = append(errs, fmt.Errorf("node %q: %w", name, found[name]))
		}
	}
	return errors.Join(errs...)
}

// limits are those of the session on a node.
func (c *Cluster) limits(n *node) link.Limits {
	l := c.opts.Faults
	l.Session, l.Node = c.session, n.name
	allowed := n.role == clusters.RoleWorker || c.opts.FaultControlPlane
	if len(c.opts.FaultNodes) > 0 {
		allowed = slices.Contains(c.opts.FaultNodes, n.name)
	}
	if !allowed {
		l.Faults = nil
	}
	return l
}

// Capabilities returns what any cluster can do as far as is known before it is opened, with a node hook or without.
func Capabilities(hooked bool) clusters.Capabilities {
	can := clusters.Capabilities{Can: []string{
		clusters.CanAPI, clusters.CanNFTables, clusters.CanReboot, clusters.CanReset, clusters.CanStaticPods,
		clusters.CanSystemd,
	}, Cannot: never()}
	if hooked {
		can.Can = append(can.Can, clusters.CanPower)
		delete(can.Cannot, clusters.CanPower)
	}
	return can
}

// never returns what no cluster reached by kubeconfig can do.
func never() map[string]string {
	return map[string]string{
		clusters.CanClock: "whether the nodes have wall clocks of their own is not known by a kubeconfig",
		clusters.CanNetem: "whether the nodes' kernels delay packets is not known by a kubeconfig",
		clusters.CanPower: "nothing stops or starts the nodes of a cluster reached by kubeconfig; name what does by " +
			"--node-hook",
		clusters.CanSharedDir: "the nodes of a cluster reached by kubeconfig share no directory",
		clusters.CanUpgrade: "nothing brings another Kubernetes version to the nodes of a cluster reached by " +
			"kubeconfig",
		clusters.CanTBF:    "whether the nodes' kernels limit bandwidth is not known by a kubeconfig",
		clusters.OneKernel: "the nodes of a cluster reached by kubeconfig have kernels of their own",
	}
}

// adminConf is where kubeadm keeps an administrator's kubeconfig. Other distributions run the control plane as static
// pods, too, but with other files.
const adminConf = "/etc/kubernetes/admin.conf"

// ask finds out what the cluster can do: a capability that one node lacks is the cluster's lack.
func (c *Cluster) ask(ctx context.Context) (clusters.Capabilities, error) {
	can := clusters.Capabilities{Can: []string{clusters.CanAPI}, Cannot: never()}
	answers := c.each(ctx, func(ctx context.Context, n *node) error {
		if _, err := clusters.Run(ctx, n, "nft", "list", "tables"); err != nil {
			return fmt.Errorf("nftables: %w", err)
		}
		return nil
	})
	services := map[string]error{}
	for _, n := range c.known() {
		services[n.name] = n.withoutUnit()
	}
	needs := map[string]map[string]error{
		clusters.CanNFTables: answers, clusters.CanSystemd: services, clusters.CanReboot: services,
		clusters.CanReset: c.ownKernels(ctx, services),
	}
	if c.opts.NodeHook != "" {
		needs[clusters.CanPower] = c.each(ctx, func(ctx context.Context, n *node) error {
			state, err := hook(c.opts.NodeHook).state(ctx, n.name)
			if err == nil && state != clusters.StateRunning {
				err = fmt.Errorf("node hook %s says that it is %s", c.opts.NodeHook, state)
			}
			return err
		})
	}
	for need, found := range needs {
		if why := firstOf(found); why == "" {
			can.Can = append(can.Can, need)
			delete(can.Cannot, need)
		} else {
			can.Cannot[need] = why
		}
	}
	pods, err := c.kube.CoreV1().Pods(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{
		LabelSelector: "component=kube-apiserver",
	})
	if err != nil {
		return can, fmt.Errorf("list the API servers' pods: %w", err)
	}
	static, why := false, "no API server is a static pod of a control-plane node that is used"
	for _, n := range c.known() {
		runs := slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool {
			return p.Spec.NodeName == n.name && p.Annotations[corev1.MirrorPodAnnotationKey] != ""
		})
		if !runs || n.role != clusters.RoleControlPlane {
			continue
		}
		if _, err := clusters.Run(ctx, n, "test", "-f", adminConf); err != nil {
			static, why = false, fmt.Sprintf("kubeadm did not make node %q: %v", n.name, err)
			break
		}
		static = true
	}
	if static {
		can.Can = append(can.Can, clusters.CanStaticPods)
	} else {
		can.Cannot[clusters.CanStaticPods] = why
	}
	slices.Sort(can.Can)
	return can, nil
}

// ownKernels returns why a node cannot be reset: it has no systemd, or shares its kernel.
func (c *Cluster) ownKernels(ctx context.Context, services map[string]error) map[string]error {
	boots, err := c.boots(ctx)
	return c.each(ctx, func(ctx context.Context, n *node) error {
		switch {
		case services[n.name] != nil:
			return services[n.name]
		case err != nil:
			return err
		}
		return n.ownKernel(ctx, boots)
	})
}

// boots returns the boot ids of all nodes of the cluster, by name, also of those that are not used.
func (c *Cluster) boots(ctx context.Context) (map[string]string, error) {
	list, err := c.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the nodes' boot ids: %w", err)
	}
	boots := map[string]string{}
	for _, n := range list.Items {
		boots[n.Name] = n.Status.NodeInfo.BootID
	}
	return boots, nil
}

// firstOf returns the error of the first node, by name, that has one; empty when none has.
func firstOf(found map[string]error) string {
	why, at := "", ""
	for name, err := range found {
		if err != nil && (at == "" || name < at) {
			why, at = fmt.Sprintf("node %q: %v", name, err), name
		}
	}
	return why
}

// Close removes the agents and their pods. It ignores the end of ctx, and may be called again.
func (c *Cluster) Close(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	for _, n := range c.known() {
		n.startNoMore()
	}
	err := joined(c.each(ctx, func(ctx context.Context, n *node) error { return n.leave(ctx) }))
	if err != nil {
		err = fmt.Errorf("remove the agents: %w", err)
	}
	return errors.Join(err, c.removePods(ctx, sessionLabel+"="+string(c.session)))
}

func (c *Cluster) removeOthers(ctx context.Context) error {
	err := joined(c.each(ctx, func(ctx context.Context, n *node) error {
		_, err := clusters.Run(ctx, n, c.session.Program(), "link", "stop-others", string(c.session))
		return err
	}))
	return errors.Join(err, c.removePods(ctx, sessionLabel+"!="+string(c.session)))
}
