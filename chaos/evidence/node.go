package evidence

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/history"
)

// NodeReady waits until the victim is Ready. Its condition is stale while its lease is: wait for that first.
func NodeReady(ctx context.Context, env fault.Env, bound time.Duration) (fault.Fact, error) {
	name := env.Node.Name()
	var fact fault.Fact
	what := fmt.Sprintf("node %q to be Ready", name)
	err := await.Until(ctx, what, look, bound, func(ctx context.Context) (bool, string, error) {
		begin := env.Clock()
		node, err := env.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, "", fmt.Errorf("get node: %w", err)
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady {
				state := fmt.Sprintf("Ready is %s: %s", c.Status, c.Reason)
				fact = fault.Fact{Span: history.Between(begin, env.Clock()),
					Sentence: fmt.Sprintf("node %q is Ready", name)}
				return c.Status == corev1.ConditionTrue, state, nil
			}
		}
		return false, "it has no condition Ready", nil
	})
	return fact, err
}

// Kubelet is what systemd knows of the kubelet.
type Kubelet struct {
	PID      int // 0 when there is none.
	Restarts int
	State    string // For example "active (running)".
}

// ReadKubelet asks systemd on the node.
func ReadKubelet(ctx context.Context, node clusters.Node) (Kubelet, error) {
	out, err := clusters.Run(ctx, node, "systemctl", "show", "kubelet",
		"--property=MainPID,NRestarts,ActiveState,SubState")
	if err != nil {
		return Kubelet{}, fmt.Errorf("ask for the kubelet: %w", err)
	}
	values := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	k := Kubelet{State: fmt.Sprintf("%s (%s)", values["ActiveState"], values["SubState"])}
	if k.PID, err = strconv.Atoi(values["MainPID"]); err != nil {
		return Kubelet{}, fmt.Errorf("ask for the kubelet: MainPID is %q", values["MainPID"])
	}
	if k.Restarts, err = strconv.Atoi(values["NRestarts"]); err != nil {
		return Kubelet{}, fmt.Errorf("ask for the kubelet: NRestarts is %q", values["NRestarts"])
	}
	return k, nil
}

// Running reports whether it runs.
func (k Kubelet) Running() bool { return k.PID > 0 && k.State == "active (running)" }

// KubeletActive waits until the kubelet runs.
func KubeletActive(ctx context.Context, env fault.Env, bound time.Duration) (fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, "kubelet to be active", look, bound, func(ctx context.Context) (bool, string, error) {
		begin := env.Clock()
		k, err := ReadKubelet(ctx, env.Node)
		if err != nil {
			return false, "", err
		}
		fact = fault.Fact{Span: history.Between(begin, env.Clock()),
			Sentence: fmt.Sprintf("the kubelet is active with pid %d", k.PID)}
		return k.Running(), k.State, nil
	})
	return fact, err
}

// PodCIDRs returns the ranges of addresses that a node's pods have; none when the network plugin does not say.
func PodCIDRs(ctx context.Context, env fault.Env, node string) ([]netip.Prefix, error) {
	n, err := env.Kube.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("get node %q: %w", node, err)
	}
	var out []netip.Prefix
	for _, text := range n.Spec.PodCIDRs {
		cidr, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("get node %q: pod range: %w", node, err)
		}
		out = append(out, cidr)
	}
	return out, nil
}
