package node

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// KubeProxyKill kills kube-proxy on a node, possibly while it writes rules into the kernel. Written rules stay; the
// node misses changes of Services until kube-proxy is back. The kubelet restarts it after its back-off.
func KubeProxyKill() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "kube-proxy-kill",
		Summary: "Kills kube-proxy on the victim's node with SIGKILL; the rules that it wrote stay.",
		Shown:   "The old process is gone, and the kubelet reports that its container ended.",
		Healed: "The kubelet restarts it: a later process in another container, healthy on every address that " +
			"answered before.",
		Needs: []string{"api", "systemd"},
		// Services must work afterwards as before.
		Takes:    []plan.Part{plan.PartProxy},
		Upstream: "kubernetes/kubernetes test/e2e/apps/daemon_restart.go",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return &kubeProxyKill{Env: env}, nil })
}

const (
	kubeProxy          = "kube-proxy"
	kubeProxyNamespace = "kube-system"
	kubeProxyLabel     = "k8s-app=kube-proxy" // Set by kubeadm.
	// proxyBackBound is how long a restart may take: the kubelet's back-off doubles from 10 s with each kill, and this
	// covers the fourth.
	proxyBackBound = 150 * time.Second
)

type kubeProxyKill struct {
	fault.Env
	old       probe.Processes
	container string // The killed container's id.
	witness   witness
}

func (k *kubeProxyKill) proxies(ctx context.Context) (probe.Processes, error) {
	return nodeagent.On(k.Node).Processes(ctx, probe.Query{Programs: []string{kubeProxy}})
}

// running returns the id of the running kube-proxy container on the victim, empty if there is none.
func (k *kubeProxyKill) running(ctx context.Context) (string, error) {
	list, err := k.Kube.CoreV1().Pods(kubeProxyNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: kubeProxyLabel, FieldSelector: "spec.nodeName=" + k.Node.Name(),
	})
	if err != nil {
		return "", fmt.Errorf("list pods of %s: %w", kubeProxy, err)
	}
	for _, p := range list.Items {
		i := slices.IndexFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == kubeProxy && c.State.Running != nil
		})
		if i >= 0 && p.Spec.NodeName == k.Node.Name() {
			return p.Status.ContainerStatuses[i].ContainerID, nil
		}
	}
	return "", nil
}

// Inject records the process and a node that it answers, then kills it.
func (k *kubeProxyKill) Inject(ctx context.Context) error {
	found, err := k.proxies(ctx)
	if err != nil {
		return err
	}
	if len(found.Processes) == 0 {
		return fmt.Errorf("kill %s: none runs on node %q", kubeProxy, k.Node.Name())
	}
	if k.container, err = k.running(ctx); err != nil {
		return err
	}
	if k.container == "" {
		return fmt.Errorf("kill %s: no container of it runs on node %q", kubeProxy, k.Node.Name())
	}
	if k.witness, err = newWitness(ctx, k.Env, "http", proxyPort, false); err != nil {
		return err
	}
	k.old = found
	_, err = clusters.Run(ctx, k.Node, undo.Signal("KILL", k.old.Processes...)...)
	return err
}

// Confirm shows that the process is gone and that the kubelet has noticed.
func (k *kubeProxyKill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	ended := fault.Judged(k.Env, k.running, func(now string) (string, error) {
		if now == k.container {
			return "", fault.NotYet("its container is still reported running")
		}
		return fmt.Sprintf("container %.24s of %s does not run any more", k.container, kubeProxy), nil
	})
	return fault.All(ctx,
		fault.Await("the killed "+kubeProxy+" to be gone", 100*time.Millisecond, stopBound,
			k.Gone(begin, k.old.Processes...)),
		fault.Await("the kubelet to see that its container ended", 500*time.Millisecond, restartBound, ended))
}

// Heal does nothing: the kubelet restarts kube-proxy.
func (k *kubeProxyKill) Heal(context.Context) error { return nil }

// ConfirmHealed shows that a later process runs in a new container and reports healthy.
func (k *kubeProxyKill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, fault.Await("another "+kubeProxy+" to run", time.Second, proxyBackBound, k.again),
		k.witness.health)
}

// again checks that a later process runs in a new container.
func (k *kubeProxyKill) again(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	now, err := k.running(ctx)
	switch {
	case err != nil:
		return nil, err
	case now == "" || now == k.container:
		return nil, fault.NotYet("its container is %q", now)
	}
	found, err := k.proxies(ctx)
	if err != nil {
		return nil, err
	}
	var facts []fault.Fact
	for _, p := range found.Processes {
		if k.old.Lives(p) {
			return nil, fault.NotYet("pid %d is still there", p.PID)
		}
		facts = append(facts, k.Saw(begin, "%s pid %d, started at %s, runs in container %.24s", kubeProxy, p.PID,
			p.Start, now)...)
	}
	if len(facts) == 0 {
		return nil, fault.NotYet("no process of it runs")
	}
	return facts, nil
}
