package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/undo"
	"github.com/seatrial/seatrial/clusters"
)

// KubeProxyKill returns the fault that kills kube-proxy on a node, at any moment of whatever it is writing into the
// kernel. What it has written stays; what changes until it is back, the node's packets do not know of.
//
// What: SIGKILL to kube-proxy's process, which ends its container.
//
// Shown: no process with the old pid and start time is there, and the kubelet has seen the old container end.
//
// Healed: the kubelet starts another container, after its back-off. Its process is a later one, and where the old one
// told another node that it was well, over either family, it does so again.
func KubeProxyKill() fault.Definition {
	return fault.Definition{
		Name:    "kube-proxy-kill",
		Summary: "Kills kube-proxy on the victim's node with SIGKILL; the rules that it wrote stay.",
		Shown:   "The old process is gone, and the kubelet has seen its container end.",
		Healed: "The kubelet starts it again: a later process and another container, and it says that it is well " +
			"wherever it did, over either family.",
		Needs: []string{"api", "systemd"},
		// Services must work on afterwards as before.
		Takes:    []plan.Part{plan.PartProxy},
		Upstream: "kubernetes/kubernetes test/e2e/apps/daemon_restart.go",
		New: func(_ plan.Fault, _ int, env fault.Env) (fault.Fault, error) {
			return &kubeProxyKill{env: env}, nil
		},
	}
}

const (
	kubeProxy          = "kube-proxy"
	kubeProxyNamespace = "kube-system"
	kubeProxyLabel     = "k8s-app=kube-proxy" // As kubeadm labels it.
	// proxyBackBound is how long the kubelet may wait before it starts it again: its back-off doubles from 10 s with
	// each kill, and this is room for the fourth.
	proxyBackBound = 150 * time.Second
)

type kubeProxyKill struct {
	env       fault.Env
	old       []probe.Process
	container string // The id of the old one.
	witness   witness
}

// proxies returns the processes of kube-proxy on the victim.
func (k *kubeProxyKill) proxies(ctx context.Context) (probe.Processes, error) {
	var found probe.Processes
	out, err := clusters.Run(ctx, k.env.Node, undo.AgentPath, "probe", "process", "--program", kubeProxy)
	if err != nil {
		return found, fmt.Errorf("look for %s: %w", kubeProxy, err)
	}
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		return found, fmt.Errorf("look for %s: decode answer %.80q: %w", kubeProxy, out, err)
	}
	return found, nil
}

// running returns the id of kube-proxy's container on the victim, empty when none runs.
func (k *kubeProxyKill) running(ctx context.Context) (string, error) {
	list, err := k.env.Kube.CoreV1().Pods(kubeProxyNamespace).List(ctx, metav1.ListOptions{
		LabelSelector: kubeProxyLabel, FieldSelector: "spec.nodeName=" + k.env.Node.Name(),
	})
	if err != nil {
		return "", fmt.Errorf("list pods of %s: %w", kubeProxy, err)
	}
	for _, p := range list.Items {
		i := slices.IndexFunc(p.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool {
			return c.Name == kubeProxy && c.State.Running != nil
		})
		if i >= 0 && p.Spec.NodeName == k.env.Node.Name() {
			return p.Status.ContainerStatuses[i].ContainerID, nil
		}
	}
	return "", nil
}

// Inject notes which process it is and whom it answers, and kills it.
func (k *kubeProxyKill) Inject(ctx context.Context) error {
	found, err := k.proxies(ctx)
	if err != nil {
		return err
	}
	if len(found.Processes) == 0 {
		return fmt.Errorf("kill %s: none runs on node %q", kubeProxy, k.env.Node.Name())
	}
	if k.container, err = k.running(ctx); err != nil {
		return err
	}
	if k.container == "" {
		return fmt.Errorf("kill %s: no pod of it runs on node %q, whose container could be shown to end", kubeProxy,
			k.env.Node.Name())
	}
	if k.witness, err = newWitness(ctx, k.env, "http", proxyPort, false); err != nil {
		return err
	}
	k.old = found.Processes
	argv := []string{"kill", "-s", "KILL"}
	for _, p := range k.old {
		argv = append(argv, strconv.Itoa(p.PID))
	}
	_, err = clusters.Run(ctx, k.env.Node, argv...)
	return err
}

// Confirm shows that the old process is gone, and that the kubelet has seen it.
func (k *kubeProxyKill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	begin := k.env.Clock()
	err := await.Until(ctx, "the killed "+kubeProxy+" to be gone", 100*time.Millisecond, stopBound,
		func(ctx context.Context) (bool, string, error) {
			now, err := processes(ctx, k.env.Node, pidsOf(k.old...), nil)
			if err != nil {
				return false, "", err
			}
			facts = nil
			for _, p := range k.old {
				if same(now.Processes, p) {
					return false, fmt.Sprintf("pid %d is still there", p.PID), nil
				}
				facts = append(facts, fault.Fact{Span: history.Between(begin, now.At),
					Sentence: fmt.Sprintf("%s pid %d, started at %s, is gone", kubeProxy, p.PID, p.Start)})
			}
			return true, "", nil
		})
	if err != nil {
		return nil, err
	}
	err = await.Until(ctx, "the kubelet to see that its container ended", 500*time.Millisecond, restartBound,
		func(ctx context.Context) (bool, string, error) {
			now, err := k.running(ctx)
			if err != nil || now == k.container {
				return false, "it is shown to run", err
			}
			facts = append(facts, fault.Fact{Span: history.Between(begin, k.env.Clock()),
				Sentence: fmt.Sprintf("container %.24s of %s does not run any more", k.container, kubeProxy)})
			return true, "", nil
		})
	return facts, err
}

// Heal leaves it to the kubelet, which starts it again.
func (k *kubeProxyKill) Heal(context.Context) error { return nil }

// ConfirmHealed shows that a later one runs, in another container, and that it is well.
func (k *kubeProxyKill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var facts []fault.Fact
	err := await.Until(ctx, "another "+kubeProxy+" to run", time.Second, proxyBackBound,
		func(ctx context.Context) (bool, string, error) {
			begin := k.env.Clock()
			now, err := k.running(ctx)
			if err != nil || now == "" || now == k.container {
				return false, fmt.Sprintf("its container is %q", now), err
			}
			found, err := k.proxies(ctx)
			if err != nil {
				return false, "", err
			}
			facts = nil
			for _, p := range found.Processes {
				if same(k.old, p) {
					return false, fmt.Sprintf("pid %d is still there", p.PID), nil
				}
				facts = append(facts, fault.Fact{Span: history.Between(begin, k.env.Clock()), Sentence: fmt.Sprintf(
					"%s pid %d, started at %s, runs in container %.24s", kubeProxy, p.PID, p.Start, now)})
			}
			return len(facts) > 0, "no process of it runs", nil
		})
	if err != nil || k.witness.node == nil {
		return facts, err
	}
	well, err := k.witness.health(ctx, k.env.Clock, restartBound)
	return append(facts, well...), err
}
