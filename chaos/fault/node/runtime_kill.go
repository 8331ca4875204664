package node

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/seatrial/seatrial/chaos/await"
	"github.com/seatrial/seatrial/chaos/fault"
	"github.com/seatrial/seatrial/chaos/history"
	"github.com/seatrial/seatrial/chaos/nodeagent"
	"github.com/seatrial/seatrial/chaos/nodeagent/probe"
	"github.com/seatrial/seatrial/chaos/plan"
	"github.com/seatrial/seatrial/clusters"
)

// RuntimeKill kills containerd's main process only: killing the whole unit would also kill the shims in its control
// group. Systemd restarts it after 1 s.
func RuntimeKill() fault.Definition {
	return fault.Plain(fault.Definition{
		Name:    "runtime-kill",
		Summary: "Kills containerd on the victim's node with SIGKILL; containers and their shims keep running.",
		Shown: "The old process is gone, systemd counts one more restart, a later process answers, and the " +
			"workload's processes and their shims go on.",
		Healed: "Systemd restarts it: containerd is active, the kubelet healthy, the node's lease renewed, and " +
			"the node Ready.",
		Needs: []string{"systemd"},
		// The restarted runtime finds its containers through their shims.
		Takes:    []plan.Part{plan.PartRuntime},
		Upstream: "containerd.io/docs: KillMode=process, runtime v2 shims",
	}, func(_ plan.Fault, env fault.Env) (fault.Fault, error) { return newRuntimeKill(env), nil })
}

// shimName is the kernel's name of a shim's process, cut to 15 characters.
const shimName = "containerd-shim"

type runtimeKill struct {
	restart
	pods  probe.Processes // The workload's processes, before the act.
	shims []probe.Process // Their shims.
}

func newRuntimeKill(env fault.Env) *runtimeKill {
	return &runtimeKill{restart: restart{Env: env, service: containerd}}
}

// noteAll records containerd, the workload's processes and their shims.
func (k *runtimeKill) noteAll(ctx context.Context) error {
	err := k.note(ctx)
	if err != nil {
		return err
	}
	if k.pods, err = workload(ctx, k.Env); err != nil {
		return err
	}
	if k.shims, err = shims(ctx, k.Node, k.pods.Processes); err != nil {
		return err
	}
	if len(k.shims) == 0 {
		return fmt.Errorf("none of the %d processes in namespace %q has a shim: none could be shown to go on",
			len(k.pods.Processes), k.Namespace)
	}
	return nil
}

// watched returns the processes that must survive.
func (k *runtimeKill) watched() []probe.Process { return slices.Concat(k.pods.Processes, k.shims) }

func (k *runtimeKill) Inject(ctx context.Context) error {
	if err := k.noteAll(ctx); err != nil {
		return err
	}
	_, err := clusters.Run(ctx, k.Node, "systemctl", "kill", "--kill-who=main", "-s", "KILL", containerd)
	return err
}

// shims returns the shims that are parents of the given processes.
func shims(ctx context.Context, node clusters.Node, of []probe.Process) ([]probe.Process, error) {
	if len(of) == 0 {
		return nil, nil
	}
	list := make([]string, len(of))
	for i, p := range of {
		list[i] = strconv.Itoa(p.PID)
	}
	out, err := clusters.Run(ctx, node, "ps", "-o", "ppid=", "-p", strings.Join(list, ","))
	if err != nil {
		return nil, fmt.Errorf("look for shims: %w", err)
	}
	var parents []int
	for _, text := range strings.Fields(out) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			return nil, fmt.Errorf("look for shims: parent %q: %w", text, err)
		}
		parents = append(parents, pid)
	}
	found, err := nodeagent.On(node).Processes(ctx, probe.Query{PIDs: parents})
	return slices.DeleteFunc(found.Processes, func(p probe.Process) bool { return p.Name != shimName }), err
}

// Confirm shows that the process is gone, that a later one answers, and that the containers survive.
func (k *runtimeKill) Confirm(ctx context.Context) ([]fault.Fact, error) {
	return k.restarted(k.carries, fault.PIDs(k.watched()...)...)(ctx)
}

// carries shows that containerd answers and that the workload's containers survive.
func (k *runtimeKill) carries(ctx context.Context, found probe.Processes) ([]fault.Fact, error) {
	live, err := k.containers(found)
	if err != nil {
		return nil, await.Stop(err)
	}
	if _, err := clusters.Run(ctx, k.Node, "ctr", "version"); err != nil {
		return nil, err
	}
	return append(live, k.Saw(k.Clock(), "the new containerd tells its version")...), nil
}

// containers shows that the workload's containers survive; the error names one that has ended.
func (k *runtimeKill) containers(now probe.Processes) ([]fault.Fact, error) {
	live, ended := survivors(k.pods, now)
	for _, p := range k.shims {
		if !now.Lives(p) {
			ended = &p
		}
	}
	if ended != nil {
		return nil, fmt.Errorf("%s, pid %d, ended with containerd: the containers did not survive", ended.Name,
			ended.PID)
	}
	return fault.Seen(history.At(now.At), "%d of %d processes of the workload's pods go on, and all of their %d shims",
		live, len(k.pods.Processes), len(k.shims)), nil
}

// ConfirmHealed shows that containerd is active, the kubelet healthy and the node Ready.
func (k *runtimeKill) ConfirmHealed(ctx context.Context) ([]fault.Fact, error) {
	return fault.All(ctx, k.UnitActive(containerd, restartBound), kubeletHealthy(k.Env), kubeletActive(k.Env),
		k.NodeBack(&k.leases))
}
