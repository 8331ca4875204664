package node

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// ContainerKill has containerd send SIGKILL to the first process of a container of the victim's pod, which ends all its
// processes. The pod and its volumes stay, and the kubelet restarts the container.
func ContainerKill() fault.Definition {
	return fault.Define(fault.Definition{
		Name:    "container-kill",
		Summary: "Kills a container of the victim's pod with SIGKILL; the pod stays.",
		Shown:   "The container's first process is gone by pid and start time, and the runtime has no task of it.",
		Healed: "The kubelet starts another container in the same pod, with another id, a later process and one more " +
			"restart; the pod is Ready.",
		Needs: []string{"systemd"},
		// Chaos Mesh's container-kill.
		Takes:    []plan.Part{plan.PartContainer},
		Upstream: "chaos-mesh.org PodChaos container-kill; k/k#93651",
	}, func(p containerParams, _ plan.Fault, env fault.Env) (fault.Fault, error) {
		return &containerKill{container{Env: env, name: cmp.Or(p.Container, env.Container)}}, nil
	})
}

const (
	// taskBound is how long the runtime may take to send a signal and notice the exit; it takes well under 1 s.
	taskBound = 20 * time.Second
	// againBound covers the kubelet's crash-loop back-off after several exits within the bounds of the guard; its
	// maximum is 5 min (KEP-4603).
	againBound = 170 * time.Second
)

type containerKill struct{ container }

func (k *containerKill) Inject(ctx context.Context) error {
	if err := k.note(ctx); err != nil {
		return err
	}
	_, err := clusters.Run(ctx, k.Node, tasks("kill", "--signal", "SIGKILL", k.old)...)
	return err
}

func (k *containerKill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("container %q, id %.12s, pid %d, to be gone", k.name, k.old, k.process.PID)
	begin := k.Clock()
	task := func(ctx context.Context) (int, error) { return k.task(ctx, k.old) }
	none := func(pid int) (string, error) {
		if pid != 0 {
			return "", fault.NotYet("containerd runs it with pid %d", pid)
		}
		return fmt.Sprintf("containerd runs no task of container %q, id %.12s", k.name, k.old), nil
	}
	return fault.Until(ctx, what, 100*time.Millisecond, taskBound, k.Gone(begin, k.process),
		fault.Judged(k.Env, task, none))
}

// Heal does nothing: the kubelet restarts the container.
func (k *containerKill) Heal(context.Context) error { return nil }

func (k *containerKill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	what := fmt.Sprintf("container %q of pod %q to run and be Ready", k.name, k.Namespace+"/"+k.Pod)
	return fault.Until(ctx, what, 500*time.Millisecond, againBound, k.again)
}

// again checks that a new container runs in the pod.
func (k *containerKill) again(ctx context.Context) ([]fault.Fact, error) {
	begin := k.Clock()
	c, pod, err := k.status(ctx)
	if err != nil {
		return nil, err
	}
	_, id, _ := strings.Cut(c.ContainerID, "://")
	switch {
	case k.old != "" && string(pod.UID) == k.pod && (id == k.old || c.RestartCount <= k.restarts):
		return nil, fault.NotYet("id %.12s, %d restarts, %d before", id, c.RestartCount, k.restarts)
	case c.State.Running == nil && c.State.Waiting != nil:
		return nil, fault.NotYet("it waits: %s", c.State.Waiting.Reason)
	case c.State.Running == nil:
		return nil, fault.NotYet("it does not run")
	case !fault.Ready(pod):
		return nil, fault.NotYet("its pod is not Ready")
	}
	id, p, err := k.running(ctx, c)
	if err != nil {
		return nil, err
	}
	if k.old != "" && p.Start < k.process.Start {
		return nil, fault.NotYet("pid %d was started before the one that was killed", p.PID)
	}
	return append(k.Saw(p.Start, "container %q is id %.12s, %s pid %d, started at %s", c.Name, id, p.Name, p.PID,
		p.Start),
		k.Saw(begin, "pod %q (uid %s) is Ready; its container was restarted %d times, %d before",
			pod.Namespace+"/"+pod.Name, pod.UID, c.RestartCount, k.restarts)...), nil
}
