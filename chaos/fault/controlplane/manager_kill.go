package controlplane

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/history"
)

// ManagerKill returns the fault that kills the kube-controller-manager with SIGKILL, at any moment of whatever its
// controllers are doing. What they knew and had not written is lost; another begins from what the API says.
//
// What: kill -s KILL of every kube-controller-manager on the nodes of the control plane, whichever node the plan names.
//
// Shown: no process with the old pid is there.
//
// Healed: the kubelet starts it again. On every node of the control plane a later one runs, and the lease of the leader
// is renewed after that was seen: it leads, which takes 15 s for the lease of the one before to be over.
func ManagerKill() fault.Definition {
	return fault.Definition{
		Name:    "manager-kill",
		Summary: "Kills the kube-controller-manager with SIGKILL, whatever the victim.",
		Shown:   "No process with the old pid is there.",
		Healed:  "The kubelet starts it again; a later one runs, and the leader's lease is renewed after that.",
		Needs:   []string{"api", "systemd"},
		// Its controllers must make and delete nothing because of it.
		Takes:    []plan.Part{plan.PartManager},
		Upstream: "kubernetes/kubernetes test/e2e/apps/daemon_restart.go",
		New: func(_ plan.Fault, _ int, env fault.Env) (fault.Fault, error) {
			return &managerKill{env: env}, nil
		},
	}
}

type managerKill struct {
	env fault.Env
	old []process
}

// all returns the kube-controller-managers of all nodes of the control plane, and the nodes that have none.
func (k *managerKill) all(ctx context.Context) (found []process, without []string, err error) {
	nodes, err := k.env.Cluster.Nodes(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	for _, n := range nodes {
		if n.Role() != clusters.RoleControlPlane {
			continue
		}
		here, err := managers(ctx, n)
		if err != nil {
			return nil, nil, err
		}
		if len(here) == 0 {
			without = append(without, n.Name())
		}
		found = append(found, here...)
	}
	return found, without, nil
}

// Inject notes which processes there are, and kills them.
func (k *managerKill) Inject(ctx context.Context) error {
	found, _, err := k.all(ctx)
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("kill %s: none runs", manager)
	}
	k.old = found
	nodes, err := k.env.Cluster.Nodes(ctx)
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var errs []error
	for _, p := range found {
		i := slices.IndexFunc(nodes, func(n clusters.Node) bool { return n.Name() == p.node })
		_, err := clusters.Run(ctx, nodes[i], "kill", "-s", "KILL", p.pid)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// killed reports that a process is one of those that were killed.
func (k *managerKill) killed(p process) bool {
	return slices.ContainsFunc(k.old, func(o process) bool { return o.node == p.node && o.pid == p.pid })
}

// Confirm shows that the old ones are gone.
func (k *managerKill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	var shown []fault.Fact
	what := fmt.Sprintf("the killed %s to be gone", manager)
	err := await.Until(ctx, what, 100*time.Millisecond, restartBound, func(ctx context.Context) (bool, string, error) {
		begin := k.env.Clock()
		found, _, err := k.all(ctx)
		if err != nil {
			return false, "", err
		}
		if i := slices.IndexFunc(found, k.killed); i >= 0 {
			return false, fmt.Sprintf("pid %s is still there", found[i].pid), nil
		}
		shown = nil
		for _, p := range k.old {
			shown = append(shown, fault.Fact{
				Span:     history.Between(begin, k.env.Clock()),
				Sentence: fmt.Sprintf("%s pid %s on node %q is gone", manager, p.pid, p.node),
			})
		}
		return true, "", nil
	})
	return shown, err
}

// Heal leaves it to the kubelet, which starts static pods again.
func (k *managerKill) Heal(context.Context) error { return nil }

// ConfirmHealed shows that later ones run, and that one of them leads.
func (k *managerKill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	var shown []fault.Fact
	var seen []process
	var first leadership
	what := fmt.Sprintf("a later %s to run, and to lead", manager)
	err := await.Until(ctx, what, lookEvery/4, healedBound, func(ctx context.Context) (bool, string, error) {
		begin := k.env.Clock()
		found, without, err := k.all(ctx)
		if err != nil {
			return false, "", err
		}
		if len(without) > 0 || slices.ContainsFunc(found, k.killed) {
			seen = nil
			return false, fmt.Sprintf("none but killed ones on the nodes %s", strings.Join(without, ", ")), nil
		}
		lease, err := readLeadership(ctx, k.env.Kube)
		if err != nil {
			return false, "", err
		}
		if !slices.EqualFunc(seen, found, func(a, b process) bool { return a.node == b.node && a.pid == b.pid }) {
			seen, first = found, lease
		}
		if lease.renewed.Equal(first.renewed) {
			return false, fmt.Sprintf("the lease of %q is not renewed yet", lease.holder), nil
		}
		span := history.Between(begin, k.env.Clock())
		for _, p := range found {
			shown = append(shown, fault.Fact{
				Span: span, Sentence: fmt.Sprintf("%s pid %s on node %q runs", manager, p.pid, p.node),
			})
		}
		shown = append(shown, fault.Fact{Span: span, Sentence: fmt.Sprintf("the lease %s/%s was renewed by %q",
			managerNamespace, manager, lease.holder)})
		return true, "", nil
	})
	return shown, err
}
