package node

import (
	"context"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// KubeletKill kills the kubelet with SIGKILL, as the kernel does when memory runs out; systemd restarts it after 1 s.
// With plan.Fault.When the node itself kills it, as soon as it sees the call.
func KubeletKill() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:     "kubelet-kill",
		Summary:  "Kills the kubelet of the victim's node with SIGKILL; its pods keep running.",
		Shown:    "The old process is gone, systemd counts one more restart, and a later process is healthy.",
		Healed:   "Systemd restarts it: it is active, the node's lease renewed by it, and the node Ready.",
		Needs:    []string{"systemd"},
		Triggers: true,
		// The restarted kubelet has forgotten volumes that are still mounted.
		Takes:    []plan.Part{plan.PartKubelet},
		Upstream: "k/k#121937",
	}, func(spec plan.Fault, env fault.Env) (fault.Fault, error) {
		return &kubeletKill{when: spec.When, restart: restart{Env: env, service: kubelet}}, nil
	})
}

type kubeletKill struct {
	restart
	when    *plan.Await
	trigger *nodeagent.Trigger // Nil unless plan.Fault.When is set and the node waits.
	fired   []fault.Fact       // When and how the trigger killed it.
}

// Inject records the kubelet's process, then kills it or arms the trigger that does.
func (k *kubeletKill) Inject(ctx context.Context) error {
	if err := k.note(ctx); err != nil {
		return err
	}
	kill := []string{"systemctl", "kill", "-s", "KILL", kubelet}
	if k.when == nil {
		_, err := clusters.Run(ctx, k.Node, kill...)
		return err
	}
	volume, err := k.VolumeHandle(ctx)
	if err != nil {
		return err
	}
	k.trigger, err = nodeagent.On(k.Node).Trigger(ctx, *k.when, volume, kill...)
	return err
}

func (k *kubeletKill) triggered(ctx context.Context) ([]fault.Fact, error) {
	if k.trigger == nil || k.fired != nil {
		return k.fired, nil
	}
	said, err := k.trigger.Wait(ctx, restartBound)
	if err != nil {
		return nil, err
	}
	k.fired = fault.Seen(history.Between(said.Seen, said.Done),
		"SIGKILL was sent to the kubelet when %s of volume %s was seen on the node: %s", k.when.RPC,
		k.trigger.Volume, said)
	return k.fired, nil
}

// Confirm shows that the process is gone and that a later one is healthy.
func (k *kubeletKill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	healthy := fault.Judged(k.Env, kubeletHealth(k.Env), isHealthy("the new kubelet"))
	return fault.All(ctx, k.triggered,
		k.restarted(func(ctx context.Context, _ probe.Processes) ([]fault.Fact, error) { return healthy(ctx) }))
}

// Heal stops the trigger, and starts the kubelet if systemd does not.
func (k *kubeletKill) Heal(ctx context.Context) error {
	if k.trigger != nil {
		if err := k.trigger.Stop(); err != nil {
			return err
		}
		k.trigger = nil
	}
	return k.restart.Heal(ctx)
}

// ConfirmHealed shows that the kubelet is active and the node Ready.
func (k *kubeletKill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, kubeletActive(k.Env), k.NodeBack(&k.leases))
}
