package kind

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/seatrial/seatrial/chaos/await"
)

const (
	// stepBound bounds each condition of readiness. On two busy cores none takes a tenth of it.
	stepBound = 90 * time.Second
	askEvery  = 200 * time.Millisecond
	// tryBound bounds one connection or query before it is tried again.
	tryBound = 5 * time.Second

	systemNamespace = "kube-system"
	dnsSelector     = "k8s-app=kube-dns"
	dnsService      = "kube-dns"
	dnsDeployment   = "coredns"
	apiName         = "kubernetes.default.svc.cluster.local."
)

// readiness waits until a cluster works, one condition after the other.
type readiness struct {
	cluster *Cluster
	kube    kubernetes.Interface
	log     *slog.Logger
	nodes   int
	bound   time.Duration // Of each condition.
}

// waitReady waits until all nodes are Ready, DNS is available, a pod on each node reaches a pod on each other node, and
// every DNS pod and the DNS service resolve the API's name for each node.
func waitReady(ctx context.Context, c *Cluster, nodes int) error {
	kubeconfig, err := c.Kubeconfig(ctx)
	if err != nil {
		return err
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig of cluster %q: %w", c.name, err)
	}
	config.QPS, config.Burst = 50, 100
	config.Timeout = 2 * tryBound
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make client of cluster %q: %w", c.name, err)
	}
	r := readiness{cluster: c, kube: kube, log: c.provider.log, nodes: nodes, bound: stepBound}
	if err := r.run(ctx); err != nil {
		return err // Deleting the cluster deletes the probes.
	}
	return r.removeProbes(ctx)
}

// run starts the probe pods first, so that they start while other conditions are waited for.
func (r readiness) run(ctx context.Context) error {
	refused := false
	err := r.wait(ctx, "the API server to take the probe pods", func(ctx context.Context) (bool, string, error) {
		made, state, err := r.makeProbes(ctx)
		refused = errors.Is(err, syscall.ECONNREFUSED)
		return made, state, err
	})
	if err != nil && refused {
		return fmt.Errorf("%w; the server's port is on the loopback of the engine's host: run seatrial there, or give "+
			"its container the host's network (docker run --network=host)", err)
	}
	if err != nil {
		return err
	}
	if err := r.wait(ctx, "all nodes to be Ready", r.nodesReady); err != nil {
		return err
	}
	if err := r.wait(ctx, "DNS to be available", r.dnsAvailable); err != nil {
		return err
	}
	var probes []corev1.Pod
	err = r.wait(ctx, "a probe pod on each node", func(ctx context.Context) (done bool, state string, err error) {
		probes, state, err = r.probePods(ctx)
		return len(probes) == r.nodes, state, err
	})
	if err != nil {
		return err
	}
	servers, want, err := r.dnsServers(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, n := range r.cluster.nodes {
		g.Go(func() error { return r.podsReachPods(ctx, n, probes) })
		g.Go(func() error { return r.dnsAnswers(ctx, n, servers, want) })
	}
	return g.Wait()
}

// wait waits for one condition within its bound and logs how long it took.
func (r readiness) wait(ctx context.Context, condition string, ask await.Condition) error {
	begun := time.Now()
	if err := await.Until(ctx, condition, askEvery, r.bound, ask); err != nil {
		return err
	}
	r.log.Debug("condition holds", "cluster", r.cluster.name, "condition", condition, "took", time.Since(begun))
	return nil
}

func (r readiness) nodesReady(ctx context.Context) (bool, string, error) {
	list, err := r.kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return false, "", err
	}
	var unready []string
	for _, n := range list.Items {
		isReady := func(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }
		i := slices.IndexFunc(n.Status.Conditions, isReady)
		if i < 0 {
			unready = append(unready, n.Name+" (has not reported)")
		} else if c := n.Status.Conditions[i]; c.Status != corev1.ConditionTrue {
			unready = append(unready, fmt.Sprintf("%s (%s)", n.Name, c.Reason))
		}
	}
	state := fmt.Sprintf("%d of %d nodes registered, not Ready: %v", len(list.Items), r.nodes, unready)
	return len(list.Items) == r.nodes && len(unready) == 0, state, nil
}

func (r readiness) dnsAvailable(ctx context.Context) (bool, string, error) {
	d, err := r.kube.AppsV1().Deployments(systemNamespace).Get(ctx, dnsDeployment, metav1.GetOptions{})
	if err != nil {
		return false, "", err
	}
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	state := fmt.Sprintf("%d of %d replicas available", d.Status.AvailableReplicas, want)
	return d.Status.AvailableReplicas == want && d.Status.ObservedGeneration >= d.Generation, state, nil
}

// dnsServers returns the addresses of DNS, service and pods, and the expected answer for the API's name.
func (r readiness) dnsServers(ctx context.Context) (servers []string, want netip.Addr, err error) {
	api, err := r.kube.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, "kubernetes", metav1.GetOptions{})
	if err != nil {
		return nil, want, fmt.Errorf("get the API's service: %w", err)
	}
	if want, err = netip.ParseAddr(api.Spec.ClusterIP); err != nil {
		return nil, want, fmt.Errorf("get the API's service: %w", err)
	}
	dns, err := r.kube.CoreV1().Services(systemNamespace).Get(ctx, dnsService, metav1.GetOptions{})
	if err != nil {
		return nil, want, fmt.Errorf("get the DNS service: %w", err)
	}
	servers = append(servers, net.JoinHostPort(dns.Spec.ClusterIP, "53"))
	pods, err := r.pods(ctx, dnsSelector)
	if err != nil {
		return nil, want, fmt.Errorf("list the DNS pods: %w", err)
	}
	for _, pod := range pods.Items {
		if pod.Status.PodIP != "" {
			servers = append(servers, net.JoinHostPort(pod.Status.PodIP, "53"))
		}
	}
	return servers, want, nil
}

func (r readiness) pods(ctx context.Context, selector string) (*corev1.PodList, error) {
	return r.kube.CoreV1().Pods(systemNamespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
}

// dnsAnswers waits until every server answers a node, over TCP, which Dial always offers.
func (r readiness) dnsAnswers(ctx context.Context, n *node, servers []string, want netip.Addr) error {
	for _, server := range servers {
		resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return n.Dial(ctx, server)
		}}
		condition := fmt.Sprintf("DNS at %s to answer node %q", server, n.name)
		err := r.wait(ctx, condition, func(ctx context.Context) (bool, string, error) {
			ctx, cancel := context.WithTimeout(ctx, tryBound)
			defer cancel()
			got, err := resolver.LookupNetIP(ctx, "ip", apiName)
			if err != nil {
				return false, "", err
			}
			for i := range got {
				got[i] = got[i].Unmap()
			}
			return slices.Contains(got, want),
				fmt.Sprintf("%s is at %v, want %v", strings.TrimSuffix(apiName, "."), got, want), nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
