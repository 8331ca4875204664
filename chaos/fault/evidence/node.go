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
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/clusters"
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

// Unit is what systemd knows of a service.
type Unit struct {
	PID      int // Of its main process; 0 when there is none.
	Restarts int
	State    string // For example "active (running)".
}

// ReadUnit asks systemd on the node for a service.
func ReadUnit(ctx context.Context, node clusters.Node, name string) (Unit, error) {
	out, err := clusters.Run(ctx, node, "systemctl", "show", name,
		"--property=MainPID,NRestarts,ActiveState,SubState")
	if err != nil {
		return Unit{}, fmt.Errorf("ask for service %q: %w", name, err)
	}
	values := map[string]string{}
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[key] = value
	}
	u := Unit{State: fmt.Sprintf("%s (%s)", values["ActiveState"], values["SubState"])}
	if u.PID, err = strconv.Atoi(values["MainPID"]); err != nil {
		return Unit{}, fmt.Errorf("ask for service %q: MainPID is %q", name, values["MainPID"])
	}
	if u.Restarts, err = strconv.Atoi(values["NRestarts"]); err != nil {
		return Unit{}, fmt.Errorf("ask for service %q: NRestarts is %q", name, values["NRestarts"])
	}
	return u, nil
}

// Running reports whether it runs.
func (u Unit) Running() bool { return u.PID > 0 && u.State == "active (running)" }

// UnitActive waits until a service runs.
func UnitActive(ctx context.Context, env fault.Env, name string, bound time.Duration) (fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, name+" to be active", look, bound, func(ctx context.Context) (bool, string, error) {
		begin := env.Clock()
		u, err := ReadUnit(ctx, env.Node, name)
		if err != nil {
			return false, "", err
		}
		fact = fault.Fact{Span: history.Between(begin, env.Clock()),
			Sentence: fmt.Sprintf("the %s is active with pid %d", name, u.PID)}
		return u.Running(), u.State, nil
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
