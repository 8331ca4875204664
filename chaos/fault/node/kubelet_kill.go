package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/evidence"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/chaos/probe"
	"github.com/seatrial/seatrial/chaos/trigger"
	"github.com/seatrial/seatrial/clusters"
	"github.com/seatrial/seatrial/e2e/history"
)

// KubeletKill returns the fault that kills the kubelet as the kernel does when memory runs out: with SIGKILL, at any
// moment of whatever it is doing. Its pods go on.
//
// What: systemctl kill -s KILL kubelet. Systemd starts it again after a second. With plan.Fault.When the node itself
// does it, as soon as it sees the call.
//
// Shown: the process with the old pid and start time is gone, systemd counts one restart more, a later process is the
// kubelet, and its health endpoint answers.
//
// Healed: systemd has done it; a kubelet that is not active is started. It is active, the node's lease is renewed by
// the new one, and the node is Ready.
func KubeletKill() fault.Definition {
	return fault.Definition{
		Name:     "kubelet-kill",
		Summary:  "Kills the kubelet of the victim's node with SIGKILL; its pods go on.",
		Shown:    "The old process is gone, systemd counts a restart more, and a later process answers for its health.",
		Healed:   "Systemd starts it again; the kubelet is active, the node's lease renewed by it, and the node Ready.",
		Needs:    []string{"systemd"},
		Triggers: true,
		// What a restarted kubelet has forgotten: volumes that are still mounted.
		Takes:    []plan.Part{plan.PartKubelet},
		Upstream: "k/k#121937",
		New: func(spec plan.Fault, _ int, env fault.Env) (fault.Fault, error) {
			return &kubeletKill{env: env, when: spec.When}, nil
		},
	}
}

// restartBound is how long systemd and the kubelet may take: 1 s of waiting and a few of starting, ten times over.
const restartBound = 40 * time.Second

type kubeletKill struct {
	env      fault.Env
	when     *plan.Await
	trigger  *trigger.Trigger // Nil unless when is set and the node waits.
	fired    []fault.Fact     // When and how the trigger did it.
	restarts int              // Before.
	old      probe.Process    // The one that was killed.
	leases   evidence.Leases  // When the old one was gone: what is renewed then was renewed by the new one.
}

// Inject notes which process is the kubelet, and kills it.
func (k *kubeletKill) Inject(ctx context.Context) error {
	before, old, err := mainProcess(ctx, k.env.Node, kubelet)
	if err != nil {
		return err
	}
	k.restarts, k.old = before.Restarts, old
	kill := []string{"systemctl", "kill", "-s", "KILL", "kubelet"}
	if k.when == nil {
		_, err = clusters.Run(ctx, k.env.Node, kill...)
		return err
	}
	volume, err := evidence.VolumeHandle(ctx, k.env.Kube, k.env.Namespace, k.env.Pod)
	if err != nil {
		return err
	}
	k.trigger, err = trigger.Start(ctx, k.env.Node, *k.when, volume, kill...)
	return err
}

// await waits until the trigger has done it.
func (k *kubeletKill) await(ctx context.Context) error {
	if k.trigger == nil || k.fired != nil {
		return nil
	}
	said, err := k.trigger.Wait(ctx, restartBound)
	if err != nil {
		return err
	}
	k.fired = []fault.Fact{{Span: history.Between(said.Seen, said.Done),
		Sentence: fmt.Sprintf("SIGKILL was sent to the kubelet when %s of volume %s was seen on the node: %s",
			k.when.RPC, k.trigger.Volume(), said)}}
	return nil
}

// Confirm shows that the old process is gone and that a later one serves.
func (k *kubeletKill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	if err := k.await(ctx); err != nil {
		return nil, err
	}
	var facts []fault.Fact
	what := fmt.Sprintf("kubelet pid %d to be gone and a later one to serve", k.old.PID)
	begin := k.env.Clock()
	err := await.Until(ctx, what, 200*time.Millisecond, restartBound,
		func(ctx context.Context) (bool, string, error) {
			seen, state, err := k.killed(ctx, begin)
			facts = seen
			return seen != nil, state, err
		})
	return append(k.fired, facts...), err
}

