package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/fault/evidence"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
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
			return &kubeletKill{env: env, when: spec.When, restart: restart{service: kubelet}}, nil
		},
	}
}

type kubeletKill struct {
	env     fault.Env
	when    *plan.Await
	trigger *nodeagent.Trigger // Nil unless when is set and the node waits.
	fired   []fault.Fact       // When and how the trigger did it.
	restart
}

// Inject notes which process is the kubelet, and kills it.
func (k *kubeletKill) Inject(ctx context.Context) error {
	if err := k.note(ctx, k.env.Node); err != nil {
		return err
	}
	kill := []string{"systemctl", "kill", "-s", "KILL", "kubelet"}
	if k.when == nil {
		_, err := clusters.Run(ctx, k.env.Node, kill...)
		return err
	}
	volume, err := evidence.VolumeHandle(ctx, k.env.Kube, k.env.Namespace, k.env.Pod)
	if err != nil {
		return err
	}
	k.trigger, err = nodeagent.StartTrigger(ctx, k.env.Node, *k.when, volume, kill...)
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
	facts, err := k.shown(ctx, k.env, k.healthy)
	return append(k.fired, facts...), err
}

// healthy shows that the kubelet says that it is healthy.
func (k *kubeletKill) healthy(ctx context.Context, _ probe.Processes) ([]fault.Fact, string, error) {
	state, err := unhealthy(ctx, k.env.Node)
	return []fault.Fact{
		{Span: history.At(k.env.Clock()), Sentence: "the new kubelet says that it is healthy"},
	}, state, err
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