// killed looks once. It returns no facts until there is one for each thing to be shown.
func (k *kubeletKill) killed(ctx context.Context, begin history.Time) ([]fault.Fact, string, error) {
	now, err := evidence.ReadUnit(ctx, k.env.Node, kubelet)
	if err != nil {
		return nil, "", err
	}
	found, err := processes(ctx, k.env.Node, []int{k.old.PID, now.PID}, nil)
	if err != nil {
		return nil, "", err
	}
	if same(found.Processes, k.old) {
		return nil, fmt.Sprintf("pid %d is still there", k.old.PID), nil
	}
	if k.leases.At == 0 {
		if k.leases, err = evidence.ReadLeases(ctx, k.env); err != nil {
			return nil, "", err
		}
	}
	later, ok := find(found.Processes, now.PID)
	switch {
	case !ok || later.Start < k.old.Start:
		return nil, fmt.Sprintf("the kubelet is %s with pid %d, which is no later process", now.State, now.PID), nil
	case now.Restarts <= k.restarts:
		return nil, fmt.Sprintf("systemd counts %d restarts as before", now.Restarts), nil
	}
	if state, err := unhealthy(ctx, k.env.Node); err != nil || state != "" {
		return nil, state, err
	}
	span := history.Between(begin, found.At)
	return []fault.Fact{
		{Span: span, Sentence: fmt.Sprintf("kubelet pid %d, started at %s, is gone", k.old.PID, k.old.Start)},
		{Span: history.Between(later.Start, found.At),
			Sentence: fmt.Sprintf("kubelet pid %d was started at %s", later.PID, later.Start)},
		{Span: span, Sentence: fmt.Sprintf("systemd counts %d restarts, %d before", now.Restarts, k.restarts)},
		{Span: history.At(k.env.Clock()), Sentence: "the new kubelet says that it is healthy"},
	}, "", nil
}

// Heal has the node wait for nothing any more, and starts the kubelet if systemd does not do it.
func (k *kubeletKill) Heal(ctx context.Context) error {
	if k.trigger != nil {
		if err := k.trigger.Stop(); err != nil {
			return err
		}
		k.trigger = nil
	}
	_, err := clusters.Run(ctx, k.env.Node, "systemctl", "start", "kubelet")
	return err
}

// ConfirmHealed shows that the kubelet is back and that the node is.
func (k *kubeletKill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return kubeletBack(ctx, k.env, k.leases)
}

// unhealthy asks the kubelet for its health, and returns what it says when it is not healthy.
func unhealthy(ctx context.Context, node clusters.Node) (state string, err error) {
	health, err := clusters.Run(ctx, node, "curl", "-fsS", "--max-time", "2", "http://127.0.0.1:10248/healthz")
	if err != nil || strings.TrimSpace(health) == "ok" {
		return "", err
	}
	return fmt.Sprintf("the kubelet's health is %.40q", health), nil
}

// curlTimeout is how curl exits when no answer came in time (curl(1), exit codes).
const curlTimeout = 28

// kubeletHealthy waits until the kubelet says that it is healthy.
func kubeletHealthy(ctx context.Context, env fault.Env) (fault.Fact, error) {
	var fact fault.Fact
	err := await.Until(ctx, "kubelet to be healthy", time.Second, time.Minute,
		func(ctx context.Context) (bool, string, error) {
			begin := env.Clock()
			state, err := unhealthy(ctx, env.Node)
			span := history.Between(begin, env.Clock())
			fact = fault.Fact{Span: span, Sentence: "the kubelet says that it is healthy"}
			return err == nil && state == "", state, err
		})
	return fact, err
}

// kubeletBack shows that the kubelet is back and that the node is. Since is of a moment at which the old kubelet was
// gone; when there was none, whatever is renewed from now on is good enough.
func kubeletBack(ctx context.Context, env fault.Env, since evidence.Leases) ([]fault.Fact, error) {
	active, err := evidence.UnitActive(ctx, env, kubelet, restartBound)
	if err != nil {
		return nil, err
	}
	renewed, err1 := evidence.LeaseRenewed(ctx, env, since, time.Minute)
	ready, err2 := evidence.NodeReady(ctx, env, time.Minute)
	if err := errors.Join(err1, err2); err != nil {
		return []fault.Fact{active}, err
	}
	return []fault.Fact{active, renewed, ready}, nil
}
